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
  syntaxHighlight: { theme: "idea" },
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
