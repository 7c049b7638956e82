// One queue: what it has and may have, its applications, its settings, and the queues below it.

import { ofPartition } from "./api.js";
import { Bar, figures, words } from "./bar.js";
import { applicationList } from "./applications.js";
import { Detail } from "./detail.js";
import { badge, el, facts, link, section } from "./dom.js";
import { above, marks, scaleOf } from "./queues.js";
import { toApp, toQueue } from "./route.js";
import { choosePartition, state } from "./store.js";
import { table } from "./table.js";
import { amount, count, fromNanoseconds, percent, resources, sortedNames, time } from "./units.js";

const SHOWN = new Set(["guaranteedResource", "maxResource", "headroom", "preemptingResource", "promisedResource",
  "allocatedResource", "pendingResource", "absUsedCapacity", "properties"]);

export function view([partition, path]) {
  choosePartition(partition);
  const list = applicationList(partition, { queue: path });
  const applications = section(`Applications in ${path}`, list.node);
  const detail = new Detail({
    title: path, partition, path: ofPartition(partition, "queue", path),
    render: (queue) => [shownQueue(partition, queue), applications, settings(queue)],
  });
  return { title: path, partition, crumbs: crumbs(partition, path), node: detail.node, close: () => (detail.close(), list.close()) };
}

function crumbs(partition, path) {
  return above(path).map((up) => [toQueue(partition, up), up.slice(up.lastIndexOf(".") + 1)]);
}

function shownQueue(partition, queue) {
  const live = state.queues.get(partition)?.get(queue.queuename) || fromRest(queue);
  const said = marks(live);
  const names = sortedNames(new Set([live.allocated, live.max, live.guaranteed, live.pending].flatMap(Object.keys)));
  const rows = names.map((name) => {
    const bar = new Bar();
    const of = figures(name, live, scaleOf(partition, live, name));
    bar.show(of);
    bar.node.setAttribute("role", "img");
    bar.node.setAttribute("aria-label", words(of));
    return { name, bar, queue };
  });
  const own = (kind, missing) => ({ name, queue: of }) => (name in of[kind] ? amount(name, of[kind][name]) : missing);
  const limits = table("Limits and usage", [
    { name: "Resource", cell: (row) => row.name },
    { name: "Used of its maximum", cell: (row) => row.bar.node },
    { name: "Guaranteed", number: true, cell: own("guaranteedResource", "–") },
    { name: "Maximum", number: true, cell: own("maxResource", "none") },
    { name: "Headroom", number: true, cell: own("headroom", "no bound") },
    { name: "Being preempted", number: true, wide: true, cell: own("preemptingResource", "–") },
    { name: "Promised", number: true, wide: true, cell: own("promisedResource", "–") },
    ...otherAmounts(queue).map((kind) => ({ name: inWords(kind), number: true, wide: true, cell: own(kind, "–") })),
  ], rows);
  const below = queue.childNames.map((name) => link(toQueue(partition, name), name.slice(name.lastIndexOf(".") + 1)));
  return section("Limits and usage",
    el("p", { class: "marks" }, badge(queue.isLeaf ? "leaf" : "parent", "quiet"), badge(queue.status, queue.status === "Active" ? "good" : "warn"),
      ...said.filter(([text]) => text !== queue.status.toLowerCase()).map(([text, tone]) => badge(text, tone))),
    rows.length ? limits : el("p", { class: "note", text: "Nothing is used, limited or waited for here." }),
    facts([
      ["Fair share", queue.parent && live.share !== null ? percent(live.share) : ""],
      ["Applications that run", `${count(queue.runningApps)} of ${queue.maxRunningApps ? `at most ${count(queue.maxRunningApps)}` : "any number"}`],
      ["About to run", queue.allocatingAcceptedApps.length
        ? el("span", { class: "links" }, queue.allocatingAcceptedApps.slice(0, 50).map((app) => link(toApp(partition, app), app))) : ""],
      ["Queues below", below.length ? el("span", { class: "links" }, below.slice(0, 200)) : ""],
    ]));
}

/** The kinds of amounts that the table shows as REST names them, as it knows no better. */
function otherAmounts(queue) {
  const isAmounts = (value) => value instanceof Object && !Array.isArray(value) && Object.values(value).every(Number.isInteger);
  return Object.keys(queue).filter((kind) => !SHOWN.has(kind) && isAmounts(queue[kind]) && Object.keys(queue[kind]).length);
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
      ["Priority now", String(queue.currentPriority)],
      ["Priority offset", String(queue.priorityOffset)],
      ["Priority fence", yes(queue.isPriorityFence)],
      ["Preemption", queue.preemptionEnabled ? `after ${queue.preemptionDelay}` : "off"],
      ["Preemption fence", yes(queue.isPreemptionFence)],
      ["Lowered maximum is enforced", queue.isQuotaPreemptionRunning ? "now" : queue.quotaPreemptionStartTime ? `at ${time(fromNanoseconds(queue.quotaPreemptionStartTime))}` : ""],
      ["Back-off of asks", queue.unschedAskBackoff ? `after ${count(queue.unschedAskBackoff)} tries, for ${queue.askBackoffDelay}` : ""],
      ["Made by", queue.isManaged ? "the configuration" : "a placement rule"],
      ["Template: maximum", template ? resources(template.maxResource) : ""],
      ["Template: guaranteed", template ? resources(template.guaranteedResource) : ""],
      ["Template: applications", template?.maxApplications ? count(template.maxApplications) : ""],
    ]),
    properties.length ? table("Properties", [
      { name: "Property", cell: ([name]) => name }, { name: "Value", cell: ([, value]) => value },
    ], properties) : null);
}
