/** The page of a code for a phone: exchanges the code in the fragment for a cookie, when the button is pressed. */

const INVALID_CODE = "This code is invalid or has expired. A code works once, within five minutes: create a new one.";

/** Exchange the code for a cookie. Return the reason of a refusal; empty on success. */
async function exchangeCode(secret) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(location.pathname, { method: "POST", headers, body: JSON.stringify({ secret }) });
  if (response.status === 404) return INVALID_CODE;
  return response.ok ? "" : "The server does not accept the code now. Try again later.";
}

function offerSignIn() {
  const form = /** @type {HTMLFormElement} */ (document.querySelector("form"));
  const submit = /** @type {HTMLButtonElement} */ (form.querySelector("button"));
  const status = /** @type {HTMLElement} */ (document.querySelector("[role=status]"));
  const secret = location.hash.slice(1);
  history.replaceState(null, "", location.pathname + location.search);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    const problem = await exchangeCode(secret).catch(() => "The server does not answer. Try again.");
    if (!problem) return location.replace(document.body.dataset.next ?? "/");
    status.textContent = problem;
    submit.disabled = problem === INVALID_CODE;
  });
  if (/^[A-Za-z0-9]{43}$/.test(secret)) submit.disabled = false;
  else status.textContent = INVALID_CODE;
}

offerSignIn();
