import { getJson } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { alertLine, closeButton, editText, openDialog } from "./dialog.js";

const MAX_TITLE = 1000;
const MAX_TAG = 100;
const MAX_NOTE = 64 * 1024;

/**
 * @param {any} session
 * @param {(title: string) => Promise<string | undefined>} save
 */
export function renameSession({ title = "" }, save) {
  const field = el("input", { type: "text", maxlength: MAX_TITLE, required: true, dir: "auto" });
  field.value = title;
  editText("Rename", field, "Title", save);
  field.select();
}

/**
 * @param {any} session
 * @param {(note: string) => Promise<string | undefined>} save
 */
export function editNote({ labels }, save) {
  const field = el("textarea", { maxlength: MAX_NOTE, rows: 8, dir: "auto" });
  field.value = labels?.note ?? "";
  editText("Note", field, "Markdown; empty removes the note", save);
}

/**
 * Add and remove tags; each change is saved at once. `save` returns the message of a failure.
 *
 * @param {() => any} session the session as it is shown
 * @param {(changes: {addTags?: string[], removeTags?: string[]}) => Promise<string | undefined>} save
 */
export function editTags(session, save) {
  const field = el("input", { type: "text", maxlength: MAX_TAG, list: "known-tags", dir: "auto", autocomplete: "off" });
  const known = el("datalist", { id: "known-tags" });
  const shown = el("ul", { class: "action-tags", "aria-label": "Tags" });
  const alert = alertLine();
  const show = () => {
    const tags = session()?.labels?.tags ?? [];
    shown.replaceChildren(...tags.map((tag) => el("li", {}, removeButton(tag, () => change({ removeTags: [tag] })))));
    shown.hidden = !tags.length;
  };
  const change = async (changes) => {
    const saving = save(changes);
    show();
    alert.textContent = (await saving) ?? "";
    show();
    if (!shown.contains(document.activeElement)) field.focus();
    return !alert.textContent;
  };
  const form = el(
    "form",
    {},
    shown,
    el("label", {}, el("span", {}, "New tag"), el("div", { class: "action-add" }, field, el("button", {}, "Add"))),
    known,
    alert,
    el("div", { class: "action-buttons" }, closeButton("Done")),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const tag = field.value.trim();
    field.value = "";
    if (tag && !(await change({ addTags: [tag] }))) field.value ||= tag;
  });
  show();
  openDialog("Tags", form);
  field.focus();
  getJson("/api/tags").then(
    ({ tags }) => known.append(...tags.map(({ name }) => el("option", { value: name }))),
    () => undefined, // without suggestions
  );
}

function removeButton(tag, remove) {
  const element = button({ class: "tag", title: `Remove ${tag}`, "aria-label": `Remove ${tag}` }, null, remove);
  element.append(el("bdi", {}, tag), el("span", { "aria-hidden": "true" }, "×"));
  return element;
}
