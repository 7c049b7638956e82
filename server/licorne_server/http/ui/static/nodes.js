// The nodes of a partition: all in one picture, and as a list.

import { ofPartition } from "./api.js";
import { usageBar } from "./bar.js";
import { commandLine, named, ofThe } from "./copy.js";
import { badge, choice, el, link, searchField, section } from "./dom.js";
import { HeatMap } from "./heat.js";
import { icon } from "./icons.js";
import { change, toAsk, toNode } from "./route.js";
import { choosePartition, state } from "./store.js";
import { PagedList } from "./table.js";
import { Topology } from "./topology.js";
import { brief, count, humanText, percent } from "./units.js";
import { byWhom, when } from "./when.js";

const STATES = [["all", "all"], ["schedulable", "schedulable"], ["drained", "not schedulable"], ["reserved", "reserved"]];

export function view([partition = state.partition], query) {
  choosePartition(partition);
  const map = new HeatMap(partition, query);
  const topology = new Topology(partition, query);
  const list = new PagedList({
    label: "Nodes", partition, path: ofPartition(partition, "nodes"), query: { q: query.q, state: query.state, attribute: query.attribute },
    empty: "There is no such node.",
    columns: [
      { name: "Node", sort: "id", cell: (row) => named(toNode(partition, row.id), row.id) },
      { name: "State", sort: "schedulable", kind: "bare", cell: (row) => nodeMarks(row) },
      { name: "vcore", sort: "allocated.vcore", cell: (row) => usageBar("vcore", row) },
      { name: "memory", sort: "allocated.memory", cell: (row) => usageBar("memory", row) },
      { name: "Others’", sort: "occupied.vcore", wide: true, cell: (row) => brief(row.occupied) },
      { name: "Allocations", sort: "allocations", number: true, cell: (row) => count(row.allocations) },
      { name: "Weighted use", sort: "utilization", number: true, cell: (row) => percent(row.utilization) },
      { name: "Reserved for", sort: "reserved", wide: true, cell: (row) => listedHolders(partition, row) },
    ],
  });
  const set = (part) => {
    change(part);
    list.search(part);
  };
  const tools = el("div", { class: "tools" },
    searchField("Look for an id", query.q || "", (q) => set({ q })),
    choice("State", STATES, query.state || "all", (value) => set({ state: value })),
    searchField("Attribute", query.attribute || "", (attribute) => set({ attribute }), "zone=a"));
  const picture = section("All nodes", map.node);
  picture.querySelector("h2").prepend(icon("nodes"));
  const node = el("div", { class: "stack" }, picture, topology.node, section("List", tools, list.node));
  return { title: "Nodes", partition, node, command: commandLine("nodes", ...ofThe(partition)), close: () => (map.close(), topology.close(), list.close()) };
}

/** The state of a node in words: whether it takes work, by whom it does not, and for whom it is kept. */
export function nodeMarks({ schedulable, reserved, cordon, drain }) {
  const word = drain ? "draining" : cordon ? "cordoned" : schedulable ? "schedulable" : "drained";
  const marks = [badge(word, schedulable ? "quiet" : "warn")];
  if (reserved) marks.push(badge(reserved === 1 ? "reserved" : `${count(reserved)} reservations`, "accent"));
  return el("span", { class: "marks" }, marks, cordon ? el("span", { class: "summary" }, byWhom(cordon)) : null);
}

function listedHolders(partition, row) {
  if (!row.reservedFor?.length) return "–";
  const held = row.reservedFor.map((one) => el("div", {},
    link(toAsk(partition, one.application, one.key), one.key), ` of ${one.queue}, ${brief(one.kept)}`,
    el("div", { class: "note" }, "since ", when(one.time), `: ${humanText(one.reason)}`)));
  return el("div", {}, held, row.reserved > held.length ? `and ${count(row.reserved - held.length)} more` : null);
}
