import { button } from "./dom.js";

const KEY = "ash-theme";

/** What a click leads to. */
const NEXT = { auto: "light", light: "dark", dark: "auto" };

const TITLES = { auto: "Colours: as the system has them", light: "Colours: light", dark: "Colours: dark" };

/** Gives the page the colours chosen in this browser: `data-theme` on the root, absent where none are. */
function applyTheme() {
  const theme = chosen();
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  return theme;
}

/** A button that leads through automatic, light and dark; other windows follow. */
export function themeToggle() {
  const toggle = button({ class: "theme-toggle icon-button" }, null, () => {
    choose(NEXT[chosen()]);
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

let unkept = "auto";

function chosen() {
  const kept = stored();
  return Object.hasOwn(NEXT, kept) ? kept : "auto";
}

/** Where the browser keeps nothing for this page, the choice lasts as long as the page. */
function stored() {
  try {
    return localStorage.getItem(KEY) ?? unkept;
  } catch {
    return unkept;
  }
}

function choose(theme) {
  unkept = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // As above.
  }
}
