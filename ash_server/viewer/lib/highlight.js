import { el } from "./dom.js";
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

// Grammars are searches, and some texts make them search for long: what is beyond this stays without colours.
const LONGEST = 50_000;
const LONGEST_OF = { ini: 10_000, ruby: 30_000, rust: 30_000 }; // whose work grows with the square of it
const LONGEST_LINE = 1_000;
const LONGEST_WORD = /\w{101}/;
const MOST_LINES = 800;
const DEEPEST = 40; // colours within colours

const GRAMMARS = {
  bash, cpp, css, diff, dockerfile, go, ini, java, javascript, json, kotlin, markdown, php, python, ruby,
  rust, sql, typescript, xml, yaml,
};

/** Other names: of languages, as fences have them, and of files, by their ending or their whole name. */
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
  }).flatMap(([language, names]) => [language, ...names.split(" ")].map((name) => [name, language])),
);

/** Builds elements where the library would write HTML: nothing of the code is ever read as markup. */
class Elements {
  root = document.createDocumentFragment();
  #open = [this.root];

  addText(text) {
    if (text) this.#open.at(-1).append(text);
  }

  openNode(scope) {
    const last = this.#open.at(-1);
    if (this.#open.length > DEEPEST) this.#open.push(last);
    else this.#open.push(last.appendChild(el("span", { class: classOf(scope) })));
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
    this.#open.at(-1).append(emitter.root);
  }

  finalize() {}

  toHTML() {
    return "";
  }
}

hljs.configure({ __emitter: Elements });

/** They are built with the first code, which is after the first screen; some take part in others. */
function buildGrammars() {
  if (hljs.listLanguages().length) return;
  Object.entries(GRAMMARS).forEach(([name, grammar]) => hljs.registerLanguage(name, grammar));
}

/** The code in colours, or null where its language is unknown or it is too much: then it stays as it is. */
export function highlight(code, language) {
  const name = ALIASES.get(language?.toLowerCase());
  if (!name || isTooMuch(code, LONGEST_OF[name] ?? LONGEST)) return null;
  buildGrammars();
  const fragment = hljs.highlight(code, { language: name, ignoreIllegals: true })._emitter.root;
  return fragment.textContent === code ? fragment : null;
}

function isTooMuch(code, longest) {
  if (code.length > longest || LONGEST_WORD.test(code)) return true;
  const lines = code.split("\n");
  return lines.length > MOST_LINES || lines.some((line) => line.length > LONGEST_LINE);
}

/** The language of a file by its name, or null. */
export function languageOf(path) {
  const name = path.split(/[\\/]/).at(-1).toLowerCase();
  const ending = /^(?:docker|container)file\b/.test(name) ? "dockerfile" : name.split(".").at(-1);
  return ALIASES.get(ending) ?? null;
}

function classOf(scope) {
  const [first, ...rest] = scope.split(".");
  return [`hljs-${first}`, ...rest.map((part, place) => part + "_".repeat(place + 1))].join(" ");
}
