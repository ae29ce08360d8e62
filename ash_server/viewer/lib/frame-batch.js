const MAX_REST_MS = 750;
/** The rest after a frame, compared with its duration: the page also reads its stream meanwhile. */
const REST_SHARE = 1.5;

/**
 * Run a task in the next frame, once for all requests before it. After a frame that took long, the next one waits
 * longer, so that half of the time remains for input.
 */
export class FrameBatch {
  isPending = false;
  restUntil = 0;

  /** @param {() => void} run */
  constructor(run) {
    this.run = run;
  }

  request() {
    if (this.isPending) return;
    this.isPending = true;
    const rest = this.restUntil - performance.now();
    if (rest > 0) setTimeout(() => this.schedule(), rest);
    else this.schedule();
  }

  schedule() {
    requestAnimationFrame(() => {
      this.isPending = false;
      const begin = performance.now();
      this.run();
      // The timer runs after the frame is laid out and painted.
      setTimeout(() => {
        const end = performance.now();
        this.restUntil = end + Math.min(MAX_REST_MS, REST_SHARE * (end - begin));
      });
    });
  }
}
