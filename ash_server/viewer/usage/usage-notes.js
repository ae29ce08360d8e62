/** Notes below the figures: usage without a price, estimates, and usage that is missing. */
import { showHiddenCharacters } from "../lib/ansi.js";
import { el } from "../lib/dom.js";
import { formatNumber, pluralize } from "../lib/number-format.js";
import { commandLine } from "../lib/placeholders.js";
import { sourceName } from "../lib/source-names.js";
import { allTokens, costCell } from "./usage-figures.js";

/** @param {any} report */
export function notes(report) {
  const all = [withoutFacts(report), omitted(report), unpriced(report), estimated(report), about(report)];
  return all.filter((note) => note !== undefined);
}

function withoutFacts({ sessionsWithoutFacts: count }) {
  if (!count) return undefined;
  const text = `The figures lack ${pluralize(count, "session")} that an earlier version of Ash stored. To add them:`;
  return el("section", { class: "usage-note" }, el("p", {}, text), commandLine("ash reindex"));
}

function omitted({ omittedRows: count }) {
  if (!count) return undefined;
  return el("p", { class: "usage-note" }, `The bars and the table lack ${pluralize(count, "row")}. The totals include them.`);
}

function unpriced({ unpriced: models }) {
  if (!models.length) return undefined;
  const hint = [
    "Their tokens are counted, but not their cost. ",
    el("code", {}, "ash prices update"),
    " fetches newer prices; ",
    el("code", {}, "ASH_PRICES"),
    " names a file with your own.",
  ];
  return section("Without a price", hint, models, false);
}

function estimated({ estimated: models }) {
  if (!models.length) return undefined;
  return section("Estimated costs", ["Their records do not state everything that the price depends on."], models, true);
}

function section(title, hint, models, hasCost) {
  const id = title.replaceAll(" ", "-").toLowerCase();
  return el(
    "section",
    { class: "usage-note", "aria-labelledby": id },
    el("h2", { id }, title),
    el("p", {}, ...hint),
    el("ul", { class: "models" }, ...models.map((model) => modelLine(model, hasCost))),
  );
}

function modelLine(model, hasCost) {
  const { model: name, source, explanation, answers } = model;
  const facts = [
    hasCost && costCell(model),
    `${formatNumber(allTokens(model))} tokens`,
    pluralize(answers, "answer"),
    sourceName(source),
    explanation,
  ];
  return el("li", {}, el("strong", { dir: "auto" }, showHiddenCharacters(name)), ` ${facts.filter(Boolean).join(" · ")}`);
}

function about({ prices, timezone }) {
  const text = `Costs are at API prices; a subscription costs something else. Prices: ${prices}. Time zone: ${timezone}.`;
  return el("p", { class: "usage-about" }, text);
}
