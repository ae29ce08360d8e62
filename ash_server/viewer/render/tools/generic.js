/** Any other tool: all arguments and the whole result. */
import { jsonView } from "../../lib/json-view.js";
import { facts, output } from "./body-parts.js";
import { valueView } from "../content-blocks.js";
import { isEmpty, isObject, isScalar, textField } from "../../lib/json-fields.js";

const GIST_FIELDS = [
  "command", "cmd", "path", "file_path", "filePath", "url", "query", "q", "pattern",
  "title", "subject", "question", "skill", "action", "name", "description",
  "prompt", "message", "text", "id",
];
const MAX_GIST_VALUE = 80;

export const generic = {
  gist(args) {
    if (isScalar(args)) return String(args);
    const text = textField(args, ...GIST_FIELDS);
    if (text !== undefined || !isObject(args)) return text ?? "";
    const scalars = Object.values(args).filter(isScalar).map(String);
    return scalars.filter((each) => each !== "" && each.length <= MAX_GIST_VALUE).slice(0, 3).join(", ");
  },

  args(reader) {
    const { value } = reader;
    reader.takeRest();
    if (isEmpty(value)) return [];
    if (isObject(value)) return [facts(value)];
    return [isScalar(value) ? output(String(value)) : jsonView(value)];
  },

  result(result) {
    return valueView(result.value);
  },
};

/** Tools that take the final answer of a run, or a text for its reader. */
export const message = { ...generic, isMessage: true };
