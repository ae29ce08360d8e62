import { el } from "./dom.js";
import { markHidden, nameHidden } from "./hidden-characters.js";
import { findAddresses, namedLink, webAddress, webLink } from "./web-links.js";

const MAX_SPANS = 5_000; // text after that has no colours
const MAX_LINKS = 1_000; // addresses after that are not links
const MAX_BLANKS = 100_000; // inserted by cursor movements over empty cells

// Escape sequences: CSI, strings that end on their line (OSC, DCS …), charsets, some two-character ones; and line ends.
// No part is ambiguous and none crosses the next escape, so matching takes linear time.
const CSI = /\x1b\[([0-?]{0,100})[ -/]{0,9}([@-~])/;
const OTHERS = /\x1b(?:([\]PX^_][^\x07\x1b\n]*)(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[78=>cDEHMNOZ])/;
const SEQUENCE = new RegExp(`${CSI.source}|${OTHERS.source}|\\r{0,2}\\n|[\\r\\x08]`, "g");
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g;
const PRIVATE = /^[<=>?]/;
/** The start or, with an empty target, the end of a hyperlink (OSC 8). */
const HYPERLINK = /^\]8;[^;]*;(.*)$/;
/** @type {Styled} */
const BLANK = [" ", "", undefined];

const ATTRIBUTES = {
  1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike", 21: "underline",
};
const RESETS = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };
const LAYERS = { 3: "fg", 4: "bg", 9: "fg", 10: "bg" }; // by the tens of the SGR code
const BRIGHT = { 9: 8, 10: 8 };

/** Replace control characters, except tabs and line ends, with visible symbols. */
export function showControlCharacters(text) {
  return text.replace(CONTROLS, controlSymbol);
}

/** Replace control characters and hidden ones with visible symbols. */
export function showHiddenCharacters(text) {
  return nameHidden(showControlCharacters(text));
}

/**
 * Render terminal output: colours become classes, hyperlinks and web addresses links, and overwritten lines show their
 * last state. Other escape sequences are dropped; other control characters become symbols.
 */
export function ansi(text) {
  return ansiParts()(text);
}

/** A function that renders the parts of an output, in order: colours continue in the next part. */
export function ansiParts() {
  const screen = new Screen();
  return (text) => {
    writeTo(screen, text);
    return screen.takeFragment();
  };
}

/** Terminal output as it is seen, without colours. */
export function plainOutput(text) {
  const screen = new Screen();
  writeTo(screen, text);
  return screen.takeText();
}

function writeTo(screen, text) {
  let at = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    screen.write(text.slice(at, match.index));
    at = match.index + match[0].length;
    runSequence(screen, match);
  }
  screen.write(text.slice(at));
  screen.endLine("");
}

const ACTIONS = {
  "\n": (screen) => screen.endLine("\n"),
  "\r": (screen) => screen.moveTo(0),
  "\b": (screen) => screen.moveBy(-1),
  m: (screen, parameters) => screen.restyle(parameters),
  C: (screen, parameters) => screen.moveBy(Number(parameters) || 1),
  D: (screen, parameters) => screen.moveBy(-(Number(parameters) || 1)),
  G: (screen, parameters) => screen.moveTo((Number(parameters) || 1) - 1),
  K: (screen, parameters) => screen.erase(parameters),
};

function runSequence(screen, [sequence, parameters, command, string]) {
  const hyperlink = string?.match(HYPERLINK);
  if (hyperlink) return screen.link(hyperlink[1]);
  const name = sequence[0] === "\x1b" ? command : sequence.at(-1);
  if (!PRIVATE.test(parameters)) ACTIONS[name]?.(screen, parameters);
}

/** A hyperlink of the output; the same object in all of its runs. @typedef {{href: string}} Hyperlink */

/** @typedef {[text: string, classes: string, link: Hyperlink | undefined]} Styled */

/** @typedef {{text: string, classes: string, link?: Hyperlink}} Run */

