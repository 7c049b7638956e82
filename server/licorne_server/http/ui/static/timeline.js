// The time line of an application: when each of its asks waited, ran and stopped, and why it ended.

import { ofPartition } from "./api.js";
import { badge, el, link, note, place, section } from "./dom.js";
import { gantt, ganttLegend } from "./gantt.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { toAsk, toQueue } from "./route.js";
import { count, counted } from "./units.js";

const MAX_LANES = 40;
// Asks whose phases differ by no more than this part of the whole time have one lane.
const ALIKE = 1 / 200;
// How often newer rows are asked for, in ms.
const EVERY = 5000;
const TONES = { preempted: "bad", "timed out": "warn" };

export class Timeline {
  constructor(partition, app) {
    Object.assign(this, { partition, app });
    this.holder = el("div");
    this.node = section("Time line", ganttLegend(), this.holder);
    this.node.querySelector("h2").prepend(icon("clock"));
    this.node.hidden = true;
    this.polled = new Polled({
      partition, path: ofPartition(partition, "application", app, "timeline"), always: true, least: EVERY,
      show: (answer) => this.show(answer), failed: () => { this.node.hidden = true; },
    });
  }

  close() {
    this.polled.close();
  }

  show({ from, to, rows, more }) {
    this.node.hidden = !rows.length;
    const lanes = together(rows, Math.max(1, (to - from) * ALIKE));
    const shown = lanes.slice(0, MAX_LANES);
    const left = more + lanes.slice(MAX_LANES).reduce((sum, alike) => sum + alike.length, 0);
    place(this.holder, [
      gantt(`Time line of ${this.app}`, { from, to, rows: shown.map(([row, ...others]) => this.lane(row, others.length)) }),
      left ? note(`and ${counted(left, "older ask")}`) : null,
    ].filter(Boolean));
  }

  lane({ key, placeholder, phases, end, why, forQueue, node }, others) {
    const what = [why, node && !others ? `on ${node}` : ""].filter(Boolean).join(", ");
    const name = link(toAsk(this.partition, this.app, key), key, { class: "name" });
    return {
      label: others ? el("span", {}, name, ` and ${count(others)} like it`) : name,
      phases: phases.map((phase) => (phase.kind === "waiting" ? phase : { ...phase, text: what })),
      end: el("span", {}, placeholder ? badge("placeholder", "quiet") : null, end ? badge(end, TONES[end] || "quiet") : null,
        why ? ` ${why}` : "", forQueue ? [", for ", link(toQueue(this.partition, forQueue), forQueue)] : null),
    };
  }
}

/** Rows that waited, ran and ended alike, within so many ms, each list in the order of its first. */
function together(rows, within) {
  const found = new Map();
  for (const row of rows) {
    const { phases, end, why, forQueue, placeholder } = row;
    const key = JSON.stringify([phases.map(({ kind, from, to }) => [kind, Math.round(from / within), to && Math.round(to / within)]), end, why, forQueue, placeholder]);
    if (found.has(key)) found.get(key).push(row);
    else found.set(key, [row]);
  }
  return [...found.values()];
}
