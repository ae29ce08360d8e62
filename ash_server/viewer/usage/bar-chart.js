import { el } from "../lib/dom.js";
import { formatCents, formatCompact } from "../lib/number-format.js";
import { svg } from "../lib/svg.js";
import { longName, shortName } from "./periods.js";
import { allTokens, costCell, measureOf, seriesClass } from "./usage-figures.js";

const HEIGHT = { wide: 240, narrow: 190 };
const NARROW_WIDTH = 560;
const MARGIN = { top: 12, right: 4, bottom: 24, left: 52 };
const MAX_BAR_WIDTH = 36;
const BAR_SHARE = 0.74;
/** Blocks have a day and an hour. */
const minLabelWidth = (by) => (by === "block" ? 104 : 72);
const MAX_TICKS = 4;
/** A segment this high is separated from the next one. */
const MIN_SEPARATED_HEIGHT = 4;

/**
 * A bar: a period, its figures if there are any, and where it leads to.
 * @typedef {{start: number, group?: import("./usage-figures.js").Group, href?: string}} Slot
 */

/**
 * The content of a chart. `series` are the parts of bars, the largest first; empty if bars have no parts.
 * @typedef {{by: string, measure: string, slots: Slot[], series: import("./usage-figures.js").Series[], label: string}} Bars
 */

/** Bars by periods of time. The table has the same figures, so the bars are one image, and their links need a pointer. */
export class BarChart {
  /** @type {Bars | undefined} */
  bars;
  width = 0;

  constructor() {
    this.readout = el("p", { class: "chart-readout", "aria-hidden": "true" });
    this.plot = el("div", { class: "chart-plot" });
    this.element = el("div", { class: "chart" }, this.readout, this.plot);
    new ResizeObserver(() => this.draw()).observe(this.plot);
    this.plot.addEventListener("pointerover", ({ target }) => this.read(/** @type {Element} */ (target)));
    this.plot.addEventListener("pointerleave", () => this.readout.replaceChildren());
  }

  /** @param {Bars} bars */
  show(bars) {
    this.bars = bars;
    this.width = 0;
    this.readout.replaceChildren();
    this.draw();
  }

  /** Draw the bars for the width of the page. */
  draw() {
    const width = Math.floor(this.plot.clientWidth);
    if (!this.bars || !width || width === this.width) return;
    this.width = width;
    const height = width < NARROW_WIDTH ? HEIGHT.narrow : HEIGHT.wide;
    this.plot.replaceChildren(...drawBars(this.bars, width, height));
  }

  /** Show the figures of the bar below the pointer. */
  read(target) {
    const index = target.closest("[data-index]")?.getAttribute("data-index");
    const slot = index && this.bars?.slots[Number(index)];
    if (!slot || !this.bars) return;
    const { counts } = slot.group ?? {};
    const facts = counts ? [costCell(counts), `${formatCompact(allTokens(counts))} tokens`] : ["nothing"];
    this.readout.replaceChildren(el("strong", {}, longName(this.bars.by, slot.start)), ` ${facts.join(" · ")}`);
  }
}

/** The image, and above it the links of the bars. */
function drawBars(bars, width, height) {
  const { slots, measure } = bars;
  const { top, right, bottom, left } = MARGIN;
  const area = { left, top, width: width - left - right, height: height - top - bottom };
  const sizes = slots.map(({ group }) => (group ? measureOf(group.counts, measure) : 0));
  const ticks = ticksUpTo(Math.max(0, ...sizes));
  const max = ticks[ticks.length - 1];
  const step = area.width / slots.length;
  const place = {
    x: (index) => area.left + step * index,
    y: (size) => area.top + area.height * (1 - size / max),
    step,
    barWidth: Math.max(1, Math.min(MAX_BAR_WIDTH, step * BAR_SHARE)),
  };
  const box = { viewBox: `0 0 ${width} ${height}`, width, height };
  const image = svg(
    "svg",
    { ...box, role: "img", "aria-label": bars.label },
    ...ticks.flatMap((tick) => drawTick(tick, ticks[1], measure, place.y(tick), width)),
    ...labelledSlots(bars.by, slots, step).map((index) => drawLabel(bars.by, slots[index].start, index, place, box)),
    ...slots.flatMap((slot, index) => drawBar(bars, slot, index, place)),
  );
  const links = slots.map((slot, index) => drawLink(slot, index, place, area));
  return [image, svg("svg", { ...box, class: "chart-links", "aria-hidden": "true" }, ...links)];
}

function drawTick(tick, step, measure, y, width) {
  return [
    svg("line", { class: tick ? "grid" : "axis", x1: MARGIN.left, x2: width, y1: y, y2: y }),
    svg("text", { class: "tick", x: MARGIN.left - 8, y: y + 4, "text-anchor": "end" }, tickText(tick, step, measure)),
  ];
}

function drawLabel(by, start, index, { x, step }, { width, height }) {
  const middle = x(index) + step / 2;
  if (middle > width - minLabelWidth(by) / 2) return undefined;
  return svg("text", { class: "tick", x: middle, y: height - 6, "text-anchor": "middle" }, shortName(by, start));
}

/** The segments of a bar, from the axis up. */
function drawBar({ by, measure, series }, { start, group }, index, { x, y, step, barWidth }) {
  if (!group) return [];
  const left = x(index) + (step - barWidth) / 2;
  let below = 0;
  return segmentsOf(group, series, measure).map(({ name, value, size }) => {
    const [bottom, top] = [y(below), y(below + size)];
    below += size;
    const height = bottom - top;
    return svg("rect", {
      class: name,
      x: left,
      y: height >= MIN_SEPARATED_HEIGHT ? top + 1 : top,
      width: barWidth,
      height: height >= MIN_SEPARATED_HEIGHT ? height - 1 : height,
      "data-period": `${by} ${group.value}`,
      "data-part": value,
      "data-start": start,
    });
  });
}

function segmentsOf({ counts, parts }, series, measure) {
  if (!series.length) return [{ name: "series-1", value: undefined, size: measureOf(counts, measure) }];
  const segments = series.map(({ value }, index) => {
    const part = parts.get(value);
    return { name: seriesClass(index, series.length), value, size: part ? measureOf(part, measure) : 0 };
  });
  return segments.filter(({ size }) => size > 0);
}

function drawLink({ group, href }, index, { x, step }, { top, height }) {
  const area = svg("rect", { x: x(index), y: top, width: step, height, "data-index": index });
  return group && href ? svg("a", { href, tabindex: -1 }, area) : area;
}

/** The slots with a label, at equal distances. */
function labelledSlots(by, slots, step) {
  const every = Math.max(1, Math.ceil(minLabelWidth(by) / step));
  return slots.flatMap((_, index) => (index % every === Math.floor(Math.min(every, slots.length) / 2) ? [index] : []));
}

/** Round values from 0 to at least the largest one. */
function ticksUpTo(largest) {
  const step = roundUp((largest || 1) / MAX_TICKS);
  return Array.from({ length: Math.max(1, Math.ceil(largest / step)) + 1 }, (_, index) => index * step);
}

/** The next larger number of the form 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find((factor) => factor * power >= value) ?? 10);
}

function tickText(tick, step, measure) {
  if (measure === "tokens") return formatCompact(tick);
  if (!tick) return "$0";
  if (step >= 1) return `$${formatCompact(tick)}`;
  return step >= 0.01 ? formatCents(tick) : `$${tick.toFixed(Math.ceil(-Math.log10(step)))}`;
}
