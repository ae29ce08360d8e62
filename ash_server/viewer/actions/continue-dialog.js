import { el } from "../lib/dom.js";
import { commandLine } from "../lib/placeholders.js";
import { closeButton, note, openDialog } from "./dialog.js";

/** Names of the agents that `ash continue` writes for. */
const AGENTS = { claude: "Claude Code", codex: "Codex", opencode: "OpenCode", pi: "pi" };

/** Show the commands that continue a session in other agents. A page cannot write into the folders of agents. */
export function continueElsewhere({ id }) {
  const server = isLocal(location.hostname) ? "" : ` --url ${location.origin}`;
  const rows = Object.entries(AGENTS).map(([agent, name]) =>
    el("li", {}, el("span", {}, name), commandLine(`ash continue ${id} --in ${agent}${server}`)),
  );
  openDialog(
    "Continue in another agent",
    note("Run one of these commands in a terminal, on the machine where the agent will work."),
    el("ul", { class: "action-commands" }, ...rows),
    note("Not carried: reasoning, messages of subagents, system prompts, permissions, tools, hooks, MCP settings, " +
      "environment variables. Add --dry-run to see the list of this session, and the secrets in it."),
    el("div", { class: "action-buttons" }, closeButton()),
  );
}

/** True for the machine of the browser. */
export function isLocal(host) {
  return host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
