// One node: what it has, what is on it, for whom it is reserved, and what an operator does to it.

import { actButton } from "./act.js";
import { ofPartition } from "./api.js";
import { usageBar } from "./bar.js";
import { commandLine, named, ofThe } from "./copy.js";
import { Detail } from "./detail.js";
import { badge, el, facts, link, note, place, searchField, section } from "./dom.js";
import { nodeMarks } from "./nodes.js";
import { stopMarks } from "./reason.js";
import { change, to, toApp, toAsk, toQueue } from "./route.js";
import { choosePartition, now } from "./store.js";
import { PagedList, sortedTable, table } from "./table.js";
import { amount, brief, count, counted, fromNanoseconds, priority, reasonText, sortedNames, span } from "./units.js";
import { byWhom, when } from "./when.js";

// Rows that are shown of what the node itself tells.
const MOST = 500;

export function view([partition, id], { q = "" }) {
  choosePartition(partition);
  const list = listOfAllocations(partition, id, q);
  const running = searched(list);
  const actions = el("span", { class: "marks" });
  const detail = new Detail({
    partition, path: ofPartition(partition, "node", id),
    render: (node) => {
      place(actions, actionsOf(partition, id, node, () => detail.load()));
      return [drained(node), shown(node), holders(partition, node), running];
    },
  });
  return {
    title: id, name: id, partition, crumbs: [[to("nodes", [partition]), "Nodes"]], node: detail.node, actions,
    command: commandLine("nodes", id, ...ofThe(partition)), close: () => (detail.close(), list.close()),
  };
}

const STOPS = {
  "": "Its allocations continue, and the drain is done when all have ended.",
  deadline: "Its RM is asked to stop what runs there, one allocation after the other until the deadline.",
  now: "Its RM is asked to stop all that runs there now.",
};

function actionsOf(partition, id, node, done) {
  const common = { partition, name: id, done };
  const drain = actButton({
    ...common, act: "drain", label: "Drain", mark: "drain", words: ["nodes", "drain", id], danger: ({ stop }) => stop !== "",
    verb: ({ stop }) => (stop === "now" ? "Drain the node at once" : "Drain the node"),
    text: ({ stop }) => `Nothing new is allocated on ${id}. ${STOPS[stop]}${node.drain ? " This replaces the drain of the node." : ""}`,
    fields: [
      { name: "stop", label: "What runs there", options: [["", "continues until it ends"], ["deadline", "is stopped by a deadline"], ["now", "is stopped at once"]] },
      { name: "minutes", label: "Deadline in minutes", type: "number", required: true, min: 1, max: 10080, step: 1, value: 10, wants: "a whole number from 1 to 10,080, which are 7 days", when: ({ stop }) => stop === "deadline" },
    ],
    options: ({ stop, minutes }) => ({ "": [], deadline: ["--deadline", `${minutes}m`], now: ["--now"] })[stop],
    more: ({ stop, minutes }) => ({ "": {}, deadline: { deadline_seconds: Number(minutes) * 60 }, now: { deadline_seconds: 0 } })[stop],
    told: ({ allocations: stopping, exempt }) => `Cordoned. ${counted(stopping, "allocation")} to go${exempt ? `, ${count(exempt)} stay` : ""}.`,
  });
  if (node.schedulable) {
    return [actButton({
      ...common, act: "cordon", label: "Cordon", mark: "hold", words: ["nodes", "cordon", id],
      text: `Nothing new is allocated on ${id} until it is uncordoned. Its allocations continue. This outlives a restart.`,
    }), drain].filter(Boolean);
  }
  return [actButton({
    ...common, act: "uncordon", label: "Uncordon", mark: "start", words: ["nodes", "uncordon", id], text: `${id} takes new allocations again.`,
  }), node.drain && node.drain.remaining === node.drain.stopping ? null : drain].filter(Boolean);
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
      el("span", { text: `${count(gone)} of ${counted(drain.allocations, "allocation")} gone, ${count(drain.stopping)} asked to stop` }),
      el("span", { class: "track", role: "progressbar", "aria-label": "Drained", "aria-valuenow": Math.round(part * 100), "aria-valuemin": 0, "aria-valuemax": 100 }, fill)) : null,
    drain ? facts([["Started", when(drain.started)], ["Deadline", !drain.deadline ? "none: allocations continue until they end" : left > 0 ? el("span", {}, when(drain.deadline), `, in ${span(left)}`) : el("span", {}, when(drain.deadline), ", over")], ["Stay", drain.exempt ? counted(drain.exempt, "allocation") : ""]]) : null);
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

function searched(list) {
  const tools = el("div", { class: "tools" }, searchField("Look for a key or an application", list.query.q || "", (q) => {
    change({ q });
    list.search({ q });
  }));
  return section("Allocations on the node", tools, list.node);
}

function listOfAllocations(partition, id, q) {
  return new PagedList({
    label: "Allocations", partition, path: ofPartition(partition, "node", id, "allocations"), by: "offset", query: { q }, empty: "Nothing runs here.",
    columns: [
      { name: "Allocation", sort: "key", cell: (row) => (row.foreign ? row.key : named(toAsk(partition, row.application, row.key), row.key)) },
      { name: "Application", sort: "application", cell: (row) => (row.foreign ? "of another scheduler" : link(toApp(partition, row.application), row.application)) },
      { name: "Queue", sort: "queue", cell: (row) => (row.queue ? link(toQueue(partition, row.queue), row.queue) : "–") },
      { name: "User", sort: "user", cell: (row) => (row.user ? link(to("user", [partition, row.user]), row.user) : "–") },
      { name: "Size", sort: "resources.vcore", cell: (row) => brief(row.resources) },
      { name: "Priority", sort: "priority", number: true, cell: (row) => priority(row.priority) },
      { name: "Since", sort: "since", cell: (row) => when(row.since) },
      { name: "Marks", kind: "bare", cell: (row) => {
        const marks = stopMarks(partition, row);
        if (!marks.length && row.placeholder) marks.push(badge("placeholder", "quiet"));
        return marks.length ? el("span", { class: "marks" }, marks) : "–";
      } },
    ],
  });
}
