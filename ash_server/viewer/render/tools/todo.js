/** Task lists. */
import { el } from "../../lib/dom.js";
import { valueView } from "../content-blocks.js";
import { decodeJson } from "./call.js";
import { aside, note, prose, settings } from "./body-parts.js";
import { splitText, structuredOf } from "./call-result.js";
import { markHidden } from "../../lib/hidden-characters.js";
import { FieldReader, fieldOf, isDisplayableList, isEmpty, isEqual, isString, textField } from "../../lib/json-fields.js";

const LISTS = ["todos", "plan", "items", "newTodos", "tasks"];
const TEXT = ["content", "step", "text", "title", "subject", "description"];
const REASON = ["explanation", "subject", "description"];
const STATES = {
  done: ["completed", "complete", "done", "finished"],
  active: ["inprogress", "active", "doing", "running", "started"],
  cancelled: ["cancelled", "canceled", "skipped", "deleted"],
  open: ["pending", "open", "todo", "notstarted", ""],
};
const STATE_OF = new Map(
  Object.entries(STATES).flatMap(([state, words]) => words.map((word) => [word, state])),
);
const WORDS = { done: "done: ", active: "being done: ", cancelled: "cancelled: ", open: "to do: " };

/** @type {import("./registry.js").Tool} */
export const todo = {
  gist(args) {
    const active = readItems(listIn(args))?.find(({ state }) => state === "active");
    const task = fieldOf(args, ["taskId", "task_id", "id"], (each) => isString(each) || Number.isInteger(each));
    const update = [task !== undefined && `#${task}`, textField(args, "status")].filter(Boolean).join(" ");
    return active?.text ?? textField(args, ...REASON) ?? (listIn(args) ? "" : update || undefined);
  },

  outcome({ args, last }) {
    const items = readItems(listOf(last)) ?? readItems(listIn(args)) ?? [];
    const done = items.filter(({ state }) => state === "done").length;
    return [items.length > 0 && `${done} of ${items.length} done`];
  },

  args(reader) {
    const plan = reader.text("plan");
    if (plan !== undefined) return [prose(plan)];
    const list = reader.take(LISTS, readItems);
    const reason = reader.text(...REASON);
    if (!list && reason === undefined) return undefined;
    return [reason && note(reason), ...(list ? checklist(list) : []), settings(reader)];
  },

  result(result, { args }) {
    const list = listOf(result);
    const isNew = list !== undefined && !isEqual(list, listIn(args));
    const isListItself = readItems(decodeJson(splitText(result.value)?.text)) !== undefined;
    return [...(isListItself && isNew ? [] : valueView(result.value)), ...(isNew ? checklist(list) : [])];
  },
};

/** The value itself or its field that is a task list. */
function listIn(value) {
  return readItems(value) ? value : fieldOf(value, LISTS, readItems);
}

function listOf(result) {
  const structured = structuredOf(result);
  const inText = () => listIn(decodeJson(splitText(result?.value)?.text));
  return listIn(fieldOf(structured, ["newTodos"])) ?? listIn(structured) ?? inText();
}

/** The items of a task list; undefined for other values. */
function readItems(list) {
  if (!isDisplayableList(list)) return undefined;
  const items = list.map(readItem);
  return items.every(Boolean) ? items : undefined;
}

function readItem(item) {
  if (isString(item)) return { text: item, state: "open" };
  const reader = new FieldReader(item);
  const text = reader.text(...TEXT);
  const status = reader.text("status", "state");
  const isDone = reader.take(["completed", "done"], (each) => typeof each === "boolean");
  if (text === undefined || (status === undefined && isDone === undefined)) return undefined;
  const word = (status ?? "").toLowerCase().replace(/^todo_status_/, "").replaceAll(/[\s_-]/g, "");
  const state = isDone === true ? "done" : (STATE_OF.get(word) ?? "open");
  return { text, state, status: STATE_OF.has(word) ? undefined : status, rest: reader.rest() };
}

function checklist(list) {
  const items = readItems(list);
  const hasMore = items.some(({ rest }) => !isEmpty(rest));
  const shownItems = el("ol", { class: "todo-list" }, ...items.map(shownItem));
  return [shownItems, hasMore && aside("The list with all its fields", list)];
}

function shownItem({ text, state, status }) {
  const word = el("span", { class: "visually-hidden" }, WORDS[state]);
  return el("li", { "data-status": state }, word, ...markHidden(text, "prose"), status && ` (${status})`);
}
