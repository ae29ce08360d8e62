/** Tools of MCP servers: named `mcp__server__tool`, or with the server in the arguments. */
import { facts } from "./body-parts.js";
import { generic } from "./generic.js";
import { fieldOf, isObject, textField } from "../../lib/json-fields.js";

const SERVER = ["server_label", "server_name", "server", "providerIdentifier", "provider_identifier"];
const NAME = /^mcp__(.+?)__(.+)$/s;

/** @type {import("./registry.js").Tool} */
export const mcp = {
  ...generic,

  title({ name, args }) {
    return name.match(NAME)?.[2] ?? textField(args, "toolName", "tool_name") ?? name;
  },

  gist(args, { name }) {
    const server = name.match(NAME)?.[1] ?? textField(args, ...SERVER);
    return [server, generic.gist(innerArgs(args) ?? args)].filter(Boolean).join(" · ");
  },

  args(reader) {
    const inner = innerArgs(reader.value);
    if (!inner) return generic.args(reader);
    reader.object("args", "arguments");
    const rest = reader.takeRest();
    return [facts(inner), rest && facts(rest)];
  },
};

/** The arguments of the MCP tool, if the arguments of the call wrap them together with server and tool name. */
function innerArgs(args) {
  const isWrapped = textField(args, ...SERVER) !== undefined || textField(args, "toolName") !== undefined;
  return isWrapped ? fieldOf(args, ["args", "arguments"], isObject) : undefined;
}
