// One application: why it waits, its asks over time, its asks and allocations, its gang, how it came
// here, and what an operator does to it.

import { actButton } from "./act.js";
import { ofPartition } from "./api.js";
import { stateMark } from "./applications.js";
import { CODES, codeInWords } from "./codes.js";
import { commandLine, named, ofThe, option } from "./copy.js";
import { Detail } from "./detail.js";
import { badge, choice, el, facts, link, place, searchField, section } from "./dom.js";
import { reasonLink, stopMarks } from "./reason.js";
import { change, to, toAsk, toNode, toQueue } from "./route.js";
import { choosePartition, now } from "./store.js";
import { PagedList, sortedTable } from "./table.js";
import { Timeline } from "./timeline.js";
import { brief, count, counted, fromNanoseconds, priority, resources, span, time } from "./units.js";
import { byWhom, when } from "./when.js";

const ENDED = new Set(["Completed", "Rejected", "Expired", "Failed"]);

export function view([partition, id], query) {
  choosePartition(partition);
  const path = ofPartition(partition, "application", id);
  const asks = listOfAsks(partition, id, `${path}/asks`, query);
  const allocations = listOfAllocations(partition, id, `${path}/allocations`, query);
  const timeline = new Timeline(partition, id);
  const waiting = askSection(asks, query);
  const placed = section("Allocations", tools(allocations, "Look for a key or a node", "placed"), allocations.node);
  const actions = el("span", { class: "marks" });
  const detail = new Detail({
    partition, path,
    render: (app) => {
      place(actions, actionsOf(partition, id, app, () => detail.load()));
      return [shown(partition, id, app), timeline.node, gang(app), app.pendingAsks ? waiting : null, app.allocations ? placed : null, stateLog(app)];
    },
  });
  const close = () => [detail, timeline, asks, allocations].forEach((part) => part.close());
  return {
    title: id, name: id, partition, crumbs: [[to("applications", [partition]), "Applications"]], node: detail.node, actions,
    command: commandLine("apps", id, ...ofThe(partition)), close,
  };
}

/** What an operator may do to an application that has not ended. */
function actionsOf(partition, id, app, done) {
  if (ENDED.has(app.state)) return [];
  const common = { partition, name: id, done };
  const hold = app.hold
    ? { act: "resume", label: "Resume", mark: "start", words: ["apps", "resume", id], text: `Asks of ${id} are placed again.` }
    : { act: "hold", label: "Hold", mark: "hold", words: ["apps", "hold", id], text: `No ask of ${id} is placed until somebody resumes it. Its allocations continue.` };
  const buttons = [actButton({ ...common, ...hold }), actButton({
    ...common, act: "priority", label: "Priority", words: ["apps", "set", id],
    text: ({ given }) => (given ? `All asks of ${id} get this priority, those to come too.` : `Each ask of ${id} has its own priority again.`),
    fields: [
      { name: "given", label: "All asks have", options: [["one", "one priority"], ["", "each its own"]] },
      { name: "priority", label: "Priority", type: "number", required: true, step: 1, min: -2147483648, max: 2147483647, value: app.priority ?? "", wants: "a whole number of 32 bits", when: ({ given }) => given === "one" },
    ],
    options: ({ given, priority: value }) => (given ? ["--priority", value] : ["--reset-priority"]),
    more: ({ given, priority: value }) => (given ? { priority: Number(value) } : { reset_priority: true }),
  })];
  if (!app.allocations) {
    buttons.push(actButton({
      ...common, act: "queue", label: "Move", title: `Move ${id} to another queue`, words: ["apps", "set", id],
      text: `${id} waits in another queue, which must accept it.`,
      fields: [{ name: "queue", label: "Leaf queue", required: true, value: app.queue }],
      options: ({ queue }) => option("--queue", queue), more: ({ queue }) => ({ queue }),
    }));
  }
  buttons.push(actButton({
    ...common, act: "kill", label: "Kill", mark: "stop", words: ["apps", "kill", id], danger: true, verb: "Kill the application",
    text: `${counted(app.allocations, "allocation")} and ${counted(app.pendingAsks, "ask")} of ${id} end. Its RM is asked to stop what runs.`,
    told: ({ allocations, asks }) => `${counted(allocations, "allocation")} asked to stop, ${counted(asks, "ask")} dropped.`,
  }));
  return buttons.filter(Boolean);
}

