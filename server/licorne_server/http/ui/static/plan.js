// What a configuration would do if it were put into force now: queues that change, and who gains and loses.

import { codeInWords } from "./codes.js";
import { badge, el, link, note } from "./dom.js";
import { to, toApp, toAsk, toQueue } from "./route.js";
import { sortedTable } from "./table.js";
import { amount, brief, count, counted, humanText, span } from "./units.js";

// Nodes that one row names.
const MOST_NODES = 3;
const TONES = { added: "good", draining: "warn", removed: "bad", changed: "plain" };
const after = ({ seconds }) => (seconds ? `after ${span(seconds * 1000)}` : "at once");
const ask = (row) => link(toAsk(row.partition, row.applicationId, row.allocationKey), row.allocationKey, { class: "name" });
const queue = (row) => link(toQueue(row.partition, row.queue), row.queue);
const own = (make, name, more = {}) => ({ name, value: make, cell: make, ...more });

const ASKS = [
  { name: "Ask", value: (row) => row.allocationKey, cell: (row) => el("span", {}, ask(row), row.like > 1 ? ` and ${count(row.like - 1)} like it` : "") },
  { name: "Queue", value: (row) => row.queue, cell: queue },
  { name: "Size", cell: (row) => brief(row.resource) },
];

/** The nodes that show a plan, as the act `plan` answers it. */
export function shownPlan(plan) {
  const { counts } = plan;
  if (!plan.changed) return [el("p", {}, badge("no change", "quiet"), " It is what is in force.")];
  const parts = [
    ["queues", counts.queues, "queue", " changes", " change"], ["victims", counts.victims, "allocation", " is stopped", " are stopped"],
    ["placed", counts.placed, "ask", " is placed", " are placed"], ["blocked", counts.newlyBlocked, "ask", " waits that would not now", " wait that would not now"],
    ["exceededLimits", counts.newlyExceeded, "limit", " is exceeded", " are exceeded"],
  ].filter(([, number]) => number).map(([, number, one, verb, verbs]) => counted(number, one) + (number === 1 ? verb : verbs));
  return [
    el("p", { class: "lead" }, badge("plan", "accent"), ` ${parts.join(", ") || "Nothing that runs or waits is touched"}.`),
    plan.complete ? null : note(`It does not tell all${plan.holds.length ? `: ${plan.holds.join("; ")}` : ", as that was too much to work out"}.`),
    plan.warnings.length ? el("ul", { class: "problems" }, plan.warnings.map((text) => el("li", { text: humanText(text) }))) : null,
    ...queues(plan), ...victims(plan), ...asks(plan), ...limits(plan),
  ].filter(Boolean);
}

/** One row for all that the plan says the same of but the name and the node: the first, with their number. */
function grouped(rows, ...names) {
  const groups = new Map();
  for (const row of rows) {
    const key = JSON.stringify(["partition", "applicationId", "queue", "resource", "seconds", ...names].map((name) => row[name]));
    const group = groups.get(key) ?? { ...row, like: 0, nodes: new Set() };
    groups.set(key, group);
    group.like += 1;
    group.nodes.add(row.nodeId);
  }
  return [...groups.values()];
}

const nodesOf = ({ nodes }) => [...nodes].slice(0, MOST_NODES).join(", ") + (nodes.size > MOST_NODES ? ` and ${count(nodes.size - MOST_NODES)} more` : "");

function part(title, rows, total, columns, name) {
  if (!rows.length) return [];
  const left = total - rows.reduce((sum, { like = 1 }) => sum + like, 0);
  return [el("h3", { text: title }), sortedTable(title, columns, rows, `plan-${name}`), left > 0 ? note(`and ${count(left)} more`) : null];
}

function queues(plan) {
  return part("Queues", plan.queues, plan.counts.queues, [
    { name: "Queue", value: (row) => row.path, cell: (row) => (row.change === "added" ? row.path : link(toQueue(row.partition, row.path), row.path, { class: "name" })) },
    { name: "Change", kind: "bare", value: (row) => row.change, cell: (row) => badge(row.change, TONES[row.change] || "plain") },
    { name: "What", kind: "sentence", cell: (row) => saidOf(row).join("; ") || "–" },
    { name: "Above its maximum by", cell: (row) => (Object.keys(row.overMax).length ? brief(row.overMax) : "–") },
    own((row) => count(row.applications), "Applications", { number: true, value: (row) => row.applications }),
  ], "queues");
}

// What a queue has that nobody gave it anything.
const PLAIN = new Set(["none", "unlimited", "Active", "true", ""]);

/** What changes of a queue. Of a new one only what it is given, of one that goes nothing. */
function saidOf({ change, values }) {
  if (change === "draining" || change === "removed") return [];
  return values.filter(({ after: now }) => change !== "added" || !PLAIN.has(now)).map(valueText);
}

function valueText({ name, before, after: now }) {
  if (!before) return `${name} ${humanText(now)}`;
  return now ? `${name} ${humanText(before)} → ${humanText(now)}` : `${name} ${humanText(before)} → none`;
}

function victims(plan) {
  return part("Stopped", grouped(plan.victims, "rule", "forApplicationId"), plan.counts.victims, [
    ...ASKS,
    { name: "When", value: (row) => row.seconds, cell: after },
    { name: "Rule", kind: "bare", value: (row) => row.rule, cell: (row) => badge(row.rule) },
    { name: "For", cell: (row) => (row.forApplicationId ? link(toApp(row.partition, row.forApplicationId), row.forApplicationId) : "–") },
  ], "victims");
}

function asks(plan) {
  return [
    ...part("Placed", grouped(plan.placed), plan.counts.placed, [
      ...ASKS, { name: "When", value: (row) => row.seconds, cell: after }, { name: "Node", value: (row) => row.nodeId, cell: (row) => nodesOf(row) || "–" },
    ], "placed"),
    ...part("Wait for something else", grouped(plan.blocked, "codeBefore", "code"), plan.counts.blocked, [
      ...ASKS,
      { name: "Now", value: (row) => row.codeBefore, cell: (row) => (row.codeBefore ? codeInWords(row.codeBefore) : "nothing") },
      { name: "Then", kind: "sentence", value: (row) => row.code, cell: (row) => (row.message ? humanText(row.message) : "–") },
    ], "blocked"),
  ];
}

function limits(plan) {
  const over = ({ used, limit }) => Object.keys(limit).filter((name) => Number(used[name] ?? 0) > Number(limit[name]))
    .map((name) => `${name} ${amount(name, Number(used[name]))} of ${amount(name, Number(limit[name]))}`).join(", ");
  return part("Limits that are exceeded", plan.exceededLimits, plan.counts.exceededLimits, [
    { name: "Who", value: (row) => row.user || row.group, cell: (row) => (row.user ? link(to("user", [row.partition, row.user]), row.user) : link(to("group", [row.partition, row.group]), row.group)) },
    { name: "Queue", value: (row) => row.queue, cell: queue },
    { name: "Has", kind: "sentence", cell: (row) => over(row) || `${counted(row.applications, "application")} of ${count(row.maxApplications)}` },
    { name: "Since", kind: "bare", value: (row) => Number(row.already), cell: (row) => (row.already ? badge("now too", "quiet") : badge("new", "warn")) },
  ], "limits");
}
