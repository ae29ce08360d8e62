import { button } from "./dom.js";

const KEY = "ash-theme";

/** The theme that a click switches to. */
const NEXT = { auto: "light", light: "dark", dark: "auto" };

const TITLES = { auto: "Colours: as the system has them", light: "Colours: light", dark: "Colours: dark" };

/** Apply the stored theme as `data-theme` on the root element, which is absent for "auto". */
function applyTheme() {
  const theme = currentTheme();
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  return theme;
}

/** A button that cycles through auto, light and dark. Other windows follow. */
export function themeToggle() {
  const toggle = button({ class: "theme-toggle icon-button" }, null, () => {
    storeTheme(NEXT[currentTheme()]);
    show();
  });
  const show = () => {
    const theme = applyTheme();
    toggle.dataset.choice = theme;
    toggle.title = TITLES[theme];
    toggle.setAttribute("aria-label", TITLES[theme]);
  };
  addEventListener("storage", show);
  show();
  return toggle;
}

/** The theme of this page, used if the browser denies access to its storage. */
let fallback = "auto";

function currentTheme() {
  const theme = storedTheme();
  return Object.hasOwn(NEXT, theme) ? theme : "auto";
}

function storedTheme() {
  try {
    return localStorage.getItem(KEY) ?? fallback;
  } catch {
    return fallback;
  }
}

function storeTheme(theme) {
  fallback = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // The fallback applies until the page is closed.
  }
}
