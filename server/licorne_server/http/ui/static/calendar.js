// When asks and gangs that hold a shadow start are expected to start: a picture of the first, and the list.

import { ofPartition } from "./api.js";
import { commandLine, ofThe } from "./copy.js";
import { badge, el, link, place, searchField, section } from "./dom.js";
import { gantt, ganttLegend } from "./gantt.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { change, toApp, toAsk, toQueue } from "./route.js";
import { choosePartition, now, state } from "./store.js";
import { PagedList } from "./table.js";
import { brief, count, counted, span } from "./units.js";
import { when } from "./when.js";

const MAX_LANES = 20;
// The picture shows time, so that it is drawn anew although nothing has changed.
const EVERY = 5000;

export function view([partition = state.partition], { q = "", queue = "" }) {
  choosePartition(partition);
  const picture = new Picture(partition, queue);
  const list = new PagedList({
    label: "Calendar", partition, path: ofPartition(partition, "calendar"), query: { q, queue }, by: "offset",
    empty: "No start is planned now. An ask or a gang that finds no room gets one here: the time at which enough of what runs is expected to have ended.",
    columns: [
      { name: "For", sort: "application", cell: (row) => subject(partition, row) },
      { name: "Starts", sort: "start", cell: (row) => (row.start ? when(row.start) : "unknown") },
      { name: "In", number: true, cell: (row) => (row.start ? span(Math.max(0, row.start - now())) : "–") },
      { name: "Range", wide: true, cell: (row) => (row.level ? el("span", { title: `in ${row.level} of 100 cases` }, when(row.earliest), " to ", when(row.latest)) : "–") },
      { name: "Confidence", sort: "confidence", kind: "bare", cell: (row) => badge(row.confidence, "quiet") },
      { name: "Queue", sort: "queue", cell: (row) => link(toQueue(partition, row.queue), row.queue) },
      { name: "Asks", sort: "asks", number: true, cell: (row) => count(row.asks) },
      { name: "Wanted", sort: "requested.vcore", cell: (row) => brief(row.requested) },
      { name: "Nodes", sort: "nodes", number: true, wide: true, cell: (row) => count(row.nodes) },
      { name: "First told", sort: "firstTold", wide: true, cell: (row) => when(row.firstTold) },
      { name: "Wanted by", sort: "startBy", cell: (row) => (row.startBy ? el("span", {}, when(row.startBy), row.late ? [" ", badge("late", "bad")] : "") : "–") },
    ],
  });
  const tools = el("div", { class: "tools" }, searchField("Look for an application or a key", q, (text) => {
    change({ q: text });
    list.search({ q: text });
  }));
  const options = queue ? ["--queue", queue] : [];
  return {
    title: queue ? `Calendar of ${queue}` : "Calendar", partition, node: el("div", { class: "stack" }, picture.node, tools, list.node),
    close: () => (list.close(), picture.close()), command: commandLine("calendar", ...options, ...ofThe(partition)),
  };
}

const subject = (partition, { application, key }) =>
  link(key ? toAsk(partition, application, key) : toApp(partition, application), key || application, { class: "name", title: `of ${application}` });

class Picture {
  constructor(partition, queue) {
    this.partition = partition;
    this.holder = el("div");
    this.node = section("Planned starts", ganttLegend(["planned", "expected"]), this.holder);
    this.node.querySelector("h2").prepend(icon("calendar"));
    this.node.hidden = true;
    this.polled = new Polled({
      partition, path: ofPartition(partition, "calendar"), query: { queue, limit: MAX_LANES }, always: true, least: EVERY,
      show: (answer) => this.show(answer), failed: () => { this.node.hidden = true; },
    });
  }

  close() {
    this.polled.close();
  }

  show({ rows }) {
    this.node.hidden = !rows.length;
    if (!rows.length) return;
    const time = now();
    const from = Math.min(time, ...rows.map((row) => row.since));
    const to = Math.max(time, ...rows.map((row) => row.start));
    const lanes = rows.map((row) => ({
      label: subject(this.partition, row),
      phases: [{ kind: "planned", from: row.since, to: time }, ...(row.start > time ? [{ kind: "expected", from: time, to: row.start, text: row.confidence }] : [])],
      end: el("span", {}, when(row.start), ` · ${counted(row.asks, "ask")}`, row.late ? [" ", badge("late", "bad")] : ""),
    }));
    place(this.holder, [gantt("Planned starts", { from, to: to + (to - from) / 20, rows: lanes })]);
  }
}
