/** Any other tool: all that it was given, and all that it gave. */
import { jsonView } from "../../lib/json-view.js";
import { facts, output } from "./body-parts.js";
import { shown } from "./call-result.js";
import { isEmpty, isObject, isScalar, textAt } from "../../lib/json-fields.js";

const TELLING = [
  ...["command", "cmd", "path", "file_path", "filePath", "url", "query", "q", "pattern"],
  ...["title", "subject", "question", "skill", "action", "name", "description"],
  ...["prompt", "message", "text", "id"],
];
const SHORT = 80;

export const raw = {
  gist(args) {
    if (isScalar(args)) return String(args);
    const telling = textAt(args, ...TELLING);
    if (telling !== undefined || !isObject(args)) return telling ?? "";
    const words = Object.values(args).filter(isScalar).map(String);
    return words.filter((word) => word !== "" && word.length <= SHORT).slice(0, 3).join(", ");
  },

  args(reader) {
    const { whole } = reader;
    reader.takeRest();
    if (isEmpty(whole)) return [];
    if (isObject(whole)) return [facts(whole)];
    return [isScalar(whole) ? output(String(whole)) : jsonView(whole)];
  },

  result(result) {
    return shown(result.value);
  },
};
