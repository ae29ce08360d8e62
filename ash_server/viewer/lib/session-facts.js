/** Where a session ran, who ran it, and how long: the facts that rows and headers have in common, in one order. */
import { el } from "./dom.js";
import { markHidden } from "./hidden-characters.js";
import { formatDuration, formatShort, pluralize } from "./number-format.js";
import { chosenName } from "./title-text.js";

const CAUSES = { schedule: "scheduled", program: "by a program" };

/** The last folder of a path: `ash` of `/work/ash`. */
export function folderName(path) {
  return path?.split(/[/\\]+/).filter(Boolean).at(-1) ?? path;
}

/**
 * "22 h 22 min, 40 min active"; empty without times. The active part is missing if it is nearly the whole.
 *
 * @param {{durationMs?: number, activeMs?: number}} session
 */
export function durationText({ durationMs = 0, activeMs = 0 }) {
  const shown = [
    durationMs >= 1000 && formatDuration(durationMs),
    isPart(activeMs, durationMs) && `${formatDuration(activeMs)} active`,
  ];
  return shown.filter(Boolean).join(", ");
}

function isPart(activeMs, durationMs) {
  return activeMs >= 1000 && activeMs < 0.8 * durationMs;
}

/**
 * Name, project, branch, models, prompts, duration, machine, person and cause of a session, as far as they are known.
 *
 * @param {any} session
 * @param {{models?: string[], modelsHint?: string, projectAddress?: string, hasMachine?: boolean, hasPerson?: boolean,
 *   isNamed?: boolean}} [options] `models` are the models, the most important first; `projectAddress` makes the project
 *   a link; `hasMachine` and `hasPerson` show these; `isNamed` is false if the title is the name
 * @returns {Element[]}
 */
export function placeFacts(session, { projectAddress, hasMachine, hasPerson, isNamed, ...shown } = {}) {
  const { branch, commit, promptCount, machine, person, cause } = session;
  const { models = session.models ?? [], modelsHint = models.join(", ") } = shown;
  const duration = durationText(session);
  const facts = [
    isNamed !== false && isolated("own-name", chosenName(session), "The name of the session"),
    projectFact(session, projectAddress),
    isolated("branch", branch, commit ? `Git branch, at commit ${commit}` : "Git branch"),
    isolated("model", shortList(models), modelsHint),
    promptCount > 0 && el("span", { class: "prompts" }, pluralize(promptCount, "prompt", formatShort)),
    duration && el("span", { class: "duration" }, duration),
    hasMachine && isolated("machine", machine, "The machine that stored it"),
    hasPerson && isolated("person", person, "The person who stored it"),
    isolated("cause", CAUSES[cause ?? ""], "How it was started"),
  ];
  return facts.filter((fact) => fact instanceof Element);
}

function projectFact({ project, folder, machine }, address) {
  const root = project ?? folder;
  const where = [folder ?? root, machine && `on ${machine}`].filter(Boolean).join(" ");
  return isolated("project", folderName(root), where, address);
}

/** The first text, and how many follow. */
function shortList(texts) {
  return texts.length > 1 ? `${texts[0]} +${texts.length - 1}` : texts[0];
}

/** A text of others, which may have another direction; undefined if there is none. */
export function isolated(name, text, title, href = undefined) {
  if (!text) return undefined;
  const shown = el("bdi", {}, ...markHidden(text));
  return el("span", { class: name, title }, href ? el("a", { href }, shown) : shown);
}
