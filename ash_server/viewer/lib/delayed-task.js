/** The delay, compared with the duration of the last run. */
const DELAY_SHARE = 10;

/** Run a task some time after it is requested, once for all requests. A task that takes long is run less often. */
export class DelayedTask {
  /** @type {number | undefined} */
  timer;

  /**
   * @param {() => void} run
   * @param {number} delayMs
   * @param {() => number} [now]
   */
  constructor(run, delayMs, now = () => performance.now()) {
    this.run = run;
    this.minDelayMs = this.delayMs = delayMs;
    this.now = now;
  }

  request() {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      const begin = this.now();
      this.run();
      this.delayMs = Math.max(this.minDelayMs, DELAY_SHARE * (this.now() - begin));
    }, this.delayMs);
  }
}
