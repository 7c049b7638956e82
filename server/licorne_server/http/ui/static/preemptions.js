// Which allocations had to stop for others.

import { ofPartition } from "./api.js";
import { badge, el, link, note, searchField } from "./dom.js";
import { change, toAsk, toNode, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { PagedList } from "./table.js";
import { brief, span, time } from "./units.js";

export function view([partition = state.partition], { q = "" }) {
  choosePartition(partition);
  const list = new PagedList({
    label: "Preemptions", partition, path: ofPartition(partition, "preemptions"), query: { q }, by: "before",
    empty: "Nothing was preempted.",
    columns: [
      { name: "Told to stop", cell: (row) => time(row.time) },
      { name: "Victim", cell: (row) => link(toAsk(partition, row.application, row.key), row.key, { class: "name", title: `of ${row.application}` }) },
      { name: "Queue", cell: (row) => link(toQueue(partition, row.queue), row.queue) },
      { name: "Node", cell: (row) => link(toNode(partition, row.node), row.node) },
      { name: "Size", cell: (row) => brief(row.resources) },
      { name: "Rule", cell: (row) => badge(row.rule, row.rule === "quota" ? "warn" : "plain") },
      { name: "For", cell: (row) => (row.forKey ? link(toAsk(partition, row.forApplication, row.forKey), row.forKey, { title: `of ${row.forApplication}` }) : row.forQueue) },
      { name: "Gone after", number: true, cell: (row) => (row.released ? span(row.released - row.time) : "not yet") },
    ],
  });
  const tools = el("div", { class: "tools" }, searchField("Look for an application, a key or a node", q, (text) => {
    change({ q: text });
    list.search({ q: text });
  }));
  const node = el("div", { class: "stack" }, tools, list.node, note("A partition remembers its last 10,000 victims."));
  return { title: "Preemptions", partition, node, close: () => list.close() };
}
