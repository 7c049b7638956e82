// One node: what it has, what is on it, for whom it is reserved, and what an operator does to it.

import { actButton } from "./act.js";
import { ofPartition } from "./api.js";
import { commandLine, named, ofThe } from "./copy.js";
import { Detail } from "./detail.js";
import { badge, el, facts, link, note, place, section } from "./dom.js";
import { nodeMarks, usageBar } from "./nodes.js";
import { to, toApp, toAsk, toQueue } from "./route.js";
import { choosePartition, now } from "./store.js";
import { sortedTable, table } from "./table.js";
import { amount, brief, count, counted, fromNanoseconds, priority, reasonText, sortedNames, span } from "./units.js";
import { byWhom, when } from "./when.js";

// Rows that are shown of what the node itself tells.
const MOST = 500;

export function view([partition, id]) {
  choosePartition(partition);
  const actions = el("span", { class: "marks" });
  const detail = new Detail({
    partition, path: ofPartition(partition, "node", id),
    render: (node) => {
      place(actions, actionsOf(partition, id, node, () => detail.load()));
      return [drained(node), shown(node), holders(partition, node), allocations(partition, node)];
    },
  });
  return {
    title: id, name: id, partition, crumbs: [[to("nodes", [partition]), "Nodes"]], node: detail.node, actions,
    command: commandLine("nodes", id, ...ofThe(partition)), close: () => detail.close(),
  };
}

function actionsOf(partition, id, node, done) {
  const common = { partition, name: id, done };
  const drain = actButton({
    ...common, act: "drain", label: "Drain", mark: "drain", words: ["nodes", "drain", id], danger: true, verb: "Drain the node",
    text: `Nothing new is allocated on ${id}, and its RM is told to stop what runs there, evenly until the deadline.`,
    fields: [{ name: "minutes", label: "Deadline in minutes (0: at once)", type: "number", min: 0, max: 10080, value: 10 }],
    options: ({ minutes }) => (Number(minutes) ? ["--deadline", `${minutes}m`] : []),
    more: ({ minutes }) => ({ deadline_seconds: Math.round(Number(minutes) * 60) }),
    told: ({ allocations: stopping, exempt }) => `${counted(stopping, "allocation")} to stop${exempt ? `, ${count(exempt)} stay` : ""}.`,
  });
  if (node.schedulable) {
    return [actButton({
      ...common, act: "cordon", label: "Cordon", mark: "hold", words: ["nodes", "cordon", id],
      text: `Nothing new is allocated on ${id} until it is uncordoned. What runs there goes on. This outlives a restart.`,
    }), drain].filter(Boolean);
  }
  return [actButton({
    ...common, act: "uncordon", label: "Uncordon", mark: "start", words: ["nodes", "uncordon", id], text: `${id} takes new allocations again.`,
  }), node.drain ? null : drain].filter(Boolean);
}

/** How far a drain is, and by whom the node is cordoned. */
function drained({ cordon, drain }) {
  if (!cordon?.time && !drain) return null;
  const title = drain ? "Draining" : "Cordoned";
  const left = drain ? drain.deadline - now() : 0;
  const gone = drain ? drain.allocations - drain.remaining : 0;
  const part = drain?.allocations ? gone / drain.allocations : 1;
  const fill = el("span", { class: "fill" });
  fill.style.left = "0";
  fill.style.width = `${part * 100}%`;
  return section(title,
    cordon?.time ? el("p", {}, "Cordoned ", byWhom(cordon)) : null,
    drain ? el("div", { class: "progress" },
      el("span", { text: `${count(gone)} of ${counted(drain.allocations, "allocation")} gone, ${count(drain.stopping)} told to stop` }),
      el("span", { class: "track", role: "progressbar", "aria-label": "Drained", "aria-valuenow": Math.round(part * 100), "aria-valuemin": 0, "aria-valuemax": 100 }, fill)) : null,
    drain ? facts([["Started", when(drain.started)], ["Deadline", left > 0 ? el("span", {}, when(drain.deadline), `, in ${span(left)}`) : el("span", {}, when(drain.deadline), ", over")], ["Stay", drain.exempt ? counted(drain.exempt, "allocation") : ""]]) : null);
}

