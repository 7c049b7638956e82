// A bar of parts of a whole: stacked([{ label, value }]); `tone(at)` is the class of the colour of a part.

import { el } from "./dom.js";

const TONES = 6;

export const tone = (at) => `tone-${Math.min(at, TONES - 1)}`;

export function stacked(parts) {
  const bar = el("div", { class: "stacked", "aria-hidden": "true" });
  parts.forEach(({ label, value }, at) => {
    const part = el("span", { class: tone(at), title: label });
    part.style.flexGrow = value;
    part.style.flexBasis = "0";
    bar.append(part);
  });
  return bar;
}

/** The colour of a part, beside its name. */
export const swatch = (at) => el("span", { class: `swatch ${tone(at)}`, "aria-hidden": "true" });
