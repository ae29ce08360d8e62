import { showHiddenCharacters } from "../lib/ansi.js";
import { el } from "../lib/dom.js";
import { formatCents, formatShare } from "../lib/number-format.js";
import { svg } from "../lib/svg.js";
import { NO_FILTERS, usageAddress } from "./usage-filters.js";
import { nameOf } from "./usage-names.js";

/**
 * The budgets, with the cost of their current periods; undefined if there are none.
 *
 * @param {any[]} budgets
 */
export function budgetList(budgets) {
  if (!budgets.length) return undefined;
  const items = budgets.map(budgetItem);
  return el("section", { class: "budgets", "aria-label": "Budgets" }, el("ul", {}, ...items));
}

function budgetItem({ period, project, limitUsd, spentUsd, isPassed, periodStart, periodEnd }) {
  const filters = { ...NO_FILTERS, since: periodStart, until: periodEnd, project: project ?? "" };
  const name = `${period === "day" ? "Today" : `This ${period}`}${project ? ` in ${nameOf("project", project)}` : ""}`;
  const share = formatShare(spentUsd, limitUsd);
  return el(
    "li",
    { class: "budget", "data-passed": isPassed },
    el("a", { href: usageAddress(filters), title: project && showHiddenCharacters(project), dir: "auto" }, name),
    " ",
    el("span", { class: "budget-figures" }, `${formatCents(spentUsd)} of ${formatCents(limitUsd)}${share && ` · ${share}`}`),
    " ",
    isPassed && el("strong", {}, "passed"),
    budgetBar(Math.min(1, limitUsd > 0 ? spentUsd / limitUsd : 1)),
  );
}

function budgetBar(share) {
  const box = { class: "row-bar", viewBox: "0 0 1000 1", preserveAspectRatio: "none", "aria-hidden": "true" };
  const track = svg("rect", { class: "budget-track", x: 0, y: 0, width: 1000, height: 1 });
  return svg("svg", box, track, svg("rect", { class: "budget-spent", x: 0, y: 0, width: 1000 * share, height: 1 }));
}
