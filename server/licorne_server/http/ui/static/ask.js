// Why an ask is where it is: all checks in their order with their operands, the first that stops it,
// and what would let it through.

import { ofPartition } from "./api.js";
import { commandLine, ofThe } from "./copy.js";
import { Detail } from "./detail.js";
import { badge, el, facts, link, section, svg } from "./dom.js";
import { to, toApp, toAsk, toNode, toQueue } from "./route.js";
import { Standing } from "./standing.js";
import { choosePartition, now } from "./store.js";
import { table } from "./table.js";
import { Tried } from "./tried.js";
import { amount, brief, count, counted, humanText, reasonText, sortedNames, span, time } from "./units.js";
import { when } from "./when.js";

const VERDICTS = {
  allocated: ["Runs", "good"],
  assumed: ["Assumed", "plain"],
  pending: ["Waits", "bad"],
  waiting: ["About to be tried", "plain"],
  replacing: ["Replaces a placeholder", "plain"],
  noticed: ["Under notice", "warn"],
  stopping: ["Stopping", "warn"],
  preempted: ["Preempted", "warn"],
};

export function view([partition, app, key = ""]) {
  choosePartition(partition);
  const standing = new Standing(partition, app, key);
  const tried = new Tried(partition, app);
  const detail = new Detail({
    partition, path: ofPartition(partition, "application", app, "explain"), query: { key },
    render: (report) => [verdict(partition, report), whatIsTried(tried, report), checks(partition, report), waits(report) ? standing.node : null, victim(partition, report.victim)],
  });
  return {
    title: key || `First ask of ${app}`, name: key, partition,
    crumbs: [[to("applications", [partition]), "Applications"], [toApp(partition, app), app]],
    node: detail.node, command: commandLine("explain", app, key, ...ofThe(partition)), close: () => (detail.close(), standing.close(), tried.close()),
  };
}

const waits = (report) => ["pending", "waiting"].includes(report.verdict);

const blockerOf = (report) => report.checks.find((check) => !check.passed);

function whatIsTried(tried, report) {
  const blocker = blockerOf(report);
  return blocker && waits(report) ? tried.about(report, blocker) : null;
}

function verdict(partition, report) {
  const blocker = blockerOf(report);
  const [word, tone] = blocker?.kind === "size" ? ["Waits in vain", "bad"] : VERDICTS[report.verdict] || [report.verdict, "plain"];
  const way = blocker && waits(report) ? wayOut(partition, blocker) : "";
  const ahead = [
    report.asksAhead && counted(report.asksAhead, "ask") + " of the same application",
    report.applicationsAhead && counted(report.applicationsAhead, "application") + " of the same queue",
  ].filter(Boolean);
  return section("Why",
    el("p", { class: "lead" }, badge(word, tone), ` ${humanText(report.summary)}`),
    way ? el("p", { class: "wayout" }, el("strong", { text: "What would unblock it: " }), way) : null,
    facts([
      ["Application", link(toApp(partition, report.applicationId), report.applicationId)],
      ["Queue", report.queue ? link(toQueue(partition, report.queue), report.queue) : ""],
      ["Node", report.node ? link(toNode(partition, report.node), report.node) : ""],
      ["Expected to start", blocker?.kind === "size" ? "never" : report.expectedStart ? expected(report.expectedStart) : ""],
      ["Passed a start at", report.passed ? when(Number(report.passed.startsAt) / 1e6) : ""],
      ["Ahead of it", ahead.join(" and ") || (waits(report) ? "nothing" : "")],
    ]));
}

/** When it is expected to start, in which range, what that rests on, and what was told first. */
function expected({ startsAt, confidence, firstTold, startBy, asksAhead, unasked, earliest, latest, level }) {
  const [at, first, by, from, to] = [startsAt, firstTold, startBy, earliest, latest].map((nanoseconds) => Number(nanoseconds) / 1e6);
  return el("span", {}, at ? [when(at), ` in ${span(Math.max(0, at - now()))} `] : "", badge(confidence, at ? "quiet" : "warn"),
    level ? [" between ", when(from), " and ", when(to), ` in ${level} of 100 cases`] : "",
    asksAhead ? ` too many are ahead of it: ${counted(asksAhead, "ask")}` : "",
    unasked ? " by amounts alone: its RM was not asked about nodes" : "",
    first && first !== at ? [" first told ", when(first)] : "",
    by ? [at > by ? " " : " wanted by ", at > by ? badge("late", "bad") : "", at > by ? " wanted by " : "", when(by)] : "");
}

function checks(partition, report) {
  if (!report.checks.length) return null;
  const first = report.checks.findIndex((check) => !check.passed);
  const items = report.checks.map((check, at) => shownCheck(partition, check, at === first));
  return section("Checks, in the order in which they are made", el("ol", { class: "checks" }, items));
}

function shownCheck(partition, check, isFirst) {
  const behind = check.kind === "preemption" ? "is no help" : "would stop it too";
  const word = check.passed ? "passed" : isFirst ? "stops it" : behind;
  const subject = check.kind === "queue" || check.kind === "hours" ? link(toQueue(partition, check.subject), check.subject) : check.subject;
  // The message has the causes in short already.
  const causes = Object.entries(check.causes).filter(([cause]) => !check.message.includes(cause)).sort(([, a], [, b]) => b - a);
  return el("li", { class: check.passed ? "passed" : isFirst ? "first blocked" : "blocked" },
    el("div", { class: "head" }, mark(check.passed), el("strong", { text: check.kind }), subject ? el("span", { class: "subject" }, subject) : null,
      badge(word, check.passed ? "quiet" : isFirst ? "bad" : "warn"), check.passed ? null : el("code", { text: check.code })),
    el("p", { text: humanText(check.message) }),
    operands(check),
    causes.length ? el("ul", { class: "causes" }, causes.map(([cause, number]) => el("li", {}, el("b", { text: count(number) }), ` ${cause}`))) : null,
    holders(partition, check),
    Number(check.until) ? el("p", { text: `Until ${time(Number(check.until) / 1e6)}.` }) : null);
}

