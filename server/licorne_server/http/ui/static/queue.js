// One queue: what it has and may have, over time and now, the queues below it, its applications, and its
// settings.

import { actButton } from "./act.js";
import { ofPartition } from "./api.js";
import { applicationList } from "./applications.js";
import { Bar, figures, words } from "./bar.js";
import { Reasons } from "./cards.js";
import { commandLine, named, ofThe } from "./copy.js";
import { Detail } from "./detail.js";
import { badge, el, facts, link, place, section } from "./dom.js";
import { History } from "./history.js";
import { above, lastName, marks, scaleOf } from "./queues.js";
import { toApp, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { sortedTable, table } from "./table.js";
import { amount, count, counted, fromNanoseconds, hours, hoursOf, percent, priority, resources, short, sortedNames } from "./units.js";
import { byWhom, when } from "./when.js";

const SHOWN = new Set(["guaranteedResource", "maxResource", "headroom", "preemptingResource", "promisedResource",
  "allocatedResource", "pendingResource", "absUsedCapacity", "properties", "fairShare", "hoursBudgets"]);
// Queues below that are shown.
const MAX_BELOW = 200;

export function view([partition, path]) {
  choosePartition(partition);
  const list = applicationList(partition, { queue: path });
  const parts = [new History(partition, path), new Reasons({ partition, queue: path }), list];
  const [history, reasons] = parts;
  const applications = section(`Applications in ${path}`, list.node);
  const actions = el("span", { class: "marks" });
  const detail = new Detail({
    partition, path: ofPartition(partition, "queue", path),
    render: (queue) => {
      place(actions, actionsOf(partition, queue, () => detail.load()));
      return [history.node, reasons.node, shownQueue(partition, queue), remembered(queue), below(partition, queue), applications, settings(queue)];
    },
  });
  return {
    title: path, name: path, partition, crumbs: crumbs(partition, path), node: detail.node, actions,
    command: commandLine("queues", path, ...ofThe(partition)), close: () => [detail, ...parts].forEach((part) => part.close()),
  };
}

function crumbs(partition, path) {
  return above(path).map((up) => [toQueue(partition, up), lastName(up)]);
}

/** Stopping a queue that runs, or starting one that is stopped. */
function actionsOf(partition, queue, done) {
  const name = queue.queuename;
  const stopped = queue.stop?.time || queue.status === "Stopped";
  const common = { partition, name, done };
  return [stopped
    ? actButton({ ...common, act: "start", label: "Start", mark: "start", words: ["queues", "start", name], text: `New allocations may be made in ${name} and in the queues below it again.` })
    : actButton({
      ...common, act: "stop", label: "Stop", mark: "stop", words: ["queues", "stop", name], danger: true, verb: "Stop the queue",
      text: `Nothing new is allocated in ${name} and in the queues below it, until somebody starts it. Its allocations continue. This outlives a restart.`,
    })].filter(Boolean);
}

const live = (partition, queue) => state.queues.get(partition)?.get(queue.queuename) || fromRest(queue);

function barOf(partition, queue, name) {
  const bar = new Bar();
  const of = figures(name, queue, scaleOf(partition, queue, name));
  bar.show(of);
  bar.node.setAttribute("role", "img");
  bar.node.setAttribute("aria-label", words(of));
  return bar.node;
}

function shownQueue(partition, queue) {
  const now = live(partition, queue);
  const said = marks(now).filter(([text]) => text !== queue.status.toLowerCase());
  const names = sortedNames(new Set([now.allocated, now.max, now.guaranteed, now.pending].flatMap(Object.keys)));
  const own = (kind, missing) => (name) => (name in queue[kind] ? amount(name, queue[kind][name]) : missing);
  const limits = table("Limits and usage", [
    { name: "Resource", cell: (name) => name },
    { name: "Used of its maximum", kind: "sentence", cell: (name) => barOf(partition, now, name) },
    { name: "Guaranteed", number: true, cell: own("guaranteedResource", "–") },
    { name: "Maximum", number: true, cell: own("maxResource", "none") },
    { name: "Headroom", number: true, cell: own("headroom", "no bound") },
    { name: "Being preempted", number: true, wide: true, cell: own("preemptingResource", "–") },
    { name: "Promised", number: true, wide: true, cell: own("promisedResource", "–") },
    ...otherAmounts(queue).map((kind) => ({ name: inWords(kind), number: true, wide: true, cell: own(kind, "–") })),
  ], names);
  return section("Limits and usage",
    el("p", { class: "marks" }, badge(queue.isLeaf ? "leaf" : "parent", "quiet"), badge(queue.status, queue.status === "Active" ? "good" : "warn"),
      ...said.map(([text, tone]) => badge(text, tone)), queue.stop?.time ? el("span", { class: "summary" }, "stopped ", byWhom(queue.stop)) : null),
    names.length ? limits : el("p", { class: "note", text: "Nothing is used, limited or waited for here." }),
    facts([
      ["Fair share", queue.parent && now.share !== null ? percent(now.share) : ""],
      ["Running", `${counted(queue.runningApps, "application")}${queue.maxRunningApps ? ` of at most ${count(queue.maxRunningApps)}` : ", no limit"}`],
      ["About to run", queue.allocatingAcceptedApps.length
        ? el("span", { class: "links" }, queue.allocatingAcceptedApps.slice(0, 50).map((app) => link(toApp(partition, app), app))) : ""],
    ]));
}

/** What was used so far, as far as decisions go by it: decayed usage, and the hours of the present windows. */
function remembered(queue) {
  const share = queue.fairShare;
  const budgets = queue.hoursBudgets ?? [];
  if (!share && !budgets.length) return null;
  const left = table("Budgets of hours", [
    { name: "Resource", cell: (row) => `${row.resource}-hours` },
    { name: "Used of the window", kind: "sentence", cell: hoursBar },
    { name: "Left", number: true, cell: (row) => hours(row.resource, row.left) },
    { name: "State", kind: "bare", cell: (row) => badge(row.left > 0 ? "open" : "used up", row.left > 0 ? "good" : "warn") },
    { name: "New window", cell: (row) => when(fromNanoseconds(row.resetsAt)) },
  ], budgets);
  return section("Used so far",
    share ? facts([
      ["Decayed usage", hoursOf(share.decayed) || "none"],
      ["Place among siblings", share.share === null ? "last, as its weight is 0" : `by ${short(share.share)} hours of what is due`],
      ["Weight", short(share.weight)],
      ["Half-life", share.halfLife],
    ]) : null,
    budgets.length ? left : null);
}

function hoursBar(budget) {
  const part = budget.limit > 0 ? Math.max(0, Math.min(1, budget.used / budget.limit)) : 1;
  const fill = el("span", { class: "fill" });
  fill.style.width = `${part * 100}%`;
  const text = `${hours(budget.resource, budget.used)} of ${hours(budget.resource, budget.limit)}`;
  return el("span", { class: "bar", role: "img", "aria-label": `${budget.resource}-hours: ${text} used`, title: text },
    el("span", { class: "line" }, el("span", { class: "numbers", text })),
    el("span", { class: budget.left > 0 ? "track" : "track full", "aria-hidden": "true" }, fill));
}

/** The queues below, with what the feed says of them. */
function below(partition, queue) {
  const known = state.queues.get(partition);
  const rows = queue.childNames.slice(0, MAX_BELOW).map((path) => known?.get(path) || { path });
  if (!rows.length) return null;
  const has = (row) => row.allocated !== undefined;
  const names = ["vcore", "memory"].filter((name) => rows.some((row) => has(row) && [row.allocated, row.max, row.pending].some((map) => name in map)));
  const left = queue.childNames.length - rows.length;
  return section(`Queues below ${queue.queuename}`, sortedTable("Queues below", [
    { name: "Queue", value: (row) => row.path, cell: (row) => named(toQueue(partition, row.path), lastName(row.path)) },
    { name: "Marks", kind: "bare", cell: (row) => (has(row) ? el("span", { class: "marks" }, marks(row).map(([text, tone]) => badge(text, tone))) : "–") },
    ...names.map((name) => ({ name, value: (row) => row.allocated?.[name] ?? 0, cell: (row) => (has(row) ? barOf(partition, row, name) : "–") })),
    { name: "Waits for", number: true, value: (row) => row.pending?.[names[0]] ?? 0, cell: (row) => (row.pending?.[names[0]] ? amount(names[0], row.pending[names[0]]) : "–") },
    { name: "Running", number: true, value: (row) => row.running ?? 0, cell: (row) => (has(row) ? (row.leaf ? `${count(row.running)} of ${count(row.applications)}` : count(row.running)) : "–") },
    { name: "Fair share", number: true, value: (row) => row.share ?? 0, cell: (row) => (has(row) ? percent(row.share) : "–") },
  ], rows, "below"), left > 0 ? el("p", { class: "note", text: `and ${counted(left, "more queue")}, which the search finds` }) : null);
}

/** The kinds of amounts that the table shows as REST names them, as it knows no better. */
function otherAmounts(queue) {
  const isAmounts = (value) => value instanceof Object && !Array.isArray(value) && Object.values(value).every(Number.isInteger);
  return Object.keys(queue).filter((kind) => !SHOWN.has(kind) && kind !== "stop" && isAmounts(queue[kind]) && Object.keys(queue[kind]).length);
}

/** A name of REST as a heading. */
const inWords = (name) => name[0].toUpperCase() + name.slice(1).replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);

