// Events as sentences. Those of one decision are folded into the one that tells most of it.
//
// fold(events) gives lists of events that belong together, in their order; sentence(events, links) makes the
// nodes of what such a list says. `links` makes a link of a name: { app, ask, node, queue, user, group }.

import { amount, brief, humanText } from "./units.js";

// So many events are one decision at most, besides those of groups.
const LONGEST = 7;

const is = (change, detail) => (event) => event.change === change && event.detail === detail;
const allocatedOn = is("ADD", "NODE_ALLOC");
const allocated = is("ADD", "APP_ALLOC");
const usedLess = is("REMOVE", "UG_USER_RESOURCE");
const freedOn = is("REMOVE", "NODE_ALLOC");
const left = is("REMOVE", "QUEUE_APP");
const maximum = is("SET", "QUEUE_MAX");
const ended = (event) => event.type === "APP" && event.change === "REMOVE" && event.detail.startsWith("ALLOC_");
const same = (events, name) => events.every((event) => event[name] === events[0][name]);

/** How the events of a decision begin and end, and which of them tells of it. */
const DECISIONS = [
  { first: allocatedOn, last: (event, first) => allocated(event) && event.reference === first.reference, main: allocated },
  { first: usedLess, last: freedOn, main: ended, also: (event, end) => event.detail === "REQUEST_CANCEL" && event.reference === end.reference },
  { first: is("ADD", "APP_NEW"), last: is("ADD", "QUEUE_APP"), main: is("ADD", "APP_NEW"), also: is("SET", "UG_APP_LINK") },
  { first: is("REMOVE", "UG_APP_LINK"), last: (event, first) => gone(event) && event.object === first.reference, main: gone },
  { first: left, last: (event, first) => gone(event) && event.object === first.reference, main: gone },
  { first: is("SET", "NODE_SCHEDULABLE"), last: (event, first) => event.type === "NODE" && event.change === "ADD" && event.object === first.object, main: (event) => event.change === "ADD" },
  { first: maximum, last: is("REMOVE", "NODE_DECOMISSION"), main: is("REMOVE", "NODE_DECOMISSION") },
];

function gone(event) {
  return event.type === "APP" && event.change === "REMOVE" && event.detail === "";
}

/** The events in lists, each of one decision. */
export function fold(events) {
  const found = [];
  for (let at = 0; at < events.length; at += found.at(-1).length) found.push(events.slice(at, endOf(events, at)));
  return found;
}

/** Where the decision that begins at a place ends. */
function endOf(events, at) {
  const begin = events[at];
  const most = Math.min(events.length, at + LONGEST);
  for (const { first, last, also } of DECISIONS) {
    if (!first(begin)) continue;
    for (let end = at + 1; end < most && events[end].time === begin.time && !first(events[end]); end += 1) {
      if (last(events[end], begin)) return end + 1 + Number(end + 1 < events.length && Boolean(also?.(events[end + 1], events[end])));
    }
  }
  return at + 1;
}

/** How many events from the first on are of decisions that are there as a whole: more may come of the last. */
export function whole(events) {
  const last = events.at(-1);
  for (let at = Math.max(1, events.length - LONGEST); at < events.length; at += 1) {
    const end = endOf(events, at);
    const begins = events[at].time === last.time && DECISIONS.some(({ first }) => first(events[at]));
    if (begins && (end === at + 1 || end === events.length)) return at;
  }
  return events.length;
}

/** The event of a list that tells most of the decision. */
function mainOf(events) {
  const decision = events.length > 1 && DECISIONS.find(({ first }) => first(events[0]));
  return (decision && events.find(decision.main)) || events[0];
}

/** What a list of events says. */
export function sentence(events, links) {
  const main = mainOf(events);
  if (events.length === 1) return single(main, links);
  const find = (detail) => events.find((event) => event.detail === detail);
  const [usage, node, queue] = [find("UG_USER_RESOURCE"), find("NODE_ALLOC"), find("QUEUE_APP")];
  // A filter may have left some of them out.
  const isComplete = usage && node;
  if (isComplete && allocated(main)) {
    return [links.user(usage.object), `: +${brief(usage.resource)} in `, links.queue(usage.reference), ", ", links.ask(main.object, main.reference), " runs on ", links.node(node.object),
      find("APP_RUNNING") ? [", ", links.app(main.object), " began"] : "", added(main)].flat();
  }
  if (isComplete && ended(main)) {
    return [links.user(usage.object), `: −${brief(usage.resource)} in `, links.queue(usage.reference), ", ", links.ask(main.object, main.reference), ` ${ENDS[main.detail] || "ended"} on `, links.node(node.object)];
  }
  if (queue) return [links.app(main.object), main.change === "ADD" ? " was submitted to " : " left ", links.queue(queue.object)];
  return single(main, links);
}

