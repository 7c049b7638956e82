// A small chart without axes, for a row or a card: what was used, and above it what waited.

import { setAttribute, setText, svg } from "./dom.js";

const WIDTH = 100;
const HEIGHT = 24;
// Points that are shown at least.
const LEAST = 4;

export class Spark {
  constructor() {
    this.title = svg("title");
    this.asks = svg("path", { class: "asks" });
    this.area = svg("path", { class: "area" });
    this.top = svg("path", { class: "top" });
    this.node = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" }, this.title, this.asks, this.area, this.top);
  }

  /** Shows values of the same times; null where nothing was recorded. `words` says it all in a text. */
  show(allUsed, allWaiting, words, most = 0) {
    const from = firstOf(allUsed, allWaiting);
    const [used, waiting] = [allUsed.slice(from), allWaiting.slice(from)];
    const sums = used.map((value, at) => (value === null ? null : value + (waiting[at] ?? 0)));
    const scale = Math.max(most, 1, ...sums.map((value) => value ?? 0));
    setAttribute(this.area, "d", area(used, scale));
    setAttribute(this.asks, "d", area(sums, scale, used));
    setAttribute(this.top, "d", line(used, scale));
    setText(this.title, words);
  }
}

/** Where something was recorded first: a young server has a short past. */
function firstOf(used, waiting) {
  const first = used.findIndex((value, at) => value !== null || waiting[at] !== null);
  return first < 0 ? 0 : Math.max(0, Math.min(first, used.length - LEAST));
}

const x = (at, length) => ((at / Math.max(1, length - 1)) * WIDTH).toFixed(1);
const y = (value, scale) => (HEIGHT - 1 - (value / scale) * (HEIGHT - 2)).toFixed(1);

/** Runs of values without gaps, as [from, to). */
export function runs(values) {
  const found = [];
  let from = -1;
  for (let at = 0; at <= values.length; at += 1) {
    const there = at < values.length && values[at] !== null && values[at] !== undefined;
    if (there && from < 0) from = at;
    if (!there && from >= 0) {
      found.push([from, at]);
      from = -1;
    }
  }
  return found;
}

function line(values, scale) {
  return runs(values).map(([from, to]) =>
    values.slice(from, to).map((value, at) => `${at ? "L" : "M"}${x(from + at, values.length)} ${y(value, scale)}`).join("")).join("");
}

/** What is below the values, down to the floor or to other values. */
function area(values, scale, floor = null) {
  return runs(values).map(([from, to]) => {
    const along = (of) => of.slice(from, to).map((value, at) => `${x(from + at, values.length)} ${y(value ?? 0, scale)}`);
    const below = floor === null ? [`${x(to - 1, values.length)} ${HEIGHT}`, `${x(from, values.length)} ${HEIGHT}`] : along(floor).reverse();
    return `M${[...along(values), ...below].join("L")}Z`;
  }).join("");
}
