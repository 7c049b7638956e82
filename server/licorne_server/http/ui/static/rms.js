// Resource managers (RMs): connected or lost, what holds them, how much they have of what they may have.

import { commandLine, copyButton } from "./copy.js";
import { badge, el, facts, link, place, section } from "./dom.js";
import { icon } from "./icons.js";
import { to } from "./route.js";
import { findings, now, state } from "./store.js";
import { amount, count, counted, percent, span, time } from "./units.js";
import { findingParts, when } from "./when.js";

const CAPS = [["nodes", "Nodes"], ["queues", "Queues"], ["applications", "Applications"], ["asks", "Asks and allocations"], ["memory", "Memory"]];
// From this part of a bound on it is said.
const NEARLY = 0.8;

/** The words for no RM: none is registered, or none that the visitor may see. */
export function noneRegistered() {
  const whose = state.server?.role === "rm" ? " that you may see" : "";
  return `No resource manager${whose} is registered`;
}

/** Whether the RM of a partition is there, and what keeps it from being scheduled. */
export function linkMarks(partition) {
  const rm = state.rms.get(partition.rm);
  const marks = rm === undefined ? [] : [linkMark(rm)];
  if (partition.state !== "Active") marks.push(badge(partition.state.toLowerCase(), "warn"));
  for (const hold of partition.holds) marks.push(badge(`on hold: ${hold}`, "bad"));
  return marks;
}

function linkMark(rm) {
  if (rm.connected) return badge("connected", "good", `since ${time(rm.since)}`);
  return badge(`connection lost${rm.since ? ` at ${time(rm.since)}` : ""}`, "bad", "its books are kept until it comes back or is forgotten");
}

/** A partition in one line. */
export function partitionFacts(partition) {
  const { applications: by } = partition;
  const running = by.Running ?? 0;
  const active = Object.entries(by).filter(([name]) => !["Completed", "Rejected", "Expired", "Failed"].includes(name));
  const total = active.reduce((sum, [, value]) => sum + value, 0);
  const parts = [
    counted(partition.nodes, "node"), `${count(running)} of ${counted(total, "application")} running`,
    counted(partition.allocations, "allocation"), `${counted(partition.pendingAsks, "ask")} waiting`,
  ];
  return parts.join(" · ");
}

export function view() {
  return new Rms();
}

class Rms {
  constructor() {
    this.title = "Resource managers";
    this.command = commandLine("rms");
    this.cards = el("div", { class: "rms" });
    this.node = el("div", { class: "stack" });
    this.update({ rms: new Set(["all"]), partitions: new Set(), findings: new Set() });
  }

  update({ rms, partitions, findings: found }) {
    if (!rms.size && !partitions.size && !found.size) return;
    const all = [...state.rms.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    const focused = this.node.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    place(this.cards, all.map(shown));
    const members = findings().filter(({ concern }) => concern === "member");
    place(this.node, [...(members.length ? [lostMembers(members)] : []), this.cards]);
    if (focused) [...this.node.querySelectorAll("a")].find((item) => item.getAttribute("href") === focused)?.focus();
  }
}

/** The other servers of the deployment whose RMs may be missing here. */
function lostMembers(members) {
  const node = section("Members that are missing", el("ul", { class: "problems" }, members.map((one) => el("li", {}, ...findingParts(one)))));
  node.querySelector("h2").prepend(icon("rms"));
  return node;
}

function shown(rm) {
  const holds = rm.partitions.flatMap((name) => (state.partitions.get(name)?.holds || []).map((hold) => `${name}: ${hold}`));
  const node = section(rm.id,
    el("p", { class: "summary" }, rm.connected ? "since " : "lost since ", when(rm.since), rm.connected ? "" : `, ${span(now() - rm.since)} ago`,
      ` · registration ${rm.session} at `, when(rm.registered), rm.version ? ` · version ${rm.version}` : ""),
    el("div", { class: "caps" }, CAPS.map(([name, text]) => cap(rm, name, text))),
    facts([
      ["On hold", holds.join("; ")],
      ["Policy group", rm.policyGroup],
      ["Partitions", el("span", { class: "links" }, rm.partitions.map((name) => link(to("applications", [name]), name)))],
      ["Nodes that failed", rm.failedNodes ? count(rm.failedNodes) : ""],
      ["Configuration", link(to("configuration", [rm.id]), `${rm.checksum.slice(0, 12)}…`, { title: rm.checksum })],
      ["Events", link(to("events", [rm.id]), "what happens")],
    ]));
  node.querySelector("h2").append(copyButton(rm.id), el("span", { class: "marks" }, linkMark(rm)));
  return node;
}

/** How much of a bound is taken. */
function cap(rm, name, text) {
  const [value, most] = [rm.counts[name], rm.caps[name]];
  const part = most ? value / most : 0;
  const fill = el("span", { class: "fill" });
  fill.style.left = "0";
  fill.style.width = `${Math.min(1, part) * 100}%`;
  const of = name === "memory" ? (number) => amount("memory", number) : count;
  return el("span", { class: "bar", title: `${percent(part)} of what this RM may have` },
    el("span", { class: "line" }, el("span", { class: "summary", text }), el("span", { class: "numbers", text: `${of(value)} of ${of(most)}` })),
    el("span", { class: part >= NEARLY ? "track full" : "track", "aria-hidden": "true" }, fill));
}
