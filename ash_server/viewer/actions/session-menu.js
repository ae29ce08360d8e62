import { getJson, messageOf, sendJson } from "../lib/api.js";
import { copyText } from "../lib/clipboard.js";
import { compareAddress } from "../lib/compare-address.js";
import { button } from "../lib/dom.js";
import { isPlain } from "../lib/plain-text.js";
import { continueElsewhere } from "./continue-dialog.js";
import { editNote, editTags, renameSession } from "./label-dialogs.js";
import { MenuPopup } from "./menu-popup.js";
import { ownKey, refusalOf } from "./own-key.js";
import { shareSession } from "./share-dialog.js";

const NO_LABELS = { starred: false, archived: false, tags: [], note: "" };
const OPENING_MS = 300;
const RESUME = "Copy the resume command";

/**
 * The menu of a session: continue, compare, label and share it. The same in the list and on the page of a session.
 */
export class SessionMenu {
  popup = new MenuPopup();
  /** The last button that was clicked. @type {HTMLElement | undefined} */
  opening;
  /** Changes are sent one after the other. @type {Promise<any>} */
  sending = Promise.resolve();

  /**
   * @param {{get: (id: string) => any, show: (session: any) => void, announce: (text: string) => void}} page `get`
   *   returns the session as it is shown; `show` shows a changed one
   */
  constructor(page) {
    this.page = page;
  }

  /**
   * A button that opens the menu.
   *
   * @param {string} id
   * @param {Record<string, any>} attributes
   * @param {string | null} label
   */
  opener(id, attributes, label) {
    const opener = button({ ...attributes, "aria-haspopup": "menu", "aria-expanded": "false" }, label, () => {
      if (this.popup.opener === opener) this.popup.close();
      else this.open(opener, id);
    });
    return opener;
  }

  /**
   * Open the menu once the resume command and the scopes of the key are loaded, or after a short time: entries should
   * not move below the pointer.
   */
  async open(opener, id) {
    /** @type {{key?: any, resume?: any}} */
    const known = {};
    this.opening = opener;
    const resume = getJson(`/api/sessions/${id}/resume`).catch((problem) => ({ reason: messageOf(problem) }));
    const loading = Promise.all([
      ownKey().then((key) => (known.key = key)),
      resume.then((value) => (known.resume = value)),
    ]);
    await Promise.race([loading, new Promise((done) => setTimeout(done, OPENING_MS))]);
    if (this.opening !== opener) return;
    const entries = () => this.entries(this.page.get(id) ?? { id }, known);
    this.popup.open(opener, "Actions", entries());
    await loading;
    if (this.popup.opener === opener) this.popup.fill(entries());
  }

  /**
   * @param {any} session
   * @param {{key?: any, resume?: any}} known
   * @returns {import("./menu-popup.js").MenuEntry[]}
   */
  entries(session, { key, resume }) {
    const { id, labels = NO_LABELS } = session;
    const reason = refusalOf(key, "write");
    const withoutKeys = key && key.name === undefined && "Sharing needs a key: create one with “ash keys create”.";
    const set = (changes) => this.setLabels(id, changes);
    return [
      this.resumeEntry(resume),
      { label: "Continue in another agent…", run: () => continueElsewhere(session) },
      { label: "Compare with…", run: () => location.assign(compareAddress({ a: id })) },
      labels.starred
        ? { label: "Remove the star", reason, run: () => this.announceFailure(set({ starred: false })) }
        : { label: "Star", reason, run: () => this.announceFailure(set({ starred: true })) },
      { label: "Tags…", reason, run: () => editTags(() => this.page.get(id), set) },
      { label: "Note…", reason, run: () => editNote(session, (note) => set({ note })) },
      { label: "Rename…", reason, run: () => renameSession(session, (title) => this.rename(id, title)) },
      labels.archived
        ? { label: "Unarchive", reason, run: () => this.announceFailure(set({ archived: false })) }
        : { label: "Archive", reason, run: () => this.announceFailure(set({ archived: true })) },
      {
        label: "Share…",
        reason: withoutKeys || refusalOf(key, "share"),
        run: () => shareSession(session, key),
      },
    ];
  }

  resumeEntry(resume) {
    if (!resume) return { label: RESUME, reason: "…" };
    const { command, arguments: words, machine, reason } = resume;
    const line = command ?? words?.join(" ");
    if (line === undefined) return { label: RESUME, reason: reason ?? "No command is known." };
    if (!isPlain(line)) return { label: RESUME, reason: "The command contains control or bidirectional characters." };
    const place = [machine && `on ${machine}`, command === undefined && "in the folder of the session"].filter(Boolean);
    const note = place.length ? `To run ${place.join(", ")}` : undefined;
    return { label: RESUME, detail: line, note, run: () => this.copy(line) };
  }

  async copy(line) {
    this.page.announce((await copyText(line)) ? "Command copied" : "The browser does not allow copying");
  }

  setLabels(id, changes) {
    const shown = (session) => ({ labels: withChanges(session.labels ?? NO_LABELS, changes) });
    return this.change(id, shown, () => sendJson("PATCH", `/api/sessions/${id}/labels`, changes));
  }

  rename(id, title) {
    return this.change(id, () => ({ title }), () => sendJson("PATCH", `/api/sessions/${id}`, { title }));
  }

  /**
   * Show a change at once, and send it; a failure restores what was shown before. Returns the message of a failure.
   *
   * @param {string} id
   * @param {(session: any) => any} shown
   * @param {() => Promise<any>} send
   * @returns {Promise<string | undefined>}
   */
  change(id, shown, send) {
    const run = async () => {
      const before = this.page.get(id) ?? {};
      this.show(id, shown(before));
      try {
        const { labels, title } = await send();
        this.show(id, { labels, title });
      } catch (problem) {
        this.show(id, { labels: before.labels, title: before.title });
        return messageOf(problem);
      }
    };
    this.sending = this.sending.then(run);
    return this.sending;
  }

  show(id, changes) {
    const session = this.page.get(id);
    if (session) this.page.show({ ...session, ...changes });
  }

  async announceFailure(changing) {
    const failure = await changing;
    if (failure !== undefined) this.page.announce(`Not changed: ${failure}`);
  }
}

function withChanges(labels, { addTags = [], removeTags = [], ...changes }) {
  const kept = labels.tags.filter((tag) => !removeTags.includes(tag) && !addTags.includes(tag));
  return { ...labels, ...changes, tags: [...kept, ...addTags] };
}
