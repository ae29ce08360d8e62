/** Syntax colours for the code in answers: late, where somebody looks, and never another text. */
import { highlight } from "../lib/highlight.js";

const PLAIN = "pre.code > code[class]:not([data-coloured])";
const LATER = 300;
const AHEAD = "600px 0px";

const idle = globalThis.requestIdleCallback ?? ((act) => setTimeout(act, 50));

export class Colours {
  constructor(log) {
    this.log = log;
    this.observer = new IntersectionObserver((seen) => this.saw(seen), { rootMargin: AHEAD });
  }

  /** After each painting: what was painted anew has lost its colours, and is found again. */
  update() {
    this.later ??= setTimeout(() => {
      this.later = undefined;
      const isWritten = (code) => !code.closest("[data-streaming]");
      [...this.log.querySelectorAll(PLAIN)].filter(isWritten).forEach((code) => this.observer.observe(code));
    }, LATER);
  }

  saw(seen) {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      this.observer.unobserve(target);
      idle(() => colour(target));
    }
  }
}

function colour(code) {
  const language = code.className.match(/language-(\S+)/)?.[1];
  const coloured = code.isConnected && !code.closest("[data-streaming]") && highlight(code.textContent, language);
  code.dataset.coloured = "";
  if (coloured) code.replaceChildren(coloured);
}
