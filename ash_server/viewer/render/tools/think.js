/** Tools whose one argument is a text for people: thoughts and plans. */
import { prose, setting } from "./body-parts.js";
import { textAt } from "../../lib/json-fields.js";

const TEXT = ["plan", "plan_content", "thought", "thinking", "text", "reason", "summary", "code"];

export const words = {
  gist(args) {
    return textAt(args, ...TEXT)?.replace(/^[#\s]+/, "");
  },

  args(reader) {
    const text = reader.text(...TEXT);
    return text === undefined ? undefined : [prose(text), setting(reader)];
  },
};
