/** Ask for a key where the server needs one, and come back to this page. */

/** Go to the page that asks for a key. */
export function goToSignIn() {
  const { pathname, search, hash } = location;
  location.replace(`/login?next=${encodeURIComponent(pathname + search + hash)}`);
}

/** Find out whether a failed EventSource, which knows no status, needs a key. */
export async function checkSignedIn() {
  const response = await fetch("/api/sessions?limit=1", { cache: "no-store" }).catch(() => undefined);
  if (response?.status === 401) goToSignIn();
}