/** A terminal that keeps the current line as runs of text, and as single cells once the cursor moves. */
class Screen {
  /** @type {Style} */
  #style = {};
  #classes = "";
  /** @type {Hyperlink | undefined} */
  #link;
  #linksLeft = MAX_LINKS;
  /** @type {Styled[]} */
  #line = [];
  /** @type {Styled[] | null} */
  #cells = null;
  #column = 0;
  #blanksLeft = MAX_BLANKS;
  /** @type {Run[]} */
  #runs = [];
  #spanCount = 0;

  write(text) {
    if (!text) return;
    if (this.#cells === null) this.#line.push([text, this.#classes, this.#link]);
    else for (const character of text) this.#cells[this.#column++] = [character, this.#classes, this.#link];
  }

  /** Begin a hyperlink; an address that is not of the web ends one. */
  link(address) {
    const href = webAddress(address);
    this.#link = href !== undefined && this.#linksLeft-- > 0 ? { href } : undefined;
  }

  restyle(parameters) {
    this.#style = applySgr(this.#style, parameters);
    this.#classes = classNames(this.#style);
  }

  moveTo(column) {
    const cells = this.#splitIntoCells();
    const missing = Math.max(0, Math.min(column - cells.length, this.#blanksLeft));
    for (let count = 0; count < missing; count += 1) cells.push(BLANK);
    this.#blanksLeft -= missing;
    this.#column = Math.max(0, Math.min(column, cells.length));
  }

  moveBy(columns) {
    this.#splitIntoCells();
    this.moveTo(this.#column + columns);
  }

  erase(part) {
    const cells = this.#splitIntoCells();
    if (part === "2") this.#cells = [];
    else if (part !== "1") cells.length = this.#column;
    this.moveTo(this.#column);
  }

  endLine(end) {
    while (this.#cells?.at(-1) === BLANK) this.#cells.pop();
    (this.#cells ?? this.#line).forEach(([text, classes, link]) => this.#addRun(text, classes, link));
    this.#addRun(end, this.#runs.at(-1)?.classes ?? "", this.#link);
    this.#line = [];
    this.#cells = null;
    this.#column = 0;
  }

  takeFragment() {
    const fragment = document.createDocumentFragment();
    for (const { link, runs } of this.#takeLinks()) {
      const nodes = runs.flatMap(showRun);
      if (link) fragment.append(link.isNamed ? namedLink(link.href, ...nodes) : webLink(link.href, {}, ...nodes));
      else nodes.forEach((node) => fragment.append(node));
    }
    return fragment;
  }

  takeText() {
    return this.#runs.splice(0).map(({ text }) => showControlCharacters(text)).join("");
  }

  /** The runs by their link: a hyperlink, or an address in the text, which may extend over several runs. */
  #takeLinks() {
    const runs = this.#runs.splice(0);
    const addresses = findAddresses(runs.map(({ text }) => text).join(""), this.#linksLeft);
    this.#linksLeft -= addresses.length;
    /** @type {{link?: {href: string, isNamed: boolean}, source?: object, runs: Run[]}[]} */
    const groups = [];
    for (const { run, address } of splitRuns(runs, addresses)) {
      const source = run.link ?? address;
      const last = groups.at(-1);
      if (last && last.source === source) last.runs.push(run);
      else groups.push({ link: source && { href: source.href, isNamed: source === run.link }, source, runs: [run] });
    }
    return groups;
  }

  #splitIntoCells() {
    if (this.#cells !== null) return this.#cells;
    /** @param {Styled} run @returns {Styled[]} */
    const toCells = ([text, classes, link]) => Array.from(text, (character) => [character, classes, link]);
    this.#cells = this.#line.flatMap(toCells);
    this.#column = this.#cells.length;
    return this.#cells;
  }

  #addRun(text, classes, link) {
    if (!text) return;
    const allowed = this.#spanCount < MAX_SPANS ? classes : "";
    const last = this.#runs.at(-1);
    if (last && last.classes === allowed && last.link === link) {
      last.text += text;
      return;
    }
    this.#runs.push({ text, classes: allowed, link });
    if (allowed) this.#spanCount += 1;
  }
}

/** @param {Run} run */
function showRun({ text, classes }) {
  const shown = markHidden(showControlCharacters(text));
  return classes ? [el("span", { class: classes }, ...shown)] : shown;
}

/**
 * Split runs at the ends of addresses.
 *
 * @param {Run[]} runs
 * @param {{start: number, end: number, href: string}[]} addresses
 */
function* splitRuns(runs, addresses) {
  let start = 0;
  let next = 0;
  for (const run of runs) {
    const end = start + run.text.length;
    for (let at = start; at < end; ) {
      while (next < addresses.length && addresses[next].end <= at) next += 1;
      const address = addresses[next];
      const isInside = address !== undefined && address.start <= at;
      const until = Math.min(end, address === undefined ? end : isInside ? address.end : address.start);
      yield { run: { ...run, text: run.text.slice(at - start, until - start) }, address: isInside ? address : undefined };
      at = until;
    }
    start = end;
  }
}

/** @typedef {{fg?: number, bg?: number, [attribute: string]: number | boolean | undefined}} Style */

/** @returns {Style} */
function applySgr(style, parameters) {
  const codes = (parameters ?? "").split(";").map((code) => code.split(":"));
  let next = { ...style };
  while (codes.length) {
    const [code, ...details] = codes.shift();
    next = withCode(next, Number(code), details, codes);
  }
  return next;
}

function withCode(style, code, details, following) {
  if (code === 0) return {};
  if (code === 38) return { ...style, fg: extendedColour(details, following) };
  if (code === 48) return { ...style, bg: extendedColour(details, following) };
  if (code === 4 && details[0] === "0") return without(style, RESETS[24]);
  if (code in ATTRIBUTES) return { ...style, [ATTRIBUTES[code]]: true };
  if (code in RESETS) return without(style, RESETS[code]);
  return withColour(style, code);
}

function withColour(style, code) {
  const tens = Math.floor(code / 10);
  const layer = LAYERS[tens];
  if (!layer || code % 10 === 8) return style;
  return { ...style, [layer]: code % 10 === 9 ? undefined : (code % 10) + (BRIGHT[tens] ?? 0) };
}

function without(style, names) {
  return Object.fromEntries(Object.entries(style).filter(([name]) => !names.includes(name)));
}

/** Parse the arguments of 38 and 48: `5;n` or `2;r;g;b`, as following codes or, with colons, in the same code. */
function extendedColour(details, following) {
  const length = following[0]?.[0] === "5" ? 2 : 4;
  const codes = details.length ? details : following.splice(0, length).map(([code]) => code);
  const [kind, ...values] = codes.map(Number);
  if (kind === 5) return paletteColour(values[0]);
  return kind === 2 && values.length >= 3 ? nearestColour(values.slice(-3)) : undefined;
}

function paletteColour(number) {
  if (!(number >= 0 && number < 256)) return undefined;
  if (number < 16) return number;
  if (number > 231) return nearestColour(Array(3).fill(8 + (number - 232) * 10));
  const steps = number - 16;
  const rgb = [Math.floor(steps / 36), Math.floor(steps / 6) % 6, steps % 6];
  return nearestColour(rgb.map((step) => step && 55 + step * 40));
}

/** The one of the 16 colours with this hue, or a grey. The theme defines what each of them looks like. */
function nearestColour(rgb) {
  const max = Math.max(...rgb);
  const min = Math.min(...rgb);
  if (max - min < 40) return [0, 8, 7, 15][Math.min(3, Math.floor(max / 64))];
  const hue = rgb.reduce((bits, value, index) => bits + (value > (max + min) / 2 ? 1 << index : 0), 0);
  return max > 210 ? hue + 8 : hue;
}

/** @param {Style} style */
function classNames({ fg, bg, ...attributes }) {
  const [front, back] = attributes.inverse ? [bg, fg] : [fg, bg];
  return [
    ...Object.keys(attributes).sort().map((name) => `ansi-${name}`),
    ...(front === undefined ? [] : [`ansi-fg-${front}`]),
    ...(back === undefined ? [] : [`ansi-bg-${back}`]),
  ].join(" ");
}

/** The visible symbol for a control character. */
export function controlSymbol(character) {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}
