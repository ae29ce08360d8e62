/** Files that are written whole. */
import { languageOf } from "../../lib/highlight.js";
import { counted } from "../../lib/number-format.js";
import { plusMinus, shownChange } from "./edit.js";
import { aside, code, filePath } from "./body-parts.js";
import { changesTold, tallyOf } from "./file-changes.js";
import { PATH, tail } from "./file-paths.js";
import { formOf, textOf } from "./call-result.js";
import { textAt } from "../../lib/json-fields.js";

const CONTENT = ["content", "contents", "file_text", "fileText", "text", "data", "fact"];

const CREATED = /\b(?:new file|File created|created file)\b/i;

export const write = {
  gist(args) {
    const path = textAt(args, ...PATH);
    return path && tail(path);
  },

  outcome({ args, last, state }) {
    const changes = changesTold(last);
    if (changes.length) return [plusMinus(tallyOf(changes[0]))];
    const content = textAt(args, ...CONTENT);
    return [content !== undefined && state !== "denied" && counted(linesIn(content), "line")];
  },

  args(reader, call) {
    const path = reader.text(...PATH);
    const content = reader.text(...CONTENT);
    if (content === undefined) return path === undefined ? undefined : [filePath(path)];
    const changes = changesTold(call.last);
    const whole = code(content, path && languageOf(path));
    if (!changes.length) return [path && filePath(path, isNew(call.last) && "new file"), whole];
    return [...changes.flatMap(shownChange), aside("The whole file", content)];
  },
};

function isNew(result) {
  return textAt(formOf(result), "type") === "create" || CREATED.test(textOf(result?.value));
}

export function linesIn(text) {
  return text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}
