/** Highlight code blocks of answers in the background, when they are near the screen and complete. */
import { highlight } from "../lib/highlight.js";

const PLAIN_CODE = "pre.code > code[class]:not([data-coloured])";
const DELAY_MS = 300;
const ROOT_MARGIN = "600px 0px";

const whenIdle = globalThis.requestIdleCallback ?? ((act) => setTimeout(act, 50));

export class SyntaxColours {
  /** @type {number | undefined} */
  timer;

  /** @param {HTMLElement} log */
  constructor(log) {
    this.log = log;
    this.observer = new IntersectionObserver((entries) => this.onIntersection(entries), { rootMargin: ROOT_MARGIN });
  }

  /** Observe new code blocks, after each painting: repainting removes the colours. */
  update() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const isComplete = (code) => !code.closest("[data-streaming]");
      [...this.log.querySelectorAll(PLAIN_CODE)].filter(isComplete).forEach((code) => this.observer.observe(code));
    }, DELAY_MS);
  }

  onIntersection(entries) {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      this.observer.unobserve(target);
      whenIdle(() => highlightElement(target));
    }
  }
}

function highlightElement(code) {
  const language = code.className.match(/language-(\S+)/)?.[1];
  const coloured = code.isConnected && !code.closest("[data-streaming]") && highlight(code.textContent, language);
  code.dataset.coloured = "";
  if (coloured) code.replaceChildren(coloured);
}
