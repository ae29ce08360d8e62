/** Changes of sessions that arrive while a list is loaded: it may have been read before them. */
export class MissedChanges {
  /** The last change of each session; undefined for one that was deleted. @type {Map<string, any> | undefined} */
  pending;

  /** @param {string} id */
  note(id, session) {
    this.pending?.set(id, session);
  }

  /**
   * Load a list, and return it with the changes that have arrived meanwhile.
   *
   * @template T
   * @param {() => Promise<T>} load
   */
  async during(load) {
    /** @type {Map<string, any>} */
    const changes = (this.pending = new Map());
    try {
      return { page: await load(), changes };
    } finally {
      if (this.pending === changes) this.pending = undefined; // unless a later list is being loaded
    }
  }
}
