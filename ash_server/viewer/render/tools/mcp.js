/** Tools of MCP servers: `mcp__server__tool`, or with the server told beside. */
import { facts } from "./body-parts.js";
import { raw } from "./generic.js";
import { at, isObject, textAt } from "../../lib/json-fields.js";

const SERVER = ["server_label", "server_name", "server", "providerIdentifier", "provider_identifier"];
const NAME = /^mcp__(.+?)__(.+)$/s;

export const mcp = {
  ...raw,

  title({ name, args }) {
    return name.match(NAME)?.[2] ?? textAt(args, "toolName", "tool_name") ?? name;
  },

  gist(args, { name }) {
    const server = name.match(NAME)?.[1] ?? textAt(args, ...SERVER);
    return [server, raw.gist(innerArgs(args) ?? args)].filter(Boolean).join(" · ");
  },

  args(reader) {
    const inner = innerArgs(reader.whole);
    if (!inner) return raw.args(reader);
    reader.object("args", "arguments");
    const rest = reader.takeRest();
    return [facts(inner), rest && facts(rest)];
  },
};

/** The arguments proper, where those of the call name server and tool. */
function innerArgs(args) {
  const isWrapped = textAt(args, ...SERVER) !== undefined || textAt(args, "toolName") !== undefined;
  return isWrapped ? at(args, ["args", "arguments"], isObject) : undefined;
}