function shown(partition, id, app) {
  const user = link(to("user", [partition, app.user]), app.user);
  const waits = app.pendingAsks > 0 && app.reason?.code;
  return section("Application",
    el("p", { class: "marks" }, stateMark(app.state), app.message ? badge(app.message, "warn") : null,
      app.hold ? el("span", { class: "badge warn" }, "held ", byWhom(app.hold)) : null),
    waits ? el("p", { class: "lead" }, "Waits", app.waitingSince ? el("span", {}, " since ", when(app.waitingSince)) : "", ": ", reasonLink(partition, id, app.reason)) : null,
    facts([
      ["Queue", link(toQueue(partition, app.queue), app.queue)],
      ["User", el("span", {}, user, app.groups.length ? ` (${app.groups.slice(0, 20).join(", ")})` : "")],
      ["Counts for the group", app.group ? link(to("group", [partition, app.group]), app.group) : ""],
      ["Allocated", app.allocations ? `${resources(app.allocated)} in ${counted(app.allocations, "allocation")}` : "nothing"],
      ["Members of the elastic gang", app.elastic ? members(app.elastic) : ""],
      ["Placeholders keep", app.placeholderCount ? `${resources(app.placeholders)} in ${counted(app.placeholderCount, "placeholder")}` : ""],
      ["Most that it had", Object.keys(app.maxAllocated).length ? resources(app.maxAllocated) : ""],
      ["Waits for", app.pendingAsks ? `${resources(app.pending)} in ${counted(app.pendingAsks, "ask")}` : "nothing"],
      ["Highest priority", app.pendingAsks ? priority(app.maxPriority) : ""],
      ["Added for its age", app.ageBonus ? priority(app.ageBonus) : ""],
      ["Priority of the operator", app.priority === null || app.priority === undefined ? "" : priority(app.priority)],
      ["Changed", app.change ? byWhom(app.change) : ""],
      ["Submitted", el("span", {}, when(app.submitted), `, ${span(now() - app.submitted)} ago`)],
      ["Started", app.started ? when(app.started) : ""],
      ["Ended", app.finished ? when(app.finished) : ""],
      ["Backs off until", app.backoffUntil > now() ? time(app.backoffUntil) : ""],
      ["Reserved nodes", app.reservations.length
        ? el("span", { class: "links" }, app.reservations.slice(0, 50).map((item) => link(toNode(partition, item.node), `${item.node} for ${item.key}`))) : ""],
    ]));
}

/** "8 of 4–16, in steps of 4": the size of an elastic gang. */
function members({ size, leaving, min, max, step }) {
  const range = max ? `${count(min)}–${count(max)}` : `${count(min)} or more`;
  return `${count(size)} of ${range}, in steps of ${count(step)}${leaving ? `; ${count(leaving)} are being stopped` : ""}`;
}

function gang(app) {
  if (!app.taskGroups.length) return null;
  const until = app.placeholderDeadline ? `Placeholders time out at ${time(app.placeholderDeadline)}.` : "";
  const style = app.gangStyle === "Hard" ? "The application fails if its gang does not come together." : "The application continues without its gang if that does not come together.";
  return section("Gang",
    el("p", { class: "note", text: [app.gangStyle ? style : "", until].filter(Boolean).join(" ") }),
    sortedTable("Task groups", [
      { name: "Task group", value: (row) => row.name, cell: (row) => row.name },
      { name: "Placeholders", number: true, value: (row) => row.count, cell: (row) => count(row.count) },
      { name: "Replaced", number: true, value: (row) => row.replaced, cell: (row) => count(row.replaced) },
      { name: "Timed out", number: true, value: (row) => row.timedOut, cell: (row) => count(row.timedOut) },
      { name: "Size of one", cell: (row) => brief(row.size) },
    ], app.taskGroups, "gang"));
}

