const MAX_REST_MS = 500;

/**
 * Run a task in the next frame, once for all requests before it. After a frame that took long, the next one waits as
 * long, so that half of the time remains for input.
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
        this.restUntil = end + Math.min(MAX_REST_MS, end - begin);
      });
    });
  }
}
