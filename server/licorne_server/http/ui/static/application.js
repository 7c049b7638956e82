// One application: its state, its asks and allocations, its gang, and how it came here.

import { ofPartition } from "./api.js";
import { stateMark } from "./applications.js";
import { Detail } from "./detail.js";
import { badge, el, facts, link, searchField, section } from "./dom.js";
import { to, toAsk, toNode, toQueue } from "./route.js";
import { choosePartition, now } from "./store.js";
import { PagedList, table } from "./table.js";
import { Timeline } from "./timeline.js";
import { brief, count, counted, fromNanoseconds, humanText, resources, span, time } from "./units.js";

export function view([partition, id]) {
  choosePartition(partition);
  const path = ofPartition(partition, "application", id);
  const asks = listOfAsks(partition, id, `${path}/asks`);
  const allocations = listOfAllocations(partition, id, `${path}/allocations`);
  const timeline = new Timeline(partition, id);
  const lists = [["Asks that wait", "Look for a key", asks], ["Allocations", "Look for a key or a node", allocations]].map(([title, label, list]) =>
    section(title, el("div", { class: "tools" }, searchField(label, "", (q) => list.search({ q }))), list.node));
  const detail = new Detail({
    partition, path, render: (app) => [shown(partition, app), timeline.node, gang(app), ...lists, stateLog(app)],
  });
  const close = () => [detail, timeline, asks, allocations].forEach((part) => part.close());
  return { title: id, partition, crumbs: [[to("applications", [partition]), "Applications"]], node: detail.node, close };
}

function shown(partition, app) {
  const user = link(to("user", [partition, app.user]), app.user);
  return section("Application",
    el("p", { class: "marks" }, stateMark(app.state), app.message ? badge(app.message, "warn") : null),
    facts([
      ["Queue", link(toQueue(partition, app.queue), app.queue)],
      ["User", el("span", {}, user, app.groups.length ? ` (${app.groups.slice(0, 20).join(", ")})` : "")],
      ["Counts for the group", app.group ? link(to("group", [partition, app.group]), app.group) : ""],
      ["Allocated", app.allocations ? `${resources(app.allocated)} in ${counted(app.allocations, "allocation")}` : "nothing"],
      ["Placeholders keep", app.placeholderCount ? `${resources(app.placeholders)} in ${counted(app.placeholderCount, "placeholder")}` : ""],
      ["Most that it had", resources(app.maxAllocated)],
      ["Waits for", app.pendingAsks ? `${resources(app.pending)} in ${counted(app.pendingAsks, "ask")}` : "nothing"],
      ["Highest priority", app.pendingAsks ? String(app.maxPriority) : ""],
      ["Submitted", `${time(app.submitted)}, ${span(now() - app.submitted)} ago`],
      ["Started", app.started ? time(app.started) : ""],
      ["Ended", app.finished ? time(app.finished) : ""],
      ["Backs off until", app.backoffUntil > now() ? time(app.backoffUntil) : ""],
      ["Reserved nodes", app.reservations.length
        ? el("span", { class: "links" }, app.reservations.slice(0, 50).map((item) => link(toNode(partition, item.node), `${item.node} for ${item.key}`))) : ""],
    ]));
}

function gang(app) {
  if (!app.taskGroups.length) return null;
  const until = app.placeholderDeadline ? `Placeholders time out at ${time(app.placeholderDeadline)}.` : "";
  const style = app.gangStyle === "Hard" ? "The application fails if its gang does not come together." : "The application goes on without its gang if that does not come together.";
  return section("Gang",
    el("p", { class: "note", text: [app.gangStyle ? style : "", until].filter(Boolean).join(" ") }),
    table("Task groups", [
      { name: "Task group", cell: (row) => row.name },
      { name: "Placeholders", number: true, cell: (row) => count(row.count) },
      { name: "Replaced", number: true, cell: (row) => count(row.replaced) },
      { name: "Timed out", number: true, cell: (row) => count(row.timedOut) },
      { name: "Size of one", cell: (row) => brief(row.size) },
    ], app.taskGroups));
}

function listOfAsks(partition, id, path) {
  const last = (row) => row.allocationLog.at(-1);
  return new PagedList({
    label: "Asks", partition, path, by: "offset", empty: "No ask waits.",
    columns: [
      { name: "Ask", cell: (row) => link(toAsk(partition, id, row.allocationKey), row.allocationKey, { class: "name" }) },
      { name: "Size", cell: (row) => brief(row.resource) },
      { name: "Priority", number: true, cell: (row) => row.priority },
      { name: "Waits for", number: true, cell: (row) => span(now() - fromNanoseconds(row.requestTime)) },
      { name: "Marks", cell: (row) => askMarks(row) },
      { name: "Passed over because", cell: (row) => (last(row) ? `${humanText(last(row).message)} (${count(last(row).count)} ×)` : "–") },
      { name: "", cell: (row) => link(toAsk(partition, id, row.allocationKey), "Why?", { "aria-label": `Why does ${row.allocationKey} wait?` }) },
    ],
  });
}

function askMarks(row) {
  const marks = [
    row.placeholder && ["placeholder", "quiet"],
    row.taskGroupName && [row.taskGroupName, "quiet"],
    row.requiredNodeId && [`only ${row.requiredNodeId}`, "warn"],
    row.reservedNode && [`reserved ${row.reservedNode}`, "plain"],
    row.assumedNode && [`assumed on ${row.assumedNode}`, "plain"],
    row.replaces && [`replaces ${row.replaces}`, "plain"],
    row.triggeredPreemption && ["victims told to stop", "warn"],
    row.triggeredScaleUp && ["no node takes it", "warn"],
  ].filter(Boolean);
  return marks.length ? el("span", { class: "marks" }, marks.map(([text, tone]) => badge(text, tone))) : "–";
}

function listOfAllocations(partition, id, path) {
  return new PagedList({
    label: "Allocations", partition, path, by: "offset", empty: "Nothing is allocated.",
    columns: [
      { name: "Allocation", cell: (row) => link(toAsk(partition, id, row.allocationKey), row.allocationKey, { class: "name" }) },
      { name: "Node", cell: (row) => link(toNode(partition, row.nodeId), row.nodeId) },
      { name: "Size", cell: (row) => brief(row.resource) },
      { name: "Priority", number: true, cell: (row) => row.priority },
      { name: "Allocated", cell: (row) => time(fromNanoseconds(row.allocationTime)) },
      { name: "Had waited", number: true, wide: true, cell: (row) => span(Math.max(0, Number(row.allocationDelay) / 1e6)) },
      { name: "Marks", cell: (row) => {
        const marks = [row.placeholder && badge("placeholder", "quiet"), row.placeholderUsed && badge("took a placeholder’s place", "quiet"), row.stopping && badge(`stopping: ${row.stopping}`, "warn")].filter(Boolean);
        return marks.length ? el("span", { class: "marks" }, marks) : "–";
      } },
    ],
  });
}

function stateLog(app) {
  if (!app.stateLog.length) return null;
  const rows = app.stateLog.map((entry, at) => ({ ...entry, after: at ? entry.time - app.stateLog[at - 1].time : null }));
  return section("State log", table("State log", [
    { name: "Time", cell: (row) => time(row.time) },
    { name: "State", cell: (row) => stateMark(row.state) },
    { name: "After", number: true, cell: (row) => (row.after === null ? "–" : span(row.after)) },
  ], rows));
}
