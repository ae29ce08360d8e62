/*
 * Continue without a key if the browser is signed in. It does not send the cookie with the first request after a link of
 * another site, but with those of this page.
 */

const ANY_ROUTE = "/api/sessions?limit=1";

const next = /** @type {HTMLInputElement} */ (document.querySelector("input[name=next]"));
const response = await fetch(ANY_ROUTE, { cache: "no-store" });
if (response.ok) location.replace(next.value);
