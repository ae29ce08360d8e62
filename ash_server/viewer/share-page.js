/** The page of a share link: exchanges the secret in the fragment for a cookie, and then shows the session. */

const INVALID = "This link is not valid, or no longer.";

async function exchangeSecret() {
  const secret = location.hash.slice(1);
  if (!/^[A-Za-z0-9]{43}$/.test(secret)) return INVALID;
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(location.pathname, { method: "POST", headers, body: JSON.stringify({ secret }) });
  if (response.status === 404) return INVALID;
  if (!response.ok) return "The server does not open the link now. Try again later.";
  history.replaceState(null, "", location.pathname);
  location.reload();
  return "Opening the link…";
}

exchangeSecret()
  .catch(() => "The server does not answer. Reload the page to try again.")
  .then((text) => {
    /** @type {HTMLElement} */ (document.querySelector("[role=status]")).textContent = text;
  });
