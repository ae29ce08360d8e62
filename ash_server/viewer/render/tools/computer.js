/** A screen, a mouse and a keyboard. */
import { raw } from "./generic.js";
import { at, isScalar, isText, textAt } from "../../lib/json-fields.js";

const PLACE = ["coordinate", "start_coordinate"];
const WHAT = ["text", "keys", "key", "url", "scroll_direction", "ref", "duration"];

export const computer = {
  ...raw,

  gist(args) {
    const place = at(args, PLACE, (each) => Array.isArray(each) && each.every(isScalar)) ?? pointIn(args);
    const what = at(args, WHAT, (each) => isScalar(each) || (Array.isArray(each) && each.every(isText)));
    const told = [textAt(args, "action", "type"), place?.join(", "), [what ?? []].flat().join(" ")];
    return told.filter(Boolean).join(" ") || undefined;
  },
};

function pointIn(args) {
  const [x, y] = ["x", "y"].map((name) => at(args, [name], isScalar));
  return x === undefined || y === undefined ? undefined : [x, y];
}
