/** Tools with a single text argument: thoughts and plans. */
import { prose, settings } from "./body-parts.js";
import { textField } from "../../lib/json-fields.js";

const TEXT = ["plan", "plan_content", "thought", "thinking", "text", "reason", "summary", "code"];

/** @type {import("./registry.js").Tool} */
export const think = {
  gist(args) {
    return textField(args, ...TEXT)?.replace(/^[#\s]+/, "");
  },

  args(reader) {
    const text = reader.text(...TEXT);
    return text === undefined ? undefined : [prose(text), settings(reader)];
  },
};

/** @type {import("./registry.js").Tool} */
export const plan = { ...think, isMessage: true };
