/** Questions to the user, with the options and the answers. */
import { showControlCharacters } from "../../lib/ansi.js";
import { el } from "../../lib/dom.js";
import { valueView } from "../content-blocks.js";
import { aside, facts, label, note, output } from "./body-parts.js";
import { decodeJson } from "./call.js";
import { resultText, structuredOf } from "./call-result.js";
import { markHidden } from "../../lib/hidden-characters.js";
import { FieldReader, fieldOf, isDisplayableList, isObject, isString, isStringOrStrings, textField } from "../../lib/json-fields.js";

const OPTIONS = ["options", "choices"];
const SEVERAL = ["multiSelect", "multi_select", "multiple", "multiselect", "allowMultiple"];
const MAX_SHOWN_ANSWER = 40;

/** @type {import("./registry.js").Tool} */
export const ask = {
  isMessage: true,

  gist(args) {
    const first = questionsIn(args)?.[0];
    return textField(first, "question", "header") ?? textField(args, "question");
  },

  outcome({ args, last }) {
    const answers = answersTo(questionsIn(args) ?? [], last).flatMap((each) => each ?? []);
    return [answers.length === 1 && answers[0].length <= MAX_SHOWN_ANSWER && answers[0]];
  },

  args(reader, { last }) {
    const questions = questionsIn(reader.value);
    if (!questions) return undefined;
    reader.list("questions");
    const answers = answersTo(questions, last);
    return questions.flatMap((each, index) => questionView(new FieldReader(each), answers[index]));
  },

  result(result, { args }) {
    const text = resultText(result.value);
    const isAnswered = answersTo(questionsIn(args) ?? [], result).some((each) => each !== undefined);
    return isAnswered && text !== "" ? [aside("The answer as the agent got it", text)] : valueView(result.value);
  },
};

function questionsIn(args) {
  return fieldOf(args, ["questions"], (each) => isDisplayableList(each) && each.every(isObject));
}

/**
 * The answers to each question, undefined where there is none: by the question, its id or its place, or in the text.
 *
 * @returns {(string[] | undefined)[]}
 */
function answersTo(questions, result) {
  const text = resultText(result?.value);
  const answers = fieldOf(structuredOf(result), ["answers"]) ?? fieldOf(decodeJson(text), ["answers"]);
  return questions.map((question, index) => {
    const keys = [textField(question, "question"), textField(question, "id")].filter(isString);
    const own = Array.isArray(answers) ? answers[index] : fieldOf(answers, keys);
    return textsIn(own) ?? answerIn(text, textField(question, "question"));
  });
}

function textsIn(value) {
  const inner = isObject(value) ? fieldOf(value, ["answers", "answer"]) : value;
  return isStringOrStrings(inner) ? [inner].flat() : undefined;
}

/** The answer in a text such as `"Which kite?"="Red", …`. */
function answerIn(text, question) {
  const start = question === undefined ? -1 : text.indexOf(`"${question}"="`);
  if (start < 0) return undefined;
  const rest = text.slice(start + question.length + 4);
  const end = rest.search(/"(?:[,.]|$)/);
  return end < 0 ? undefined : [rest.slice(0, end)];
}

function questionView(reader, answers = []) {
  const header = reader.text("header");
  const question = reader.text("question");
  const isSeveral = reader.take(SEVERAL, (each) => typeof each === "boolean") === true;
  const options = reader.take(OPTIONS, (each) => isDisplayableList(each) && each.every(isOption));
  const { chosen, others } = chosenIn(answers, (options ?? []).map(labelOf), isSeveral);
  const heading = [header, isSeveral && "several answers"].filter(Boolean).join(" · ");
  const rest = reader.rest();
  return [
    heading && label(showControlCharacters(heading)),
    question && el("p", { class: "question", dir: "auto" }, ...shownText(question)),
    options && el("ul", { class: "options" }, ...options.map((each) => option(each, chosen.has(labelOf(each)), isSeveral))),
    others.length > 0 && note("Answer: ", others.join(", ")),
    rest && facts(rest),
  ];
}

/** Split answers into labels of options, which are joined by commas and may contain some, and other texts. */
function chosenIn(answers, labels, isSeveral) {
  const chosen = new Set();
  const others = [];
  for (const answer of answers) {
    const { found, free } = splitAnswer(answer, labels);
    const isFree = free.length > 0 && !isSeveral;
    if (!isFree) found.forEach((each) => chosen.add(each));
    if (free.length) others.push(isFree ? answer : free.join(", "));
  }
  return { chosen, others };
}

function splitAnswer(answer, labels) {
  /** @type {string[][]} */
  const [found, free] = [[], []];
  for (let rest = answer; rest !== ""; ) {
    const label = longest(labels.filter((each) => each !== "" && `${rest}, `.startsWith(`${each}, `)));
    const part = label ?? rest.split(", ", 1)[0];
    (label === undefined ? free : found).push(part);
    rest = rest.slice(part.length + 2);
  }
  return { found, free };
}

function longest(texts) {
  return texts.reduce((one, other) => (one !== undefined && one.length >= other.length ? one : other), undefined);
}

function isOption(value) {
  return isString(value) || (isObject(value) && isString(value.label) && Object.values(value).every(isString));
}

function labelOf(value) {
  return isString(value) ? value : value.label;
}

function option(value, isChosen, isSeveral) {
  const { label: name, preview, ...more } = isString(value) ? { label: value } : value;
  const details = Object.values(more).map((each) => ` · ${each}`).join("");
  const mark = isChosen && el("span", { class: "visually-hidden" }, " (chosen)");
  const attributes = { "data-chosen": isChosen, "data-several": isSeveral, dir: "auto" };
  const shown = [el("span", { class: "option-label" }, ...shownText(name)), mark, ...shownText(details)];
  return el("li", attributes, ...shown, preview && output(preview));
}

function shownText(text) {
  return markHidden(showControlCharacters(text), "prose");
}
