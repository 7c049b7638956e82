// The nodes of a partition: all in one picture, and as a list.

import { ofPartition } from "./api.js";
import { Bar } from "./bar.js";
import { Detail } from "./detail.js";
import { badge, choice, el, facts, link, note, searchField, section } from "./dom.js";
import { HeatMap } from "./heat.js";
import { change, to, toApp, toAsk, toNode, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { PagedList, table } from "./table.js";
import { amount, brief, count, fromNanoseconds, humanText, percent, reasonText, sortedNames, time } from "./units.js";

const STATES = [["all", "all"], ["schedulable", "schedulable"], ["drained", "drained"], ["reserved", "reserved"]];

export function view([partition = state.partition], query) {
  choosePartition(partition);
  const map = new HeatMap(partition, query.by || "");
  const list = new PagedList({
    label: "Nodes", partition, path: ofPartition(partition, "nodes"), query: { q: query.q, state: query.state },
    empty: "There is no such node.",
    columns: [
      { name: "Node", cell: (row) => link(toNode(partition, row.id), row.id, { class: "name" }) },
      { name: "Marks", cell: (row) => nodeMarks(row.schedulable, row.reserved) },
      { name: "vcore", cell: (row) => usageBar("vcore", row) },
      { name: "memory", cell: (row) => usageBar("memory", row) },
      { name: "Others’", wide: true, cell: (row) => brief(row.occupied) },
      { name: "Allocations", number: true, cell: (row) => count(row.allocations) },
      { name: "Weighted use", number: true, cell: (row) => percent(row.utilization) },
      { name: "Reserved for", wide: true, cell: (row) => listedHolders(partition, row) },
    ],
  });
  const set = (part) => {
    change(part);
    list.search(part);
  };
  const tools = el("div", { class: "tools" },
    searchField("Look for an id", query.q || "", (q) => set({ q })),
    choice("State", STATES, query.state || "all", (value) => set({ state: value })));
  const node = el("div", { class: "stack" }, section("All nodes", map.node), section("List", tools, list.node));
  return { title: "Nodes", partition, node, close: () => (map.close(), list.close()) };
}

function nodeMarks(schedulable, reserved) {
  const marks = [badge(schedulable ? "schedulable" : "drained", schedulable ? "quiet" : "warn")];
  if (reserved) marks.push(badge(reserved === 1 ? "reserved" : `${reserved} reservations`, "plain"));
  return el("span", { class: "marks" }, marks);
}

function listedHolders(partition, row) {
  if (!row.reservedFor.length) return "–";
  const held = row.reservedFor.map((one) => el("div", {},
    link(toAsk(partition, one.application, one.key), one.key), ` of ${one.queue}, ${brief(one.kept)}`,
    el("div", { class: "note", text: `since ${time(one.time)}: ${humanText(one.reason)}` })));
  return el("div", {}, held, row.reserved > held.length ? `and ${count(row.reserved - held.length)} more` : null);
}

function holders(partition, node) {
  const most = 50;
  const rows = node.reservedFor.slice(0, most);
  return rows.length ? section("Reserved for", node.reservedFor.length > most ? el("p", { class: "note", text: `The first ${most} of ${count(node.reservedFor.length)}.` }) : null, table("Reservations", [
    { name: "Ask", cell: (row) => link(toAsk(partition, row.applicationId, row.allocationKey), row.allocationKey, { class: "name" }) },
    { name: "Application", cell: (row) => link(toApp(partition, row.applicationId), row.applicationId) },
    { name: "Queue", cell: (row) => link(toQueue(partition, row.queueName), row.queueName) },
    { name: "Kept", cell: (row) => (row.exclusive ? "the whole node" : brief(row.resource)) },
    { name: "Since", cell: (row) => time(fromNanoseconds(row.time)) },
    { name: "Why it does not run", cell: (row) => (row.reason ? reasonText(row.reason, row.lacks) : "–") },
    { name: "Marks", cell: (row) => holderMarks(row) },
  ], rows)) : null;
}

function holderMarks(row) {
  const idle = fromNanoseconds(row.idleSince);
  const marks = [row.required && badge("only this node", "quiet"), idle && badge(`cannot run since ${time(idle)}`, "warn")].filter(Boolean);
  return marks.length ? el("span", { class: "marks" }, marks) : "–";
}

function usageBar(name, node) {
  if (!(name in node.capacity)) return "–";
  const bar = new Bar();
  const capacity = node.capacity[name];
  const used = capacity - (node.available[name] ?? 0);
  bar.show({ name, used, guaranteed: 0, max: capacity, pending: 0, scale: capacity });
  return bar.node;
}

export function nodeView([partition, id]) {
  choosePartition(partition);
  const detail = new Detail({
    partition, path: ofPartition(partition, "node", id), render: (node) => [shown(partition, node), holders(partition, node), allocations(partition, node)],
  });
  return { title: id, partition, crumbs: [[to("nodes", [partition]), "Nodes"]], node: detail.node, close: () => detail.close() };
}

function shown(partition, node) {
  const names = sortedNames(Object.keys(node.capacity));
  const of = (map) => (name) => amount(name, map[name] ?? 0);
  const attributes = Object.entries(node.attributes).sort();
  return section("Node",
    nodeMarks(node.schedulable, node.reservations.length),
    table("Resources", [
      { name: "Resource", cell: (name) => name },
      { name: "Used", cell: (name) => usageBar(name, node) },
      { name: "Capacity", number: true, cell: of(node.capacity) },
      { name: "Allocated", number: true, cell: of(node.allocated) },
      { name: "Used by others", number: true, cell: of(node.occupied) },
      { name: "Available", number: true, cell: of(node.available) },
    ], names),
    facts([["Host", node.hostName], ["Rack", node.rackName]]),
    attributes.length ? el("details", {}, el("summary", { text: `${count(attributes.length)} attributes` }), facts(attributes)) : null);
}

function allocations(partition, node) {
  const rows = [...node.allocations, ...node.foreignAllocations];
  const most = 500;
  return section("Allocations on the node", rows.length > most ? el("p", { class: "note", text: `The first ${most} of ${count(rows.length)}.` }) : null,
    rows.length ? table("Allocations", [
      { name: "Allocation", cell: (row) => (row.applicationId ? link(toAsk(partition, row.applicationId, row.allocationKey), row.allocationKey, { class: "name" }) : row.allocationKey) },
      { name: "Application", cell: (row) => (row.applicationId ? link(toApp(partition, row.applicationId), row.applicationId) : "of another scheduler") },
      { name: "Queue", cell: (row) => row.queueName || "–" },
      { name: "Size", cell: (row) => brief(row.resource) },
      { name: "Priority", number: true, cell: (row) => row.priority },
      { name: "Since", cell: (row) => time(fromNanoseconds(row.allocationTime)) },
      { name: "Marks", cell: (row) => (row.stopping ? badge(`stopping: ${row.stopping}`, "warn") : row.placeholder ? badge("placeholder", "quiet") : "–") },
    ], rows.slice(0, most)) : note("Nothing runs here."));
}
