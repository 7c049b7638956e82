// The difference between two configurations, as a list of lines.

import { el, note } from "./dom.js";
import { diff, near } from "./diff.js";
import { counted } from "./units.js";

const SIGNS = { same: " ", gone: "−", new: "+" };
const SAID = { same: "", gone: "less: ", new: "more: " };
const MAX_LINES = 5000;

/** What a text has less and more than another; `alike` is said where there is no difference. */
export function difference(label, before, after, alike) {
  const lines = near(diff(before, after));
  const changed = lines.filter((line) => line !== null && line.kind !== "same");
  const gone = changed.filter(({ kind }) => kind === "gone").length;
  if (!changed.length) return [note(alike)];
  return [el("p", { class: "summary", text: `${counted(gone, "line")} less, ${counted(changed.length - gone, "line")} more` }), shown(label, lines)];
}

function shown(label, lines) {
  const rows = lines.slice(0, MAX_LINES).map((line) => {
    if (line === null) return el("li", { class: "skip", text: "…" });
    const number = el("span", { class: "place", "aria-hidden": "true", text: String(line.after ?? line.before) });
    const sign = el("span", { class: "sign", "aria-hidden": "true", text: SIGNS[line.kind] });
    return el("li", { class: line.kind }, number, sign, el("span", { class: "hidden", text: SAID[line.kind] }), el("code", { text: line.text || " " }));
  });
  return el("ul", { class: "diff", tabindex: 0, role: "region", "aria-label": label }, rows);
}
