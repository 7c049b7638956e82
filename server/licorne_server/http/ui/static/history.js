// What a queue used, waited for, was guaranteed and might have, over an hour or a day, with flags for what
// happened. A server that keeps no history has no such card.

import { ofPartition } from "./api.js";
import { Chart } from "./chart.js";
import { button, choice, el, note, place, section, setAttribute, setOptions } from "./dom.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { change, parse } from "./route.js";
import { amount, count, isBytes, sortedNames } from "./units.js";
import { when } from "./when.js";

const SPANS = [["hour", "Hour"], ["day", "Day"]];
const APPLICATIONS = "applications";
const MAX_MARKS = 30;
// How often newer figures are asked for, in ms: that is a step of an hour.
const EVERY = 5000;
// Steps that are shown at least.
const LEAST = 24;
const KINDS = [["max", "maximum"], ["guaranteed", "guaranteed"], ["used", "used"], ["waiting", "used and waiting"]];

export class History {
  /** Without a queue it is that of the partition. */
  constructor(partition, queue = "") {
    const { span = "hour", resource = "" } = parse(location.hash).query;
    Object.assign(this, { queue, resource, span, chart: null, shown: "" });
    this.choice = choice("Show", [], "", (name) => this.pick({ resource: name }));
    this.choice.classList.add("inline");
    this.buttons = SPANS.map(([value, text]) => button(text, () => this.pick({ span: value }), { "data-span": value }));
    this.holder = el("div");
    this.marks = el("ul", { class: "marklist" });
    this.node = section("Over time", this.holder, this.marks);
    const tools = el("span", { class: "end" }, this.choice, el("span", { class: "switch", role: "group", "aria-label": "Span" }, this.buttons));
    this.node.querySelector("h2").append(tools);
    this.node.querySelector("h2").prepend(icon("chart"));
    this.node.hidden = true;
    this.press();
    this.polled = new Polled({
      partition, path: ofPartition(partition, "history"), query: { queue, span }, always: true, least: EVERY,
      show: (answer) => this.show(answer), failed: () => { this.node.hidden = true; },
    });
  }

  close() {
    this.polled.close();
    this.chart?.close();
  }

  pick(choices) {
    Object.assign(this, choices);
    change(choices);
    this.press();
    if (choices.span) this.polled.ask({ span: this.span });
    else this.draw();
  }

  press() {
    for (const item of this.buttons) setAttribute(item, "aria-pressed", String(item.dataset.span === this.span));
  }

  show(answer) {
    this.answer = recorded(answer);
    this.node.hidden = false;
    const names = [...sortedNames(Object.keys(answer.resources)), ...(answer.applications ? [APPLICATIONS] : [])];
    if (!names.includes(this.resource)) this.resource = names[0] || "";
    setOptions(this.choice.querySelector("select"), names.map((name) => [name, name]), this.resource);
    this.draw();
    const marks = [...(answer.marks || [])].reverse().slice(0, MAX_MARKS);
    place(this.marks, marks.map(({ time, text }) => el("li", {}, when(time), el("span", { text }))));
    this.marks.tabIndex = marks.length > 5 ? 0 : -1;
  }

  draw() {
    const { resource, answer } = this;
    if (!resource) return place(this.holder, [note("Nothing was recorded yet. A point comes every few seconds.")]);
    if (this.shown !== resource) {
      this.chart?.close();
      const format = resource === APPLICATIONS ? count : (value) => amount(resource, value);
      this.chart = new Chart(`${resource} of ${this.queue || "the partition"} over the last ${this.span}`, format, isBytes(resource) ? 1024 : 1000);
      this.shown = resource;
      place(this.holder, [this.chart.node]);
    }
    const { start, step, marks } = answer;
    return this.chart.show({ start, step, marks, series: resource === APPLICATIONS ? ofApplications(answer) : ofResource(answer.resources[resource]) });
  }
}

/** The part of an answer that was recorded: what is before a server's start is no gap to look at. */
function recorded(answer) {
  const { resources, start, step, applications, stopped } = answer;
  const known = (values) => values.findIndex((value) => value !== null);
  const firsts = Object.values(resources).map(({ used }) => known(used)).filter((at) => at >= 0);
  const from = firsts.length ? Math.max(0, Math.min(...firsts, Math.max(0, (applications?.length ?? 0) - LEAST))) : 0;
  const cut = (values) => values?.slice(from);
  const kept = Object.entries(resources).map(([name, of]) => [name, Object.fromEntries(Object.entries(of).map(([kind, values]) => [kind, cut(values)]))]);
  return { ...answer, start: start + from * step, resources: Object.fromEntries(kept), applications: cut(applications), stopped: cut(stopped) };
}

function ofResource(of) {
  const has = (values) => values?.some((value) => value !== null && value > 0);
  const sums = of.used.map((value, at) => (value === null ? null : value + (of.waiting[at] ?? 0)));
  const values = { ...of, waiting: sums };
  const steps = (kind) => kind === "max" || kind === "guaranteed";
  return KINDS.filter(([kind]) => kind === "used" || (kind === "waiting" ? has(of.waiting) : has(of[kind])))
    .reverse().map(([kind, name]) => ({ name, kind, values: values[kind], area: !steps(kind), over: kind === "waiting" ? of.used : null, steps: steps(kind) }));
}

function ofApplications({ applications, stopped = [] }) {
  const series = [{ name: "applications", kind: "plain", values: applications, steps: true }];
  if (stopped.some(Boolean)) series.push({ name: "allocations asked to stop", kind: "other", values: stopped, steps: true });
  return series;
}
