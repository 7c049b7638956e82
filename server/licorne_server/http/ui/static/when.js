// Times as elements: short to read, with day, time, age and the reader's own time in the title.

import { el } from "./dom.js";
import { now } from "./store.js";
import { dayAndTime, localTime, span, time } from "./units.js";

/** A time of day; a dash for none. */
export const when = (ms) => (ms ? stamp(ms, time(ms)) : "–");

/** How long ago that was: "3 min". */
export const age = (ms) => (ms ? stamp(ms, span(Math.max(0, now() - ms))) : "–");

function stamp(ms, text) {
  const old = now() - ms;
  const relative = old >= 0 ? `${span(old)} ago` : `in ${span(-old)}`;
  return el("time", { datetime: new Date(ms).toISOString(), title: `${dayAndTime(ms)} · ${localTime(ms)} · ${relative}`, text });
}

/** A finding in words: which member says so, what it is, and since when. */
export function findingParts({ member, text, since }) {
  return [member ? `${member}: ` : "", text, ...(since ? [", since ", when(since)] : [])];
}

/** An operator's mark in words: by whom, when, why. */
export function byWhom({ by, time: ms, message }) {
  return el("span", {}, by ? `by ${by}, ` : "", when(Number(ms)), message ? `: “${message}”` : "");
}
