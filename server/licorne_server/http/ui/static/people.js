// Users and groups: what they have, and what they may have, queue by queue.

import { ofPartition } from "./api.js";
import { Detail } from "./detail.js";
import { el, facts, link, searchField, section } from "./dom.js";
import { change, to, toApp, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { PagedList, table } from "./table.js";
import { brief, count, resources } from "./units.js";

const TITLES = { user: "Users", group: "Groups" };

/** All users, or all groups. */
export const list = (kind) => ([partition = state.partition], { q = "" }) => {
  choosePartition(partition);
  const found = new PagedList({
    label: TITLES[kind], partition, path: ofPartition(partition, "usage"), query: { kind, q },
    empty: `No ${kind} has an application or a limit here.`,
    columns: [
      { name: TITLES[kind].slice(0, -1), cell: (row) => link(to(kind, [partition, row.name]), row.name, { class: "name" }) },
      { name: "Applications", number: true, cell: (row) => count(row.applications) },
      { name: "With allocations", number: true, cell: (row) => count(row.running) },
      { name: "Allocated", cell: (row) => brief(row.allocated) },
      { name: "Maximum in root", cell: (row) => (Object.keys(row.max).length ? brief(row.max) : "none") },
      { name: "Applications that may run", number: true, wide: true, cell: (row) => (row.maxApplications ? count(row.maxApplications) : "any number") },
    ],
  });
  const other = kind === "user" ? ["groups", "Groups"] : ["users", "Users"];
  const tools = el("div", { class: "tools" }, searchField("Look for a name", q, (text) => {
    change({ q: text });
    found.search({ q: text });
  }), link(to(other[0], [partition]), `Show ${other[1].toLowerCase()}`, { class: "button" }));
  return { title: TITLES[kind], partition, node: el("div", { class: "stack" }, tools, found.node), close: () => found.close() };
};

/** One user, or one group. */
export const one = (kind) => ([partition, name]) => {
  choosePartition(partition);
  const detail = new Detail({
    partition, path: ofPartition(partition, "usage", kind, name),
    render: (usage) => [shown(partition, kind, usage)],
  });
  return { title: name, partition, crumbs: [[to(`${kind}s`, [partition]), TITLES[kind]]], node: detail.node, close: () => detail.close() };
};

function shown(partition, kind, usage) {
  const apps = usage.applications.slice(0, 100).map(([app]) => link(toApp(partition, app), app));
  const groups = [...new Set(usage.applications.map(([, group]) => group).filter(Boolean))];
  return section(`${TITLES[kind].slice(0, -1)} ${usage.name}`,
    facts([
      ["Applications", apps.length ? el("span", { class: "links" }, apps) : "none"],
      ["Counts for", kind === "user" && groups.length ? el("span", { class: "links" }, groups.slice(0, 50).map((group) => link(to("group", [partition, group]), group))) : ""],
    ]),
    table("Usage by queue", [
      { name: "Queue", cell: (row) => link(toQueue(partition, row.queue), row.queue) },
      { name: "Allocated", cell: (row) => resources(row.allocated) },
      { name: "Maximum", cell: (row) => (Object.keys(row.max).length ? resources(row.max) : "none") },
      { name: "With allocations", number: true, cell: (row) => count(row.running) },
      { name: "May run", number: true, cell: (row) => (row.maxApplications ? count(row.maxApplications) : "any number") },
    ], usage.queues));
}