/** A field that looks for something in a list, and keeps it in the address as `param`. */
function tools(list, label, param, ...more) {
  return el("div", { class: "tools" }, searchField(label, list.query.q || "", (q) => {
    change({ [param]: q });
    list.search({ q });
  }), ...more);
}

function askSection(list, { reason = "" }) {
  const because = choice("Waits because", [["", "any reason"], ...CODES.map((code) => [code, codeInWords(code)])], reason, (code) => {
    change({ reason: code });
    list.search({ reason: code });
  });
  return section("Asks that wait", tools(list, "Look for a key", "q", because), list.node);
}

function listOfAsks(partition, id, path, { q, reason }) {
  return new PagedList({
    label: "Asks", partition, path, by: "offset", empty: "No ask waits.", query: { q, reason },
    columns: [
      { name: "Ask", sort: "allocationKey", cell: (row) => named(toAsk(partition, id, row.allocationKey), row.allocationKey) },
      { name: "Size", sort: "resource.vcore", cell: (row) => brief(row.resource) },
      { name: "Priority", sort: "priority", number: true, cell: (row) => priority(row.priority) },
      { name: "Waits since", sort: "requestTime", cell: (row) => when(fromNanoseconds(row.requestTime)) },
      { name: "Marks", kind: "bare", cell: (row) => askMarks(row) },
      { name: "Reason", sort: "reason.code", kind: "sentence", cell: (row) => reasonLink(partition, id, { ...row.reason, key: row.allocationKey }) },
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
    row.triggeredPreemption && ["victims asked to stop", "warn"],
    row.triggeredScaleUp && ["no node takes it", "warn"],
  ].filter(Boolean);
  return marks.length ? el("span", { class: "marks" }, marks.map(([text, tone]) => badge(text, tone))) : "–";
}

function listOfAllocations(partition, id, path, { placed = "" }) {
  return new PagedList({
    label: "Allocations", partition, path, by: "offset", empty: "Nothing is allocated.", query: { q: placed }, param: "order",
    columns: [
      { name: "Allocation", sort: "allocationKey", cell: (row) => named(toAsk(partition, id, row.allocationKey), row.allocationKey) },
      { name: "Node", sort: "nodeId", cell: (row) => link(toNode(partition, row.nodeId), row.nodeId) },
      { name: "Size", sort: "resource.vcore", cell: (row) => brief(row.resource) },
      { name: "Priority", sort: "priority", number: true, cell: (row) => priority(row.priority) },
      { name: "Since", sort: "allocationTime", cell: (row) => when(fromNanoseconds(row.allocationTime)) },
      { name: "Had waited", sort: "allocationDelay", number: true, wide: true, cell: (row) => span(Math.max(0, Number(row.allocationDelay) / 1e6)) },
      { name: "Marks", kind: "bare", cell: (row) => {
        const marks = [row.placeholder && badge("placeholder", "quiet"), row.placeholderUsed && badge("took a placeholder’s place", "quiet"), ...stopMarks(partition, row)].filter(Boolean);
        return marks.length ? el("span", { class: "marks" }, marks) : "–";
      } },
    ],
  });
}

function stateLog(app) {
  if (!app.stateLog.length) return null;
  const rows = app.stateLog.map((entry, at) => ({ ...entry, after: at ? entry.time - app.stateLog[at - 1].time : null }));
  return section("State log", sortedTable("State log", [
    { name: "Time", value: (row) => row.time, cell: (row) => when(row.time) },
    { name: "State", value: (row) => row.state, cell: (row) => stateMark(row.state) },
    { name: "After", number: true, value: (row) => row.after, cell: (row) => (row.after === null ? "–" : span(row.after)) },
  ], rows, "log"));
}
