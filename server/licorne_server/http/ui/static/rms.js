// Resource managers (RMs): connected or lost, what holds them, how much they have.

import { badge, el, facts, link, place, section } from "./dom.js";
import { to } from "./route.js";
import { now, state } from "./store.js";
import { amount, count, counted, span, time } from "./units.js";

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
    this.node = el("div", { class: "stack" });
    this.update({ rms: new Set(["all"]), partitions: new Set() });
  }

  update({ rms, partitions }) {
    if (!rms.size && !partitions.size) return;
    const all = [...state.rms.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    if (document.activeElement && this.node.contains(document.activeElement)) this.focused = document.activeElement.getAttribute("href");
    place(this.node, all.map(shown));
    if (this.focused) [...this.node.querySelectorAll("a")].find((item) => item.getAttribute("href") === this.focused)?.focus();
    this.focused = null;
  }
}

function shown(rm) {
  const ofCap = (name) => `${count(rm.counts[name])} of ${count(rm.caps[name])}`;
  const holds = rm.partitions.flatMap((name) => (state.partitions.get(name)?.holds || []).map((hold) => `${name}: ${hold}`));
  const node = section(rm.id,
    facts([
      ["Connection", rm.connected ? `connected since ${time(rm.since)}` : `lost since ${time(rm.since)}, ${span(now() - rm.since)} ago`],
      ["On hold", holds.join("; ")],
      ["Registered", `${time(rm.registered)}, registration ${rm.session}`],
      ["Version", rm.version || "not told"],
      ["Policy group", rm.policyGroup],
      ["Partitions", el("span", { class: "links" }, rm.partitions.map((name) => link(to("applications", [name]), name)))],
      ["Nodes", ofCap("nodes")],
      ["Queues", ofCap("queues")],
      ["Applications", ofCap("applications")],
      ["Asks and allocations", ofCap("asks")],
      ["Memory", amount("memory", rm.counts.memory)],
      ["Nodes that failed", rm.failedNodes ? count(rm.failedNodes) : ""],
      ["Configuration", link(to("configuration", [rm.id]), `${rm.checksum.slice(0, 12)}…`)],
      ["Events", link(to("events", [rm.id]), "what happens")],
    ]));
  node.querySelector("h2").append(el("span", { class: "marks" }, linkMark(rm)));
  return node;
}
