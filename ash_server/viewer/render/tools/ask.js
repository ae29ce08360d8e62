/** Questions to the user, with the options and the answers. */
import { el } from "../../lib/dom.js";
import { facts, note } from "./body-parts.js";
import { structuredOf } from "./call-result.js";
import { FieldReader, fieldOf, isDisplayableList, isObject, isString, textField } from "../../lib/json-fields.js";

/** @type {import("./registry.js").Tool} */
export const ask = {
  isMessage: true,

  gist(args) {
    const first = questionsIn(args)?.[0];
    return textField(first, "question", "header") ?? textField(args, "question");
  },

  outcome({ last }) {
    const answers = Object.values(answersIn(last)).filter(isString);
    return [answers.length === 1 && answers[0].length <= 40 && answers[0]];
  },

  args(reader, { last }) {
    if (!questionsIn(reader.value)) return undefined;
    const answers = answersIn(last);
    return reader.list("questions").flatMap((each) => questionView(new FieldReader(each), answers));
  },
};

function questionsIn(args) {
  return fieldOf(args, ["questions"], (each) => isDisplayableList(each) && each.every(isObject));
}

function answersIn(result) {
  return fieldOf(structuredOf(result), ["answers"], isObject) ?? {};
}

function questionView(reader, answers) {
  const question = reader.text("question");
  const options = reader.take(["options"], (each) => isDisplayableList(each) && each.every(isOption));
  const answer = question !== undefined && isString(fieldOf(answers, [question])) ? fieldOf(answers, [question]) : "";
  const rest = reader.rest();
  return [
    question && note(question),
    options && el("ul", { class: "options" }, ...options.map((each) => option(each, answer))),
    answer && note("Answer: ", answer),
    rest && facts(rest),
  ];
}

function isOption(value) {
  return isString(value) || (isObject(value) && isString(value.label) && Object.values(value).every(isString));
}

function option(value, answer) {
  const { label, ...more } = isString(value) ? { label: value } : value;
  const isChosen = answer === label || answer.split(", ").includes(label);
  const text = [label, ...Object.values(more)].join(" · ");
  const mark = isChosen && el("span", { class: "visually-hidden" }, " (chosen)");
  return el("li", { "data-chosen": isChosen }, text, mark);
}
