import { el } from "./dom.js";

const MOST_SPANS = 5_000; // from there on the text goes on without its colours
const MOST_BLANKS = 100_000; // that a cursor may leave behind where nothing was written

// What a terminal is told: CSI, strings (OSC, DCS …) that end in their line, charsets, a few short ones; and
// line ends. No part can be read in two ways, and none goes past the next escape: any text is read once.
const CSI = /\x1b\[([0-?]{0,100})[ -/]{0,9}([@-~])/;
const OTHERS = /\x1b(?:[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[78=>cDEHMNOZ])/;
const SEQUENCE = new RegExp(`${CSI.source}|${OTHERS.source}|\\r{0,2}\\n|[\\r\\x08]`, "g");
const CONTROLS = /[\0-\x08\x0b-\x1f\x7f-\x9f]/g;
const PRIVATE = /^[<=>?]/;
const BLANK = [" ", ""];

const ATTRIBUTES = {
  1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike", 21: "underline",
};
const ENDINGS = { 22: ["bold", "dim"], 23: ["italic"], 24: ["underline"], 27: ["inverse"], 29: ["strike"] };
const PLACES = { 3: "fg", 4: "bg", 9: "fg", 10: "bg" }; // by the tens of a colour's code
const BRIGHT = { 9: 8, 10: 8 };

/** Text in which each control character but the tab and the line end is a symbol: nothing hides. */
export function visible(text) {
  return text.replace(CONTROLS, symbol);
}

/**
 * What a terminal would show: colours as classes, and of a line that was written over the last state. What
 * else a terminal is told is left out; any other control character is shown as a symbol.
 */
export function ansi(text) {
  const screen = new Screen();
  let at = 0;
  for (const match of text.matchAll(SEQUENCE)) {
    screen.write(text.slice(at, match.index));
    at = match.index + match[0].length;
    act(screen, match);
  }
  screen.write(text.slice(at));
  screen.endLine("");
  return screen.shown();
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

function act(screen, [sequence, parameters, command]) {
  const name = sequence[0] === "\x1b" ? command : sequence.at(-1);
  if (!PRIVATE.test(parameters)) ACTIONS[name]?.(screen, parameters);
}

/** One line at a time: as runs of text while it is only added to, as characters once the cursor moves. */
class Screen {
  #style = {};
  #classes = "";
  #line = []; // [text, classes]
  #cells = null; // [character, classes]
  #column = 0;
  #blanks = MOST_BLANKS;
  #runs = []; // what is done: {text, classes}
  #spans = 0;

  write(text) {
    if (!text) return;
    if (this.#cells === null) this.#line.push([text, this.#classes]);
    else for (const character of text) this.#cells[this.#column++] = [character, this.#classes];
  }

  restyle(parameters) {
    this.#style = restyled(this.#style, parameters);
    this.#classes = classesOf(this.#style);
  }

  moveTo(column) {
    this.#separate();
    const missing = Math.max(0, Math.min(column - this.#cells.length, this.#blanks));
    for (let count = 0; count < missing; count += 1) this.#cells.push(BLANK);
    this.#blanks -= missing;
    this.#column = Math.max(0, Math.min(column, this.#cells.length));
  }

  moveBy(columns) {
    this.#separate();
    this.moveTo(this.#column + columns);
  }

  erase(part) {
    this.#separate();
    if (part === "2") this.#cells = [];
    else if (part !== "1") this.#cells.length = this.#column;
    this.moveTo(this.#column);
  }

  endLine(end) {
    while (this.#cells?.at(-1) === BLANK) this.#cells.pop();
    (this.#cells ?? this.#line).forEach(([text, classes]) => this.#show(text, classes));
    this.#show(end, this.#runs.at(-1)?.classes ?? "");
    this.#line = [];
    this.#cells = null;
    this.#column = 0;
  }

  shown() {
    const fragment = document.createDocumentFragment();
    const nodes = this.#runs.map(({ text, classes }) => {
      const seen = visible(text);
      return classes ? el("span", { class: classes }, seen) : seen;
    });
    nodes.forEach((node) => fragment.append(node));
    return fragment;
  }

  #separate() {
    if (this.#cells !== null) return;
    const cells = ([text, classes]) => Array.from(text, (character) => [character, classes]);
    this.#cells = this.#line.flatMap(cells);
    this.#column = this.#cells.length;
  }

  #show(text, classes) {
    if (!text) return;
    const named = this.#spans < MOST_SPANS ? classes : "";
    const last = this.#runs.at(-1);
    if (last?.classes === named) {
      last.text += text;
      return;
    }
    this.#runs.push({ text, classes: named });
    if (named) this.#spans += 1;
  }
}

function restyled(style, parameters) {
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
  if (code === 38) return { ...style, fg: anyColour(details, following) };
  if (code === 48) return { ...style, bg: anyColour(details, following) };
  if (code === 4 && details[0] === "0") return without(style, ENDINGS[24]);
  if (code in ATTRIBUTES) return { ...style, [ATTRIBUTES[code]]: true };
  if (code in ENDINGS) return without(style, ENDINGS[code]);
  return withColour(style, code);
}

function withColour(style, code) {
  const tens = Math.floor(code / 10);
  const place = PLACES[tens];
  if (!place || code % 10 === 8) return style;
  return { ...style, [place]: code % 10 === 9 ? undefined : (code % 10) + (BRIGHT[tens] ?? 0) };
}

function without(style, names) {
  return Object.fromEntries(Object.entries(style).filter(([name]) => !names.includes(name)));
}

/** 38 and 48 tell more: `5;n` or `2;r;g;b`, behind them or, with colons, within. */
function anyColour(details, following) {
  const length = following[0]?.[0] === "5" ? 2 : 4;
  const taken = details.length ? details : following.splice(0, length).map(([code]) => code);
  const [kind, ...values] = taken.map(Number);
  if (kind === 5) return ofPalette(values[0]);
  return kind === 2 && values.length >= 3 ? nearest(values.slice(-3)) : undefined;
}

function ofPalette(number) {
  if (!(number >= 0 && number < 256)) return undefined;
  if (number < 16) return number;
  if (number > 231) return nearest(Array(3).fill(8 + (number - 232) * 10));
  const steps = number - 16;
  const rgb = [Math.floor(steps / 36), Math.floor(steps / 6) % 6, steps % 6];
  return nearest(rgb.map((step) => step && 55 + step * 40));
}

/** Of the 16 colours the one with this hue, or the grey. The theme decides how each of them looks. */
function nearest(rgb) {
  const most = Math.max(...rgb);
  const least = Math.min(...rgb);
  if (most - least < 40) return [0, 8, 7, 15][Math.min(3, Math.floor(most / 64))];
  const hue = rgb.reduce((bits, value, place) => bits + (value > (most + least) / 2 ? 1 << place : 0), 0);
  return most > 210 ? hue + 8 : hue;
}

function classesOf({ fg, bg, ...attributes }) {
  const [front, back] = attributes.inverse ? [bg, fg] : [fg, bg];
  return [
    ...Object.keys(attributes).sort().map((name) => `ansi-${name}`),
    ...(front === undefined ? [] : [`ansi-fg-${front}`]),
    ...(back === undefined ? [] : [`ansi-bg-${back}`]),
  ].join(" ");
}

/** What stands for a character that cannot be seen. */
export function symbol(character) {
  const code = character.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}
