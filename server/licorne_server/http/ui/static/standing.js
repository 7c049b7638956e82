// Where a waiting ask stood in its queue over time: what was ahead of it, and which check stopped it. The
// server follows an ask from the first look at it on.

import { ofPartition } from "./api.js";
import { Chart } from "./chart.js";
import { codeInWords } from "./codes.js";
import { el, note, place, section } from "./dom.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { count } from "./units.js";
import { when } from "./when.js";

// The distance of samples, in ms.
const STEP = 5000;
const MAX_CHANGES = 30;

export class Standing {
  constructor(partition, app, key) {
    this.chart = null;
    this.name = `What was ahead of ${key || `the first ask of ${app}`}`;
    this.holder = el("div", {}, note("Its place is noted from now on, every 5 seconds."));
    this.changes = el("ul", { class: "marklist" });
    this.node = section("Ahead of it over time", this.holder, this.changes);
    this.node.querySelector("h2").prepend(icon("chart"));
    this.polled = new Polled({
      partition, path: ofPartition(partition, "application", app, "standing"), query: { key }, always: true, least: STEP,
      show: (answer) => this.show(answer), failed: () => { this.node.hidden = true; },
    });
  }

  close() {
    this.polled.close();
    this.chart?.close();
  }

  show({ times, asksAhead, applicationsAhead, codes }) {
    this.node.hidden = false;
    if (times.length < 2) return;
    if (this.chart === null) {
      this.chart = new Chart(this.name, count);
      place(this.holder, [this.chart.node]);
    }
    const marks = times.map((time, at) => ({ time, kind: "reason", text: codes[at] ? codeInWords(codes[at]) : "nothing stops it" })).filter((_, at) => !at || codes[at] !== codes[at - 1]);
    const start = times[0];
    this.chart.show({ start, step: STEP, marks: marks.slice(1), series: [
      { name: "asks of the same application", kind: "used", values: everyStep(times, asksAhead), steps: true },
      { name: "applications of the same queue", kind: "waiting", values: everyStep(times, applicationsAhead), steps: true },
    ] });
    place(this.changes, marks.reverse().slice(0, MAX_CHANGES).map(({ time, text }) => el("li", {}, when(time), el("span", { text }))));
    this.changes.tabIndex = marks.length > 5 ? 0 : -1;
  }
}

/** The values at even steps; null where nothing was noted. */
function everyStep(times, values) {
  const found = Array(Math.round((times.at(-1) - times[0]) / STEP) + 1).fill(null);
  times.forEach((time, at) => { found[Math.round((time - times[0]) / STEP)] = values[at]; });
  return found;
}
