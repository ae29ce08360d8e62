import { getJson, messageOf, sendJson } from "../lib/api.js";
import { button, el } from "../lib/dom.js";
import { commandLine } from "../lib/placeholders.js";
import { momentText } from "../lib/time-format.js";
import { isLocal } from "./continue-dialog.js";
import { alertLine, closeButton, note, openDialog } from "./dialog.js";
import { findingLines, loadFindings } from "./findings.js";

/** @type {[hours: number, label: string][]} */
const SPANS = [[24, "1 day"], [7 * 24, "7 days"], [30 * 24, "30 days"], [90 * 24, "90 days"]];
const DEFAULT_HOURS = 7 * 24;

/**
 * Share a session by a link. The secrets in it are shown before a link can be created.
 *
 * @param {any} session
 * @param {any} key
 */
export function shareSession(session, key) {
  const address = `/api/sessions/${session.id}/shares`;
  const found = el("div", { role: "status" }, note("Searching for secrets…"));
  const alert = alertLine();
  const links = el("div");
  const showLinks = async () => {
    const { shares } = await getJson(address).catch(() => ({ shares: [] }));
    links.replaceChildren(...linkList(shares, revoke));
  };
  const revoke = async ({ id }) => {
    try {
      await sendJson("DELETE", `${address}/${id}`);
      alert.textContent = "";
    } catch (problem) {
      alert.textContent = messageOf(problem);
    }
    await showLinks();
  };
  const send = async (options) => {
    const link = await sendJson("POST", address, options);
    showLinks();
    return link;
  };
  const { form, submit } = linkForm(key, alert, send);
  const dialog = openDialog(
    "Share",
    note("Anyone with the link can see this session, without a key."),
    found,
    form,
    links,
  );
  dialog.querySelector("h2")?.focus();
  showLinks();
  loadFindings(session).then(
    (findings) => {
      found.replaceChildren(...findingLines(session, findings));
      submit.disabled = false;
    },
    (problem) => found.replaceChildren(el("p", { class: "action-error" }, messageOf(problem))),
  );
}

/** The form that creates a link. Its button is disabled at first. */
function linkForm(key, alert, send) {
  const created = el("div", { role: "status" });
  const submit = el("button", { type: "submit", class: "primary", disabled: true }, "Create link");
  const span = el(
    "select",
    {},
    ...SPANS.map(([hours, label]) => el("option", { value: hours, selected: hours === DEFAULT_HOURS }, label)),
  );
  const follow = checkbox("Also messages that are stored later");
  const subagents = checkbox("Also lines of subagents in the transcript");
  const redacted = checkbox("Replace secrets of known forms", true);
  const mayShowSecrets = key?.scopes.includes("admin") && !key.redacts;
  const form = el(
    "form",
    {},
    el("label", { class: "action-row" }, el("span", {}, "Valid for"), span),
    follow.element,
    subagents.element,
    mayShowSecrets && redacted.element,
    alert,
    created,
    el("div", { class: "action-buttons" }, closeButton(), submit),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    alert.textContent = "";
    submit.disabled = true;
    const options = {
      expiresInHours: Number(span.value),
      follow: follow.isOn(),
      subagents: subagents.isOn(),
      redacted: redacted.isOn(),
    };
    try {
      created.replaceChildren(...newLink(await send(options)));
    } catch (problem) {
      alert.textContent = messageOf(problem);
    }
    submit.disabled = false;
  });
  return { form, submit };
}

function newLink({ path }) {
  const where = isLocal(location.hostname) && note("Only this machine can open the link: its address is local.");
  const parts = [note("The link, shown only now:"), commandLine(location.origin + path), where];
  return parts.filter((part) => part instanceof Element);
}

/** The valid links of the session, which can be revoked. */
function linkList(shares, revoke) {
  if (!shares.length) return [];
  const rows = shares.map((share) => {
    const contents = share.lastMessage === undefined ? "all messages" : `up to message ${share.lastMessage}`;
    const facts = [contents, share.subagents && "with subagents", !share.redacted && "not redacted"].filter(Boolean);
    const text = `Until ${momentText(Date.parse(share.expiresAt))} · ${facts.join(", ")}`;
    return el("li", {}, el("span", {}, text), button({ "aria-label": `Revoke the link: ${text}` }, "Revoke", () => revoke(share)));
  });
  return [el("h3", {}, "Valid links"), el("ul", { class: "action-links" }, ...rows)];
}

function checkbox(label, isOn = false) {
  const input = el("input", { type: "checkbox", checked: isOn });
  return { element: el("label", { class: "action-check" }, input, label), isOn: () => input.checked };
}
