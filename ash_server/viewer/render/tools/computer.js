/** Computer use: screen, mouse and keyboard. */
import { generic } from "./generic.js";
import { fieldOf, isScalar, isString, textField } from "../../lib/json-fields.js";

const COORDINATES = ["coordinate", "start_coordinate"];
const OPERANDS = ["text", "keys", "key", "url", "scroll_direction", "ref", "duration"];

/** @type {import("./registry.js").Tool} */
export const computer = {
  ...generic,

  gist(args) {
    const point = fieldOf(args, COORDINATES, (each) => Array.isArray(each) && each.every(isScalar)) ?? pointIn(args);
    const operand = fieldOf(args, OPERANDS, (each) => isScalar(each) || (Array.isArray(each) && each.every(isString)));
    const parts = [textField(args, "action", "type"), point?.join(", "), [operand ?? []].flat().join(" ")];
    return parts.filter(Boolean).join(" ") || undefined;
  },
};

function pointIn(args) {
  const [x, y] = ["x", "y"].map((name) => fieldOf(args, [name], isScalar));
  return x === undefined || y === undefined ? undefined : [x, y];
}
