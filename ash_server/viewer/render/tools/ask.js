/** Questions to the user, with what they may choose and what they chose. */
import { el } from "../../lib/dom.js";
import { facts, note } from "./body-parts.js";
import { formOf } from "./call-result.js";
import { at, isObject, isSome, isText, Reader, textAt } from "../../lib/json-fields.js";

export const ask = {
  gist(args) {
    const first = questionsIn(args)?.[0];
    return textAt(first, "question", "header") ?? textAt(args, "question");
  },

  outcome({ last }) {
    const answers = Object.values(answersIn(last)).filter(isText);
    return [answers.length === 1 && answers[0].length <= 40 && answers[0]];
  },

  args(reader, { last }) {
    if (!questionsIn(reader.whole)) return undefined;
    const answers = answersIn(last);
    return reader.list("questions").flatMap((each) => shownQuestion(new Reader(each), answers));
  },
};

function questionsIn(args) {
  return at(args, ["questions"], (each) => isSome(each) && each.every(isObject));
}

function answersIn(result) {
  return at(formOf(result), ["answers"], isObject) ?? {};
}

function shownQuestion(reader, answers) {
  const question = reader.text("question");
  const options = reader.take(["options"], (each) => isSome(each) && each.every(isOption));
  const answer = question !== undefined && isText(at(answers, [question])) ? at(answers, [question]) : "";
  const rest = reader.rest();
  return [
    question && note(question),
    options && el("ul", { class: "options" }, ...options.map((each) => option(each, answer))),
    answer && note("Answer: ", answer),
    rest && facts(rest),
  ];
}

function isOption(value) {
  return isText(value) || (isObject(value) && isText(value.label) && Object.values(value).every(isText));
}

function option(value, answer) {
  const { label, ...more } = isText(value) ? { label: value } : value;
  const isChosen = answer === label || answer.split(", ").includes(label);
  const told = [label, ...Object.values(more)].join(" · ");
  const mark = isChosen && el("span", { class: "visually-hidden" }, " (chosen)");
  return el("li", { "data-chosen": isChosen }, told, mark);
}