/** What the feed would say of a queue, from what REST says: not all queues are in the feed. */
function fromRest(queue) {
  return {
    path: queue.queuename, parent: queue.parent, leaf: queue.isLeaf, managed: queue.isManaged, state: queue.status,
    guaranteed: queue.guaranteedResource, max: queue.maxResource, allocated: queue.allocatedResource,
    pending: queue.pendingResource, preempting: queue.preemptingResource, running: queue.runningApps,
    maxApplications: queue.maxRunningApps, share: null,
  };
}

function settings(queue) {
  const yes = (value) => (value ? "yes" : "no");
  const properties = Object.entries(queue.properties).sort();
  const template = queue.template;
  return section("Settings",
    facts([
      ["Order of applications", queue.isLeaf ? queue.sortingPolicy : "queues by fair share"],
      ["Priorities count", yes(queue.prioritySorting)],
      ["Priority now", priority(queue.currentPriority)],
      ["Priority offset", count(queue.priorityOffset)],
      ["Priority fence", yes(queue.isPriorityFence)],
      ["Preemption", queue.preemptionEnabled ? `after ${queue.preemptionDelay}` : "off"],
      ["Preemption fence", yes(queue.isPreemptionFence)],
      ["Lowered maximum is enforced", queue.isQuotaPreemptionRunning ? "now" : queue.quotaPreemptionStartTime ? when(fromNanoseconds(queue.quotaPreemptionStartTime)) : ""],
      ["Back-off of asks", queue.unschedAskBackoff ? `after ${count(queue.unschedAskBackoff)} tries, for ${queue.askBackoffDelay}` : ""],
      ["Made by", queue.isManaged ? "the configuration" : "a placement rule"],
      ["Template: maximum", template ? resources(template.maxResource) : ""],
      ["Template: guaranteed", template ? resources(template.guaranteedResource) : ""],
      ["Template: applications", template?.maxApplications ? count(template.maxApplications) : ""],
    ]),
    properties.length ? table("Properties", [
      { name: "Property", cell: ([name]) => name }, { name: "Value", kind: "bare", cell: ([, value]) => value },
    ], properties) : null);
}
