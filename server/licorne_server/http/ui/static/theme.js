// Light or dark: as the system says, unless the visitor has chosen.

import { setAttribute } from "./dom.js";
import { icon } from "./icons.js";

const KEY = "licorne-theme";
const NEXT = { auto: "light", light: "dark", dark: "auto" };
const NAMES = { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" };

/** Follows the choice that was made before, and lets a button make another. */
export function startTheme(button) {
  const set = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.replaceChildren(icon(theme));
    for (const name of ["aria-label", "title"]) setAttribute(button, name, NAMES[theme]);
    dispatchEvent(new Event("themechange"));
  };
  const saved = localStorage.getItem(KEY);
  set(saved in NEXT ? saved : "auto");
  button.addEventListener("click", () => {
    const theme = NEXT[document.documentElement.dataset.theme];
    localStorage.setItem(KEY, theme);
    set(theme);
  });
}