const ENDS = {
  ALLOC_CANCEL: "was released", ALLOC_PREEMPT: "was preempted", ALLOC_TIMEOUT: "timed out", ALLOC_REPLACED: "was replaced", ALLOC_NODEREMOVED: "ended with its node,",
  REQUEST_CANCEL: "waits no more", REQUEST_TIMEOUT: "timed out",
};
const MAY_RUN = {
  APP_CANNOTRUN_QUEUE: "waits, as its queue runs all applications that it may", APP_RUNNABLE_QUEUE: "may run in its queue again",
  APP_CANNOTRUN_QUOTA: "waits, as its user or group runs all applications that may run", APP_RUNNABLE_QUOTA: "may run within the limits of its user again",
};
const signed = ({ change, resource }) => `${change === "REMOVE" ? "−" : "+"}${brief(resource)}`;
const most = (resource) => Object.entries(resource).map(([name, value]) => `${name} ${amount(name, Number(value))}`).join(", ");
/** A message for people has words; one word is the name of a transition. */
const added = ({ message }) => (message.includes(" ") ? `: ${humanText(message)}` : "");

const SAYS = { REQUEST: ofRequest, APP: ofApp, NODE: ofNode, QUEUE: ofQueue, USERGROUP: ofPeople };

function single(event, links) {
  return SAYS[event.type]?.(event, links) ?? [event.object, " ", event.detail, " ", event.message];
}

function ofRequest({ object, reference, message }, links) {
  const own = message.startsWith(`Request '${object}' `) ? message.slice(object.length + 11) : `: ${message}`;
  return [links.ask(reference, object), own.startsWith(":") ? "" : " ", humanText(own)];
}

function ofApp(event, links) {
  const { object, reference, detail, change } = event;
  if (MAY_RUN[detail]) return [links.app(object), ` ${MAY_RUN[detail]}`];
  if (detail === "APP_REQUEST") return [links.app(object), ` asks for ${brief(event.resource)}: `, links.ask(object, reference)];
  if (detail === "APP_ALLOC") return [links.app(object), `: ${brief(event.resource)} for `, links.ask(object, reference), added(event)];
  if (ENDS[detail]) return [links.ask(object, reference), ` of `, links.app(object), ` ${ENDS[detail]}`.replace(/,$/, "")];
  if (detail === "APP_NEW") return [links.app(object), " was submitted"];
  if (change === "REMOVE") return [links.app(object), " left"];
  const state = detail.replace("APP_", "").toLowerCase();
  return [links.app(object), state === "reject" ? " was rejected" : ` is ${state}`, added(event)];
}

function ofNode(event, links) {
  const { object, reference, detail, change, resource, message } = event;
  const node = links.node(object);
  switch (detail) {
    case "NODE_ALLOC": return [node, `: ${signed(event)} for ${reference}`];
    case "NODE_RESERVATION": return [node, change === "ADD" ? ` is reserved for ${reference}` : ` is not reserved for ${reference} any more`];
    case "NODE_CAPACITY": return [node, ` has ${brief(resource)} now`];
    case "NODE_OCCUPIED": return [node, `: others use ${brief(resource)}`];
    case "NODE_SCHEDULABLE": return [node, message.endsWith("true") ? " takes allocations" : " takes no new allocations"];
    default:
      if (change === "ADD") return [node, ` came with ${brief(resource)}`];
      return change === "REMOVE" ? [node, " was removed"] : [node, `: ${message}`];
  }
}

function ofQueue(event, links) {
  const { object, reference, detail, change, resource, message } = event;
  const queue = links.queue(object);
  switch (detail) {
    case "QUEUE_APP": return [links.app(reference), change === "ADD" ? " came to " : " left ", queue];
    case "QUEUE_MAX": return [queue, Object.keys(resource).length ? `: maximum ${most(resource)}` : " has no maximum any more"];
    case "QUEUE_GUARANTEED": return [queue, Object.keys(resource).length ? `: guaranteed ${most(resource)}` : " has no guarantee any more"];
    case "QUEUE_TYPE": return [queue, message.endsWith("true") ? " is a leaf now" : " is a parent now"];
    case "QUEUE_PREEMPTION": return [queue, `: ${humanText(message)}`];
    default:
      if (message) return [queue, `: ${message}`];
      return [queue, change === "ADD" ? " was added" : change === "REMOVE" ? " was removed" : " was changed", detail === "QUEUE_DYNAMIC" ? " by a placement rule" : ""];
  }
}

function ofPeople(event, links) {
  const { object, reference, detail, change, resource } = event;
  const who = detail === "UG_USER_RESOURCE" || detail === "UG_USER_LIMIT" ? links.user(object) : links.group(object);
  if (detail.endsWith("_RESOURCE")) return [who, `: ${signed(event)} in `, links.queue(reference)];
  if (detail === "UG_APP_LINK") return [links.app(reference), change === "REMOVE" ? " counts no more for the group " : " counts for the group ", who];
  return [who, change === "REMOVE" ? " has no limit any more in " : ` may have ${most(resource) || "nothing"} in `, links.queue(reference)];
}
