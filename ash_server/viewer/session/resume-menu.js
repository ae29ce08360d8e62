import { getJson, messageOf } from "../lib/api.js";
import { commandLine } from "../lib/placeholders.js";
import { el } from "../lib/dom.js";

/**
 * A menu with the command that continues the session in its agent, loaded when it is opened.
 *
 * @param {string} address of the command
 */
export function resumeMenu(address) {
  const body = el("div", { class: "menu-body resume", "aria-live": "polite" });
  const menu = el("details", { class: "menu resuming" }, el("summary", {}, "Resume"), body);
  menu.addEventListener("toggle", async () => {
    if (!menu.open) return;
    try {
      body.replaceChildren(...shown(await getJson(address)));
    } catch (problem) {
      body.replaceChildren(el("p", { class: "resume-note" }, messageOf(problem)));
    }
  });
  return menu;
}

function shown({ command, arguments: words, machine, reason }) {
  const line = command ?? words?.join(" ");
  if (line === undefined) return [note(reason ?? "No command is known.")];
  const notes = [
    machine && `On ${machine}, which stored the session.`,
    command === undefined && "In the folder of the session, which no record states.",
  ].filter(Boolean);
  return [commandLine(line), ...notes.map(note)];
}

function note(text) {
  return el("p", { class: "resume-note" }, text);
}
