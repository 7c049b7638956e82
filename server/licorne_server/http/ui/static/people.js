// Users and groups: what they have of what they may have, queue by queue, what waits, and their applications.

import { ofPartition } from "./api.js";
import { applicationList } from "./applications.js";
import { Bar, words } from "./bar.js";
import { commandLine, named, ofThe } from "./copy.js";
import { Detail } from "./detail.js";
import { el, facts, link, searchField, section } from "./dom.js";
import { change, to, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { PagedList, sortedTable } from "./table.js";
import { brief, count, counted, hoursOf, resources, sortedNames } from "./units.js";

const TITLES = { user: "Users", group: "Groups" };

/** All users, or all groups. */
export const list = (kind) => ([partition = state.partition], { q = "" }) => {
  choosePartition(partition);
  const found = new PagedList({
    label: TITLES[kind], partition, path: ofPartition(partition, "usage"), query: { kind, q }, sort: "-allocated.vcore",
    empty: `No ${kind} has an application or a limit here.`,
    columns: [
      { name: TITLES[kind].slice(0, -1), sort: "name", cell: (row) => named(to(kind, [partition, row.name]), row.name) },
      ...barNames(partition).map((name) => ({ name, sort: `allocated.${name}`, kind: "sentence", cell: (row) => barOf(partition, name, row) })),
      { name: "Asks that wait", sort: "asks", number: true, cell: (row) => (row.asks ? count(row.asks) : "–") },
      { name: "Applications", sort: "applications", number: true, cell: (row) => count(row.applications) },
      { name: "Running", sort: "running", number: true, cell: ofMost },
    ],
  });
  const other = kind === "user" ? ["groups", "Groups"] : ["users", "Users"];
  const tools = el("div", { class: "tools" }, searchField("Look for a name", q, (text) => {
    change({ q: text });
    found.search({ q: text });
  }), link(to(other[0], [partition]), `Show ${other[1].toLowerCase()}`, { class: "button" }));
  return {
    title: TITLES[kind], partition, node: el("div", { class: "stack" }, tools, found.node), close: () => found.close(),
    command: commandLine("users", ...(kind === "group" ? ["--groups"] : []), ...ofThe(partition)),
  };
};

/** The resources that have a bar: those of which the partition has most to say. */
const barNames = (partition) => ["vcore", "memory"].filter((name) => name in (state.partitions.get(partition)?.capacity ?? { vcore: 0, memory: 0 }));

/** How many applications have allocations, of how many may. */
const ofMost = ({ running, maxApplications }) => (maxApplications ? `${count(running)} of ${count(maxApplications)}` : count(running));

/** What is used and waits of a resource, on the scale of its limit; where there is none, of the partition. */
function barOf(partition, name, { allocated, max, pending = {} }) {
  const limit = name in max ? Number(max[name]) : null;
  const figures = {
    name, used: Number(allocated[name] ?? 0), guaranteed: 0, max: limit, pending: Number(pending[name] ?? 0),
    scale: limit ?? Number(state.partitions.get(partition)?.capacity[name] ?? 0),
  };
  const bar = new Bar();
  bar.show(figures);
  bar.node.setAttribute("role", "img");
  bar.node.setAttribute("aria-label", words(figures));
  return bar.node;
}

/** One user, or one group. */
export const one = (kind) => ([partition, name], query) => {
  choosePartition(partition);
  const applications = applicationList(partition, { ...query, [kind]: name });
  const shownApplications = section("Applications", applications.node);
  const detail = new Detail({
    partition, path: ofPartition(partition, "usage", kind, name),
    render: (usage) => [shown(partition, kind, usage), shownApplications],
  });
  return {
    title: name, name, partition, crumbs: [[to(`${kind}s`, [partition]), TITLES[kind]]], node: detail.node,
    command: commandLine("apps", `--${kind}`, name, ...ofThe(partition)), close: () => (detail.close(), applications.close()),
  };
};

function shown(partition, kind, usage) {
  const groups = [...new Set(usage.applications.map(([, group]) => group).filter(Boolean))];
  const names = sortedNames(new Set(["vcore", "memory", ...usage.queues.flatMap(({ max }) => Object.keys(max))]));
  const others = (row) => Object.fromEntries(Object.entries(row.allocated).filter(([name]) => !names.includes(name)));
  return section("Usage and limits",
    facts([
      ["Waits for", usage.asks ? `${resources(usage.pending)} in ${counted(usage.asks, "ask")}` : "nothing"],
      ["Counts for", kind === "user" && groups.length ? el("span", { class: "links" }, groups.slice(0, 50).map((group) => link(to("group", [partition, group]), group))) : ""],
    ]),
    sortedTable("Usage by queue", [
      { name: "Queue", value: (row) => row.queue, cell: (row) => named(toQueue(partition, row.queue), row.queue) },
      ...names.map((name) => ({ name, kind: "sentence", value: (row) => row.allocated[name] ?? 0, cell: (row) => barOf(partition, name, row) })),
      ...(usage.queues.some((row) => row.fairShare)
        ? [{ name: "Decayed usage", value: (row) => row.fairShare?.share ?? 0, cell: (row) => (row.fairShare ? hoursOf(row.fairShare.decayed) || "none" : "–") }] : []),
      ...(usage.queues.some((row) => Object.keys(others(row)).length) ? [{ name: "Other", wide: true, cell: (row) => brief(others(row)) }] : []),
      { name: "Running", number: true, value: (row) => row.running, cell: ofMost },
    ], usage.queues, "by"));
}