function shown(node) {
  const names = sortedNames(Object.keys(node.capacity));
  const of = (map) => (name) => amount(name, map[name] ?? 0);
  const attributes = Object.entries(node.attributes).sort();
  return section("Node",
    nodeMarks({ schedulable: node.schedulable, reserved: node.reservations.length, drain: node.drain, cordon: null }),
    table("Resources", [
      { name: "Resource", cell: (name) => name },
      { name: "Used", cell: (name) => usageBar(name, node) },
      { name: "Capacity", number: true, cell: of(node.capacity) },
      { name: "Allocated", number: true, cell: of(node.allocated) },
      { name: "Used by others", number: true, cell: of(node.occupied) },
      { name: "Available", number: true, cell: of(node.available) },
    ], names),
    facts([["Host", node.hostName], ["Rack", node.rackName]]),
    attributes.length ? el("details", { open: attributes.length <= 8 }, el("summary", { text: counted(attributes.length, "attribute") }), facts(attributes)) : null);
}

const first = (all) => (all.length > MOST ? note(`The first ${MOST} of ${count(all.length)}.`) : null);

function holders(partition, node) {
  const rows = node.reservedFor;
  return rows.length ? section("Reserved for", first(rows), sortedTable("Reservations", [
    { name: "Ask", value: (row) => row.allocationKey, cell: (row) => named(toAsk(partition, row.applicationId, row.allocationKey), row.allocationKey) },
    { name: "Application", value: (row) => row.applicationId, cell: (row) => link(toApp(partition, row.applicationId), row.applicationId) },
    { name: "Queue", value: (row) => row.queueName, cell: (row) => link(toQueue(partition, row.queueName), row.queueName) },
    { name: "Kept", cell: (row) => (row.exclusive ? "the whole node" : brief(row.resource)) },
    { name: "Since", value: (row) => Number(row.time), cell: (row) => when(fromNanoseconds(row.time)) },
    { name: "Why it does not run", kind: "sentence", cell: (row) => (row.reason ? reasonText(row.reason, row.lacks) : "–") },
    { name: "Marks", kind: "bare", cell: (row) => holderMarks(row) },
  ], rows.slice(0, MOST), "held")) : null;
}

function holderMarks(row) {
  const idle = fromNanoseconds(row.idleSince);
  const marks = [row.required && badge("only this node", "quiet"), idle && el("span", { class: "badge warn" }, "cannot run since ", when(idle))].filter(Boolean);
  return marks.length ? el("span", { class: "marks" }, marks) : "–";
}

function allocations(partition, node) {
  const rows = [...node.allocations, ...node.foreignAllocations];
  return section("Allocations on the node", first(rows), rows.length ? sortedTable("Allocations", [
    { name: "Allocation", value: (row) => row.allocationKey, cell: (row) => (row.applicationId ? named(toAsk(partition, row.applicationId, row.allocationKey), row.allocationKey) : row.allocationKey) },
    { name: "Application", value: (row) => row.applicationId, cell: (row) => (row.applicationId ? link(toApp(partition, row.applicationId), row.applicationId) : "of another scheduler") },
    { name: "Queue", value: (row) => row.queueName, cell: (row) => (row.queueName ? link(toQueue(partition, row.queueName), row.queueName) : "–") },
    { name: "Size", value: (row) => row.resource?.vcore ?? 0, cell: (row) => brief(row.resource) },
    { name: "Priority", number: true, value: (row) => Number(row.priority), cell: (row) => priority(Number(row.priority)) },
    { name: "Since", value: (row) => Number(row.allocationTime), cell: (row) => when(fromNanoseconds(row.allocationTime)) },
    { name: "Marks", kind: "bare", cell: (row) => (row.stopping ? badge(`stopping: ${row.stopping}`, "warn") : row.placeholder ? badge("placeholder", "quiet") : "–") },
  ], rows.slice(0, MOST)) : note("Nothing runs here."));
}
