// The applications of a partition.

import { ofPartition } from "./api.js";
import { CODES, codeInWords } from "./codes.js";
import { commandLine, named, ofThe } from "./copy.js";
import { badge, choice, el, link, searchField } from "./dom.js";
import { reasonLink } from "./reason.js";
import { change, to, toApp, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { PagedList } from "./table.js";
import { brief, count } from "./units.js";
import { when } from "./when.js";

const STATES = [["active", "active"], ["completed", "completed"], ["rejected", "rejected"]];
const TONES = { Running: "good", Rejected: "bad", Failed: "bad", Failing: "bad", Expired: "quiet", Completed: "quiet" };

export const stateMark = (name) => badge(name, TONES[name] || "plain");

export function view([partition = state.partition], query) {
  choosePartition(partition);
  const list = applicationList(partition, query);
  const set = (part) => {
    change(part);
    if ("state" in part) list.sort = first(part.state);
    list.search(part);
  };
  const waiting = el("input", {
    type: "checkbox", checked: Boolean(query.waiting),
    onchange: (event) => set({ waiting: event.target.checked ? "1" : "" }),
  });
  const tools = el("div", { class: "tools" },
    searchField("Look for an id or a user", query.q || "", (q) => set({ q })),
    searchField("In queue", query.queue || "", (queue) => set({ queue })),
    choice("Waits because", [["", "any reason"], ...CODES.map((code) => [code, codeInWords(code)])], query.reason || "", (reason) => set({ reason })),
    choice("List", STATES, query.state || "active", (value) => set({ state: value })),
    el("label", { class: "check" }, waiting, "only with asks that wait"));
  const command = commandLine("apps", ...ofThe(partition), ...(query.reason ? ["--reason", query.reason] : []));
  return { title: "Applications", partition, command, node: el("div", { class: "stack" }, tools, list.node), close: () => list.close() };
}

/** What waits comes first, until somebody sorts the list; what is over waits for nothing. */
const first = (chosen) => ((chosen || "active") === "active" ? "-pendingAsks" : "");

/** A list of applications; `query` says which. */
export function applicationList(partition, { q, queue, state: chosen, status, waiting, reason, user, group }) {
  return new PagedList({
    label: "Applications", partition, path: ofPartition(partition, "applications"),
    query: { q, queue, state: chosen, status, waiting, reason, user, group }, sort: first(chosen), empty: "There is no such application.",
    columns: [
      { name: "Application", sort: "id", cell: (row) => named(toApp(partition, row.name), row.id) },
      { name: "State", sort: "state", kind: "bare", cell: (row) => (row.hold ? el("span", { class: "marks" }, stateMark(row.state), badge("held", "warn")) : stateMark(row.state)) },
      { name: "Queue", sort: "queue", cell: (row) => link(toQueue(partition, row.queue), row.queue) },
      { name: "User", sort: "user", cell: (row) => link(to("user", [partition, row.user]), row.user) },
      { name: "Allocations", sort: "allocations", number: true, cell: (row) => count(row.allocations) },
      { name: "Allocated", sort: "allocated.vcore", wide: true, cell: (row) => brief(row.allocated) },
      { name: "Asks waiting", sort: "pendingAsks", number: true, cell: (row) => (row.pendingAsks ? count(row.pendingAsks) : "–") },
      { name: "Waits for", sort: "pending.vcore", wide: "wider", cell: (row) => brief(row.pending) },
      { name: "Reason", sort: "reason.code", kind: "sentence", cell: (row) => reasonLink(partition, row.name, row.reason) },
      { name: "Submitted", sort: "submitted", wide: "wider", cell: (row) => when(row.submitted) },
      ...(chosen === "rejected" ? [{ name: "Why", cell: (row) => row.message }] : []),
    ],
  });
}
