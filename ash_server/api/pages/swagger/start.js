/* global SwaggerUIBundle */
SwaggerUIBundle({
  dom_id: "#docs",
  url: "/openapi.json",
  validatorUrl: null, // the default sends the document to a server elsewhere
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  defaultModelRendering: "example",
  syntaxHighlight: false, // its colours suit only one theme
});

// The theme of the viewer.
const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const showTheme = () => {
  const { theme } = root.dataset;
  root.classList.toggle("dark-mode", theme ? theme === "dark" : systemDark.matches);
};
new MutationObserver(showTheme).observe(root, { attributeFilter: ["data-theme"] });
systemDark.addEventListener("change", showTheme);
showTheme();

// Swagger UI leaves fields without a name, puts links into buttons, has boxes that only a mouse can scroll, no
// headings of the second level, and parts outside landmarks.
const docs = document.getElementById("docs");
const NAMES = { "#servers": "Server", ".examples-select-element": "Example", ".body-param__text": "Body" };
const REGIONS = { ".information-container": "About", ".schemes-server-container": "Server" };

function nameField(field) {
  const known = Object.keys(NAMES).find((selector) => field.matches(selector));
  const name = known ? NAMES[known] : !field.labels?.length && field.closest("[data-param-name]")?.dataset.paramName;
  if (name) field.setAttribute("aria-label", name);
}

function repair() {
  docs.querySelectorAll(":is(select, textarea, input):not([aria-label])").forEach(nameField);
  docs.querySelectorAll("button a[href]").forEach((link) => link.removeAttribute("href"));
  docs.querySelectorAll("pre.microlight:not([tabindex])").forEach((box) => (box.tabIndex = 0));
  docs.querySelectorAll(":is(h3, h4, h5):not([aria-level])").forEach((heading) => {
    heading.ariaLevel = String(Number(heading.localName.slice(1)) - 1);
  });
  for (const [selector, ariaLabel] of Object.entries(REGIONS)) {
    const region = docs.querySelector(selector);
    if (region) Object.assign(region, { role: "region", ariaLabel });
  }
}
new MutationObserver(repair).observe(docs, { childList: true, subtree: true });
