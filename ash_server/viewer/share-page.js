/** The page of a share link: exchanges the secret in the fragment for a cookie, and then shows the session. */
import { button } from "./lib/dom.js";

const ENDED = { title: "This link does not work", text: "It has ended or is not complete: ask for a new one." };
const BUSY = { title: "Shared session", text: "The server does not open the link now.", isRetried: true };
const SILENT = { title: "Shared session", text: "The server cannot be reached.", isRetried: true };

/** @returns {Promise<{title: string, text: string, isRetried?: boolean} | undefined>} */
async function exchangeSecret() {
  const secret = location.hash.slice(1);
  if (!/^[A-Za-z0-9]{43}$/.test(secret)) return ENDED;
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(location.pathname, { method: "POST", headers, body: JSON.stringify({ secret }) });
  if (response.status === 404) return ENDED;
  if (!response.ok) return BUSY;
  history.replaceState(null, "", location.pathname);
  location.reload();
}

function show({ title, text, isRetried = false }) {
  const status = /** @type {HTMLElement} */ (document.querySelector("[role=status]"));
  /** @type {HTMLElement} */ (document.querySelector("h1")).textContent = title;
  status.textContent = text;
  status.classList.replace("refusal-detail", "refusal-problem");
  if (isRetried) status.after(button({ class: "refusal-action" }, "Try again", () => location.reload()));
}

exchangeSecret()
  .catch(() => SILENT)
  .then((problem) => problem && show(problem));
