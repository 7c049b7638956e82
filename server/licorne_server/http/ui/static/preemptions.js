// Which allocations had to stop for others: sums of who lost to whom, then each of them.

import { ofPartition } from "./api.js";
import { commandLine } from "./copy.js";
import { badge, el, link, note, place, searchField, section } from "./dom.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { change, toAsk, toNode, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { PagedList, sortedTable } from "./table.js";
import { brief, count, counted, lost, short, span } from "./units.js";
import { when } from "./when.js";

const RULES = { guarantee: "for a queue below its guarantee", "fair-share": "for a queue below its fair share", "required-node": "for an ask that may go to no other node", quota: "its queue had more than its maximum", drain: "an operator drains its node" };

export function view([partition = state.partition], { q = "" }) {
  choosePartition(partition);
  const sums = new Sums(partition);
  const list = new PagedList({
    label: "Preemptions", partition, path: ofPartition(partition, "preemptions"), query: { q }, by: "before",
    empty: "Nothing was preempted.",
    columns: [
      { name: "Victim", sort: "key", cell: (row) => link(toAsk(partition, row.application, row.key), row.key, { class: "name", title: `of ${row.application}` }) },
      { name: "Told to stop", sort: "time", cell: (row) => when(row.time) },
      { name: "Queue", sort: "queue", cell: (row) => link(toQueue(partition, row.queue), row.queue) },
      { name: "Node", sort: "node", wide: true, cell: (row) => link(toNode(partition, row.node), row.node) },
      { name: "Size", sort: "resources.vcore", cell: (row) => brief(row.resources) },
      { name: "Had run", sort: "ran", number: true, cell: (row) => span(row.ran * 1000) },
      { name: "Rule", sort: "rule", kind: "bare", cell: (row) => badge(row.rule, row.rule === "quota" ? "warn" : "plain", RULES[row.rule] || "") },
      { name: "For", sort: "forKey", cell: (row) => (row.forKey ? link(toAsk(partition, row.forApplication, row.forKey), row.forKey, { title: `of ${row.forApplication} in ${row.forQueue}` }) : row.forQueue || "–") },
      { name: "Gone", sort: "released", wide: true, cell: (row) => (row.released ? `after ${span(row.released - row.time)}` : "not yet") },
    ],
  });
  const tools = el("div", { class: "tools" }, searchField("Look for an application, a key or a node", q, (text) => {
    change({ q: text });
    list.search({ q: text });
  }));
  const node = el("div", { class: "stack" }, sums.node, tools, list.node, note("A partition remembers its last 10,000 victims."));
  return { title: "Preemptions", partition, node, close: () => (list.close(), sums.close()), command: commandLine("events", "--rm", state.partitions.get(partition)?.rm ?? "", "--reason", "preempt") };
}

/** Who lost to whom: of each pair of queues the victims, what they had, and for how long they had run for nothing. */
class Sums {
  constructor(partition) {
    this.partition = partition;
    this.holder = el("div");
    this.node = section("Who lost to whom", this.holder);
    this.node.querySelector("h2").prepend(icon("preemptions"));
    this.node.hidden = true;
    this.polled = new Polled({
      partition, path: ofPartition(partition, "preemptions", "sums"), show: (answer) => this.show(answer), failed: () => { this.node.hidden = true; },
    });
  }

  close() {
    this.polled.close();
  }

  show({ since, rows }) {
    this.node.hidden = !rows.length;
    const victims = rows.reduce((sum, row) => sum + row.victims, 0);
    const hours = rows.reduce((sum, row) => sum + Number(row.lostHours.vcore ?? 0), 0);
    const most = Math.max(...rows.map((row) => row.victims));
    const queue = (path) => (path ? link(toQueue(this.partition, path), path) : el("span", { class: "summary", title: "its own lowered maximum, or a drain of its node", text: "no other queue" }));
    place(this.holder, [
      el("p", { class: "summary" }, `${counted(victims, "victim")} since `, when(since), hours ? `, that had run ${lost("vcore", hours)}` : ""),
      sortedTable("Who lost to whom", [
        { name: "Lost", value: (row) => row.queue, cell: (row) => queue(row.queue) },
        { name: "To", value: (row) => row.forQueue, cell: (row) => queue(row.forQueue) },
        { name: "Victims", number: true, value: (row) => row.victims, cell: (row) => count(row.victims) },
        { name: "Share", kind: "bare", wide: true, cell: (row) => share(row.victims / most) },
        { name: "Amount", value: (row) => Number(row.resources.vcore ?? 0), cell: (row) => brief(row.resources) },
        { name: "Core-hours lost", number: true, value: (row) => Number(row.lostHours.vcore ?? 0), cell: (row) => short(Number(row.lostHours.vcore ?? 0) / 1000) },
        { name: "Memory lost", number: true, wide: true, value: (row) => Number(row.lostHours.memory ?? 0), cell: (row) => lost("memory", Number(row.lostHours.memory ?? 0)) },
      ], rows, "sums"),
    ]);
  }
}

function share(part) {
  const fill = el("span", { class: "fill above" });
  fill.style.left = "0";
  fill.style.width = `${part * 100}%`;
  return el("span", { class: "track share", "aria-hidden": "true" }, fill);
}
