import { el } from "./dom.js";
import { markHidden } from "./hidden-characters.js";
import { default as hljs } from "../vendor/highlightjs-11.12.0/core.min.js";
import { default as bash } from "../vendor/highlightjs-11.12.0/languages/bash.min.js";
import { default as cpp } from "../vendor/highlightjs-11.12.0/languages/cpp.min.js";
import { default as css } from "../vendor/highlightjs-11.12.0/languages/css.min.js";
import { default as diff } from "../vendor/highlightjs-11.12.0/languages/diff.min.js";
import { default as dockerfile } from "../vendor/highlightjs-11.12.0/languages/dockerfile.min.js";
import { default as go } from "../vendor/highlightjs-11.12.0/languages/go.min.js";
import { default as ini } from "../vendor/highlightjs-11.12.0/languages/ini.min.js";
import { default as java } from "../vendor/highlightjs-11.12.0/languages/java.min.js";
import { default as javascript } from "../vendor/highlightjs-11.12.0/languages/javascript.min.js";
import { default as json } from "../vendor/highlightjs-11.12.0/languages/json.min.js";
import { default as kotlin } from "../vendor/highlightjs-11.12.0/languages/kotlin.min.js";
import { default as markdown } from "../vendor/highlightjs-11.12.0/languages/markdown.min.js";
import { default as php } from "../vendor/highlightjs-11.12.0/languages/php.min.js";
import { default as python } from "../vendor/highlightjs-11.12.0/languages/python.min.js";
import { default as ruby } from "../vendor/highlightjs-11.12.0/languages/ruby.min.js";
import { default as rust } from "../vendor/highlightjs-11.12.0/languages/rust.min.js";
import { default as sql } from "../vendor/highlightjs-11.12.0/languages/sql.min.js";
import { default as typescript } from "../vendor/highlightjs-11.12.0/languages/typescript.min.js";
import { default as xml } from "../vendor/highlightjs-11.12.0/languages/xml.min.js";
import { default as yaml } from "../vendor/highlightjs-11.12.0/languages/yaml.min.js";

// Some texts make the grammars' regular expressions slow: code beyond these limits is not highlighted.
const MAX_LENGTH = 50_000;
const MAX_LENGTH_BY_LANGUAGE = { ini: 10_000, ruby: 30_000, rust: 30_000 }; // quadratic grammars
const MAX_LINE_LENGTH = 1_000;
const TOO_LONG_WORD = /\w{101}/;
const MAX_LINES = 800;
const MAX_DEPTH = 40; // of nested spans

const GRAMMARS = {
  bash, cpp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, markdown, php, python, ruby,
  rust, sql, typescript, xml, yaml,
};

/** Language names by alias: names in code fences, file extensions and whole file names. */
const ALIASES = new Map(
  Object.entries({
    bash: "sh zsh shell console shell-session bashrc zshrc profile env",
    cpp: "c h cc cxx hpp hh hxx c++ ino",
    css: "scss less",
    diff: "patch",
    dockerfile: "docker containerfile",
    go: "golang",
    ini: "toml cfg conf editorconfig gitconfig properties",
    java: "cs csharp c# scala groovy",
    javascript: "js mjs cjs jsx",
    json: "jsonl json5 jsonc ndjson ipynb webmanifest",
    kotlin: "kt kts",
    markdown: "md mdx mdc",
    php: "php8 phtml",
    python: "py pyi pyw py3 python3 pyx",
    ruby: "rb rake gemspec gemfile rakefile",
    rust: "rs",
    sql: "psql pgsql postgresql sqlite mysql ddl",
    typescript: "ts mts cts tsx",
    xml: "html htm xhtml svg vue xsl plist rss",
    yaml: "yml",
  }).flatMap(([language, names]) =>
    [language, ...names.split(" ")].map((name) => /** @type {[string, string]} */ ([name, language])),
  ),
);

