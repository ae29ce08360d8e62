/** Pages without sessions: signing in and out, errors, share links, the API reference. Adds the button of the theme. */
import { themeToggle } from "./lib/theme.js";

document.querySelector(".page-header")?.append(themeToggle());

const problem = document.querySelector(".refusal-problem");
if (problem?.textContent) {
  document.querySelector(`[aria-describedby="${problem.id}"]`)?.setAttribute("aria-invalid", "true");
  document.title = `Error: ${document.title}`;
}
