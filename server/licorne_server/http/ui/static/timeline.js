// The time line of an application: when each of its asks waited, ran and stopped, and why it ended.

import { ofPartition } from "./api.js";
import { badge, el, link, note, place, section } from "./dom.js";
import { gantt, ganttLegend } from "./gantt.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { toAsk } from "./route.js";
import { count } from "./units.js";

const MAX_ROWS = 60;
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
    const shown = rows.slice(0, MAX_ROWS);
    const left = rows.length - shown.length + more;
    place(this.holder, [
      gantt(`Time line of ${this.app}`, { from, to, rows: shown.map((row) => this.lane(row)) }),
      left ? note(`and ${count(left)} older rows`) : null,
    ].filter(Boolean));
  }

  lane({ key, placeholder, phases, end, why }) {
    return {
      label: link(toAsk(this.partition, this.app, key), key, { class: "name" }), phases,
      end: el("span", {}, placeholder ? badge("placeholder", "quiet") : null, end ? badge(end, TONES[end] || "quiet") : null, why ? ` ${why}` : ""),
    };
  }
}
