/** The page of usage and cost. Its address determines its content. */
import { getJson, isAborted, withQuery } from "./lib/api.js";
import { el } from "./lib/dom.js";
import { listenForKeys } from "./lib/keyboard.js";
import { pageHeader } from "./lib/page-header.js";
import { errorPlaceholder, skeleton } from "./lib/placeholders.js";
import { budgetList } from "./usage/usage-budgets.js";
import { valueOf } from "./usage/usage-figures.js";
import { NO_FILTERS, apiParameters, parseFilters, partsOf, rowsOf, spanOf, usageAddress } from "./usage/usage-filters.js";
import { UsageForm } from "./usage/usage-form.js";
import { UsageView } from "./usage/usage-view.js";

const API = "/api/usage";
const MAX_VALUES = 1000;
/** The pairs of dimensions with values that can be chosen. */
const CHOICES = [
  ["model", "source"],
  ["project", "machine"],
];

class UsagePage {
  filters = NO_FILTERS;
  /** @type {AbortController | undefined} */
  request;
  /** The time of the values that can be chosen. @type {string | undefined} */
  offered;

  constructor() {
    this.form = new UsageForm((filters) => this.go(filters));
    this.view = new UsageView({ go: (filters) => this.go(filters) });
    this.status = el("p", { class: "visually-hidden", role: "status" });
    this.contents = el("div", { class: "usage-contents" }, skeleton());
    this.budgets = el("div");
    const title = el("h1", {}, "Usage");
    const parts = [title, this.form.element, this.status, this.budgets, this.contents];
    const main = el("main", { class: "sessions usage" }, ...parts);
    document.body.append(pageHeader("p", listenForKeys(shortcuts())), main);
  }

  start() {
    history.scrollRestoration = "manual";
    addEventListener("popstate", () => this.show());
    addEventListener("pagehide", () => this.savePosition());
    this.show();
    this.showBudgets();
  }

  async showBudgets() {
    try {
      const { budgets } = await getJson("/api/budgets");
      const list = budgetList(budgets);
      if (list) this.budgets.replaceChildren(list);
    } catch {
      // Budgets are an addition: the figures are shown without them.
    }
  }

  go(filters) {
    const address = usageAddress(filters);
    if (address === location.pathname + location.search) return;
    this.savePosition();
    history.pushState(null, "", address);
    this.show();
  }

  savePosition() {
    history.replaceState({ top: scrollY }, "");
  }

  /** Show the report of the address; while it loads, the last one stays. */
  async show() {
    this.filters = parseFilters(location.search);
    const { filters } = this;
    this.form.show(filters);
    this.request?.abort();
    const request = (this.request = new AbortController());
    this.contents.setAttribute("aria-busy", "true");
    try {
      const dimensions = [rowsOf(filters), partsOf(filters)].filter((name) => name !== undefined);
      const report = await this.load(dimensions, filters, request.signal);
      this.contents.replaceChildren(this.view.element);
      this.view.show(report, filters);
      this.status.textContent = statusText(report);
    } catch (error) {
      if (isAborted(error)) return;
      this.contents.replaceChildren(errorPlaceholder(error, () => this.show()));
      this.status.textContent = "";
    }
    this.contents.setAttribute("aria-busy", "false");
    scrollTo({ top: history.state?.top ?? scrollY });
    await this.offerValues();
  }

  load(dimensions, filters, signal, limit) {
    return getJson(withQuery(API, { ...apiParameters(filters, dimensions, Date.now()), limit }), { signal });
  }

  /** Load the values of filters in this time, and offer them. */
  async offerValues() {
    const { since, until } = this.filters;
    const time = `${spanOf(this.filters)} ${until}`;
    if (time === this.offered) return;
    this.offered = time;
    try {
      for (const dimensions of CHOICES) {
        const { rows } = await this.load(dimensions, { ...NO_FILTERS, since, until }, undefined, MAX_VALUES);
        for (const name of dimensions) this.form.addValues(name, rows.map((row) => valueOf(row, name)));
      }
    } catch {
      // The values of the address are offered.
    }
    this.form.showChoices();
  }
}

function statusText({ totals }) {
  return totals.answers ? `Usage of ${totals.answers} answers` : "No usage";
}

/** @returns {import("./lib/keyboard.js").Shortcut[]} */
function shortcuts() {
  return [[["?"], "these keys"]];
}

new UsagePage().start();
