/** Lists of what is to do. */
import { el } from "../../lib/dom.js";
import { decoded } from "./call.js";
import { aside, note, prose, setting } from "./body-parts.js";
import { formOf, shown, textual } from "./call-result.js";
import { at, isEmpty, isSome, isText, Reader, same, textAt } from "../../lib/json-fields.js";

const LISTS = ["todos", "plan", "items", "newTodos", "tasks"];
const TEXT = ["content", "step", "text", "title", "subject", "description"];
const WHY = ["explanation", "subject", "description"];
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

export const todo = {
  gist(args) {
    const active = readItems(listIn(args))?.find(({ state }) => state === "active");
    const task = at(args, ["taskId", "task_id", "id"], (each) => isText(each) || Number.isInteger(each));
    const named = [task !== undefined && `#${task}`, textAt(args, "status")].filter(Boolean).join(" ");
    return active?.text ?? textAt(args, ...WHY) ?? (listIn(args) ? "" : named || undefined);
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
    const why = reader.text(...WHY);
    if (!list && why === undefined) return undefined;
    return [why && note(why), ...(list ? checklist(list) : []), setting(reader)];
  },

  result(result, { args }) {
    const list = listOf(result);
    const isNew = list !== undefined && !same(list, listIn(args));
    const isListItself = readItems(decoded(textual(result.value)?.text)) !== undefined;
    return [...(isListItself && isNew ? [] : shown(result.value)), ...(isNew ? checklist(list) : [])];
  },
};

/** The list in a value that is one, or has one. */
function listIn(value) {
  return readItems(value) ? value : at(value, LISTS, readItems);
}

function listOf(result) {
  const form = formOf(result);
  return listIn(at(form, ["newTodos"])) ?? listIn(form) ?? listIn(decoded(textual(result?.value)?.text));
}

/** The items of a list, if it is a list of things to do. */
function readItems(list) {
  if (!isSome(list)) return undefined;
  const items = list.map(readItem);
  return items.every(Boolean) ? items : undefined;
}

function readItem(item) {
  if (isText(item)) return { text: item, state: "open" };
  const reader = new Reader(item);
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
  return [shownItems, hasMore && aside("All of the list", list)];
}

function shownItem({ text, state, status }) {
  const word = el("span", { class: "visually-hidden" }, WORDS[state]);
  return el("li", { "data-status": state }, word, text, status && ` (${status})`);
}