/** Emits elements instead of the library's HTML, so that code is never parsed as markup. */
class ElementEmitter {
  root = document.createDocumentFragment();
  /** @type {ParentNode[]} */
  #open = [this.root];

  get #current() {
    return this.#open[this.#open.length - 1];
  }

  addText(text) {
    if (text) this.#current.append(...markHidden(text));
  }

  openNode(scope) {
    const isTooDeep = this.#open.length > MAX_DEPTH;
    const node = isTooDeep ? this.#current : el("span", { class: scopeClasses(scope) });
    if (!isTooDeep) this.#current.append(node);
    this.#open.push(node);
  }

  closeNode() {
    if (this.#open.length > 1) this.#open.pop();
  }

  startScope(scope) {
    this.openNode(scope);
  }

  endScope() {
    this.closeNode();
  }

  __addSublanguage(emitter) {
    this.#current.append(emitter.root);
  }

  finalize() {}

  toHTML() {
    return "";
  }
}

hljs.configure({ __emitter: ElementEmitter });

/** The grammars that others embed. */
const EMBEDDED = {
  dockerfile: ["bash"],
  javascript: ["css", "xml"],
  markdown: ["xml"],
  typescript: ["css", "xml"],
  xml: ["css", "javascript"],
  yaml: ["ruby"],
};
/** @type {Set<string>} */
const registered = new Set();

/** Register a grammar with those that it embeds, when it is first used: all of them would delay the first screen. */
function registerGrammar(name) {
  if (registered.has(name)) return;
  registered.add(name);
  hljs.registerLanguage(name, GRAMMARS[name]);
  EMBEDDED[name]?.forEach(registerGrammar);
}

/** Highlighted code, or null if its language is unknown or it exceeds a limit. */
export function highlight(code, language) {
  const name = ALIASES.get(language?.toLowerCase());
  if (!name || isTooLarge(code, MAX_LENGTH_BY_LANGUAGE[name] ?? MAX_LENGTH)) return null;
  registerGrammar(name);
  const fragment = hljs.highlight(code, { language: name, ignoreIllegals: true })._emitter.root;
  return fragment.textContent === code ? fragment : null;
}

/**
 * The lines of highlighted code as texts with their classes, or null as above.
 *
 * @param {string[]} lines
 * @param {string | null | undefined} language
 * @returns {[text: string, classes: string][][] | null}
 */
export function highlightLines(lines, language) {
  const fragment = language ? highlight(lines.join("\n"), language) : null;
  if (fragment === null) return null;
  /** @type {[text: string, classes: string][][]} */
  const coloured = [[]];
  for (const [text, classes] of textsIn(fragment, "")) {
    text.split("\n").forEach((part, index) => {
      if (index) coloured.push([]);
      if (part) coloured.at(-1)?.push([part, classes]);
    });
  }
  return coloured;
}

/** The texts in a node with the classes of the innermost element. */
function* textsIn(node, classes) {
  for (const child of node.childNodes) {
    if (child instanceof Element && child.matches(".hidden-characters")) yield [child.textContent, classes];
    else if (child instanceof Element) yield* textsIn(child, child.className || classes);
    else yield [child.data, classes];
  }
}

function isTooLarge(code, maxLength) {
  if (code.length > maxLength || TOO_LONG_WORD.test(code)) return true;
  const lines = code.split("\n");
  return lines.length > MAX_LINES || lines.some((line) => line.length > MAX_LINE_LENGTH);
}

/** The language of a file by its name, or null. */
export function languageOf(path) {
  const name = path.split(/[\\/]/).at(-1).toLowerCase();
  const extension = /^(?:docker|container)file\b/.test(name) ? "dockerfile" : name.split(".").at(-1);
  return ALIASES.get(extension) ?? null;
}

function scopeClasses(scope) {
  const [first, ...rest] = scope.split(".");
  return [`hljs-${first}`, ...rest.map((part, index) => part + "_".repeat(index + 1))].join(" ");
}
