import { morphChildren } from "./dom.js";
import { closedLength, isTooLarge, markdown, reachesAcrossBlocks } from "./markdown.js";
import { openEnd } from "./markdown/open-end.js";

/**
 * Show a Markdown text that grows at its end, with the same elements as `markdown`. Closed blocks keep their elements:
 * only the text after them is parsed. Plain text is appended to the last paragraph or fence without parsing it again.
 */
export class GrowingMarkdown {
  text = "";
  /** The length of the closed blocks, and the number of their nodes. */
  closed = { length: 0, nodes: 0 };
  /** @type {ReturnType<typeof openEnd>} */
  end;

  /** @param {Element} parent contains only the elements of the text */
  constructor(parent) {
    this.parent = parent;
  }

  /** @param {string} text */
  update(text) {
    const isLonger = text.startsWith(this.text);
    const added = text.slice(this.text.length);
    this.text = text;
    const isLarge = isTooLarge(text);
    if (isLonger && !isLarge && this.end?.append(added)) return;
    if (!isLonger) this.closed = { length: 0, nodes: 0 };
    const rest = text.slice(this.closed.length);
    const hasParts = !isLarge && !reachesAcrossBlocks(rest) && !rest.includes("\r");
    if (!hasParts) this.closed = { length: 0, nodes: 0 };
    this.replaceRest([...markdown(hasParts ? rest : text).childNodes]);
    if (hasParts) this.close(rest);
    this.end = hasParts ? openEnd(text.slice(this.closed.length), this.parent) : undefined;
  }

  /** Replace the nodes after the closed blocks. */
  replaceRest(fresh) {
    const { parent } = this;
    const { nodes: first } = this.closed;
    const old = [...parent.childNodes].slice(first);
    const nodes = morphChildren(old, fresh);
    const kept = new Set(nodes);
    old.forEach((node) => kept.has(node) || node.remove());
    nodes.forEach((node, index) => {
      const current = parent.childNodes[first + index] ?? null;
      if (current !== node) parent.insertBefore(node, current);
    });
  }

  /** Close the blocks before the last one. The end of a line may change the block that it belongs to. */
  close(rest) {
    const length = closedLength(rest.slice(0, rest.lastIndexOf("\n") + 1));
    if (!length) return;
    const { childNodes } = markdown(rest.slice(0, length));
    this.closed = { length: this.closed.length + length, nodes: this.closed.nodes + childNodes.length };
  }
}
