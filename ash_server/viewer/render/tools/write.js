/** Files that are written as a whole. */
import { languageOf } from "../../lib/highlight.js";
import { pluralize } from "../../lib/number-format.js";
import { changeView, lineCounts } from "./edit.js";
import { aside, code, filePath } from "./body-parts.js";
import { countChangedLines, reportedChanges } from "./file-changes.js";
import { PATH_KEYS, pathTail } from "./file-paths.js";
import { resultText, structuredOf } from "./call-result.js";
import { textField } from "../../lib/json-fields.js";

const CONTENT = ["content", "contents", "file_text", "fileText", "text", "data", "fact", "CodeContent"];

const CREATED = /\b(?:new file|File created|created file)\b/i;

/** @type {import("./registry.js").Tool} */
export const write = {
  gist(args) {
    const path = textField(args, ...PATH_KEYS);
    return path && pathTail(path);
  },

  outcome({ args, last, state }) {
    const changes = reportedChanges(last);
    if (changes.length) return [lineCounts(countChangedLines(changes[0]))];
    const content = textField(args, ...CONTENT);
    return [content !== undefined && state !== "denied" && pluralize(countLines(content), "line")];
  },

  args(reader, call) {
    const path = reader.text(...PATH_KEYS);
    const content = reader.text(...CONTENT);
    if (content === undefined) return path === undefined ? undefined : [filePath(path)];
    const changes = reportedChanges(call.last);
    const whole = code(content, path && languageOf(path));
    if (!changes.length) return [path && filePath(path, isNew(call.last) && "new file"), whole];
    return [...changes.flatMap(changeView), aside("The whole file", content)];
  },
};

function isNew(result) {
  return textField(structuredOf(result), "type") === "create" || CREATED.test(resultText(result?.value));
}

export function countLines(text) {
  return text === "" ? 0 : text.split("\n").length - (text.endsWith("\n") ? 1 : 0);
}
