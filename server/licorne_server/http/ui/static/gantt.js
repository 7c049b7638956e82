// A time line of rows: each has phases that wait, run or stop, and how it ended.
//
// gantt(label, { from, to, rows: [{ label, phases: [{ kind, from, to, text }], end }] }) makes one;
// `label` and `end` are nodes or texts, a phase without `to` goes on, `kind` is waiting, expected, running or stopping.

import { el } from "./dom.js";
import { dayAndTime, localTime, span, time } from "./units.js";

const TICKS = 5;
const WORDS = { waiting: "waited", planned: "has had a planned start", expected: "is expected to wait", running: "ran", stopping: "was asked to stop" };
const LEGEND = { ...WORDS, planned: "start is planned", stopping: "asked to stop", expected: "expected to wait" };

export function gantt(label, { from, to, rows }) {
  const length = Math.max(1, to - from);
  const part = (ms) => Math.max(0, Math.min(1, (ms - from) / length)) * 100;
  return el("div", { class: "gantt", role: "table", "aria-label": label },
    scale(from, length), ...rows.map((row) => lane(row, part, to)));
}

function scale(from, length) {
  const ticks = Array.from({ length: TICKS }, (_, at) => {
    const ms = from + (length * at) / TICKS;
    const tick = el("span", { text: time(ms), title: `${dayAndTime(ms)} · ${localTime(ms)}` });
    tick.style.left = `${(at / TICKS) * 100}%`;
    return tick;
  });
  return el("div", { class: "scale", "aria-hidden": "true" }, el("span"), el("span", { class: "ticks" }, ticks), el("span"));
}

function lane({ label, phases, end }, part, to) {
  const bars = phases.map(({ kind, from, to: until, text }) => {
    const words = `${WORDS[kind] || kind} ${until ? `for ${span(until - from)}` : `since ${time(from)}`}${text ? `: ${text}` : ""}`;
    const bar = el("span", { class: `phase ${kind}`, title: `${words} (from ${dayAndTime(from)})` }, el("span", { class: "hidden", text: `${words}. ` }));
    bar.style.left = `${part(from)}%`;
    bar.style.width = `${part(until || to) - part(from)}%`;
    return bar;
  });
  return el("div", { class: "lane", role: "row" },
    el("span", { class: "label", role: "rowheader" }, label),
    el("span", { class: "run", role: "cell" }, bars), el("span", { class: "end", role: "cell" }, end || ""));
}

/** What the colours mean. */
export function ganttLegend(kinds = ["waiting", "running", "stopping"]) {
  return el("p", { class: "legend" }, kinds.map((kind) => {
    const sample = el("span", { class: "gantt", "aria-hidden": "true" }, el("span", { class: `phase ${kind}` }));
    sample.style.display = "inline-block";
    sample.style.position = "relative";
    sample.style.width = "1.1rem";
    sample.style.height = ".8rem";
    sample.style.marginRight = ".4rem";
    sample.firstChild.style.width = "100%";
    return el("span", {}, sample, LEGEND[kind]);
  }));
}
