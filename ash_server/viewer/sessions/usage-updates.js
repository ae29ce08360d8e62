import { loadUsage } from "../lib/session-usage.js";

const DELAY_MS = 5_000;

/** Loads the usage of sessions that grow: it is not part of their changes. */
export class UsageUpdates {
  /** The timers of sessions. @type {Map<string, number>} */
  timers = new Map();

  /** @param {(id: string, usage: {usage: any, totalUsage?: any}) => void} apply */
  constructor(apply) {
    this.apply = apply;
  }

  /** Load the usage of a session, at most once in a while. */
  updateSoon(id) {
    if (this.timers.has(id)) return;
    const load = () => {
      this.timers.delete(id);
      this.load(id).catch(() => undefined);
    };
    this.timers.set(id, setTimeout(load, DELAY_MS));
  }

  async load(id) {
    const row = await loadUsage(id);
    if (row) this.apply(id, { usage: row, totalUsage: row.withSubagents });
  }
}