/** For whom nodes are reserved that the ask could use otherwise. */
function holders(partition, check) {
  if (!check.reservedFor.length) return null;
  return el("div", {},
    table("Reserved nodes by queue", [
      { name: "Reserved for", cell: (row) => link(toQueue(partition, row.queue), row.queue) },
      { name: "Nodes", number: true, cell: (row) => count(row.nodes) },
      { name: "Cannot run", number: true, cell: (row) => count(row.idle) },
      { name: "Kept", cell: (row) => brief(row.kept) },
      { name: "Why it does not run", cell: (row) => reasonText(row.reason.message, row.reason.lacks) },
    ], check.reservedFor),
    check.moreQueues ? el("p", { class: "note", text: `Others are reserved for ${counted(check.moreQueues, "more queue")}.` }) : null);
}

/** A tick or a cross, so that colour is not all that tells. */
function mark(passed) {
  const line = passed ? "M3 8.5 6.5 12 13 4.5" : "M4 4 12 12M12 4 4 12";
  return svg("svg", { viewBox: "0 0 16 16", class: "mark-icon", "aria-hidden": "true" }, svg("path", { d: line }));
}

function operands(check) {
  const names = sortedNames(new Set([check.requested, check.used, check.limit].flatMap(Object.keys)));
  if (!names.length) return null;
  const told = names.filter((name) => name in check.limit).slice(0, 20);
  const rows = (told.length ? told : names.slice(0, 20)).map((name) => {
    const of = (map) => (name in map ? amount(name, Number(map[name])) : "–");
    const over = shortage(check, name);
    return el("tr", { role: "row", class: over > 0 ? "over" : null },
      el("th", { scope: "row", role: "rowheader", text: name }),
      ...[of(check.requested), of(check.used), of(check.limit), over > 0 ? amount(name, over) : "–"].map((text) => el("td", { class: "number", role: "cell", text })));
  });
  const [used, limit] = check.kind === "preemption" ? ["will have", "guaranteed"] : ["used", "limit"];
  const head = ["", "asked", used, limit, "too much by"].map((text, at) => el("th", { scope: "col", role: "columnheader", class: at ? "number" : null, text }));
  return el("div", { class: "scroll" }, el("table", { role: "table", class: "operands", "aria-label": `Operands of the check ${check.kind} ${check.subject}` },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)), el("tbody", { role: "rowgroup" }, rows)));
}

/** How much more than the limit there would be. */
function shortage(check, name) {
  if (!(name in check.limit)) return 0;
  return Number(check.requested[name] ?? 0) + Number(check.used[name] ?? 0) - Number(check.limit[name]);
}

/** What would let it through, for checks of which nothing can be tried. */
function wayOut(partition, check) {
  const until = Number(check.until) / 1e6;
  switch (check.kind) {
    case "partition": return "the RM, once it has brought its nodes and nothing holds its partition any more.";
    case "application": return "an application that is in a state in which asks are looked at.";
    case "starting": return "its turn: applications of this queue start one after the other.";
    case "backoff": return until > now() ? `time: its back-off ends at ${time(until)}, in ${span(until - now())}.` : "time: its back-off is about to end.";
    case "hours": return until > now() ? `time: a new window begins at ${time(until)}, in ${span(until - now())}.` : "time: a new window is about to begin.";
    case "predicates": return "the RM, which has been asked about nodes and has not answered yet.";
    case "backfill": return `a declared end before ${time(until)}, when ${check.subject || "another ask"} is planned to start, or room that it does not need.`;
    case "gang": return `the other members of the gang${until ? `, or the time-out of the placeholders at ${time(until)}` : ""}.`;
    case "topology": return topologyWayOut(partition, check);
    case "preemption": return until ? `time: what may be preempted is looked at again by ${time(until)}.` : "allocations that end by themselves: nothing may be preempted for it.";
    default: return "";
  }
}

/** Free members in one domain, and where the free room of all domains stands. */
function topologyWayOut(partition, check) {
  if (check.code === "GANG_INCOMPLETE") return "the RM, once it has asked for all members that are placed together.";
  if (check.code === "ELASTIC_MAX") return "the end of a member of its gang.";
  const room = check.subject ? `more room in ${check.subject}, or in any other domain` : "more room for its members";
  return el("span", {}, `${room}. `, link(to("nodes", [partition]), "Free slots by domain"));
}

function victim(partition, record) {
  if (!record) return null;
  const why = { guarantee: "for an ask whose queue was below its guarantee", "fair-share": "for an ask whose queue was below its fair share", "required-node": "for an ask that may go to no other node", quota: "because its queue had more than its lowered maximum", drain: "because an operator drains its node" };
  return section("Preemption", facts([
    ["Rule", why[record.rule] || record.rule],
    ["Told to stop", time(record.time)],
    ["Was gone", record.released ? time(record.released) : "not yet"],
    ["For", record.forKey ? link(toAsk(partition, record.forApplication, record.forKey), `${record.forApplication} ${record.forKey}`) : record.forQueue],
  ]));
}
