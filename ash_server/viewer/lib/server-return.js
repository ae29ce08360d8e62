/** Retry what failed because the server was not reachable, as soon as it answers again. */

const HEALTH = "/health/ready";
const MIN_DELAY_MS = 1_000;
const MAX_DELAY_MS = 15_000;

/**
 * Call `retry` when the server answers, if the problem is that it did not, and if the notice is still shown then.
 *
 * @param {any} problem of api.js
 * @param {Element} notice
 * @param {() => any} retry
 */
export function retryWhenBack(problem, notice, retry) {
  if (problem.isUnreachable) askUntilBack(notice, retry, MIN_DELAY_MS);
}

async function askUntilBack(notice, retry, delay) {
  await pause(delay);
  if (!notice.isConnected) return;
  if (await isBack()) retry();
  else askUntilBack(notice, retry, Math.min(2 * delay, MAX_DELAY_MS));
}

/** Wait, but not longer than until the network is back. */
function pause(delay) {
  return /** @type {Promise<void>} */ (
    new Promise((done) => {
      setTimeout(done, delay);
      addEventListener("online", () => done(), { once: true });
    })
  );
}

async function isBack() {
  try {
    return (await fetch(HEALTH, { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
