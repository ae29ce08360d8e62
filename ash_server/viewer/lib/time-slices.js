/** Long work in slices: between them the browser paints and handles input. */

const SLICE_MS = 12;

/** @typedef {{now?: () => number, pause?: () => Promise<void>}} Clock */

/**
 * Repeat a small step until it returns false, with a pause after each slice.
 *
 * @param {() => boolean} step
 * @param {Clock} [clock]
 */
export async function inSlices(step, { now = timeNow, pause = nextTask } = {}) {
  let end = now() + SLICE_MS;
  while (step()) {
    if (now() < end) continue;
    await pause();
    end = now() + SLICE_MS;
  }
}

/** The size of batches that take about the same time each, though the machine or the content is slower. */
export class BatchSize {
  /**
   * @param {{first: number, min: number, max: number, goalMs: number}} limits
   * @param {Clock} [clock]
   */
  constructor({ first, ...limits }, { now = timeNow } = {}) {
    this.value = first;
    this.limits = limits;
    this.now = now;
  }

  /** Run a batch of this size: its time decides the size of the next one. */
  measure(run) {
    const { min, max, goalMs } = this.limits;
    const begin = this.now();
    run();
    const factor = Math.min(2, Math.max(0.25, goalMs / (this.now() - begin || 1)));
    this.value = Math.round(Math.min(max, Math.max(min, this.value * factor)));
  }
}

function timeNow() {
  return performance.now();
}

const channel = new MessageChannel();
/** @type {(() => void)[]} */
const waiting = [];
channel.port1.addEventListener("message", () => waiting.shift()?.());
channel.port1.start();

/** Resolves in another task. Timers would wait for some milliseconds each. */
export function nextTask() {
  return /** @type {Promise<void>} */ (
    new Promise((done) => {
      waiting.push(done);
      channel.port2.postMessage(undefined);
    })
  );
}
