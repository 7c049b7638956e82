// Cards of the overview: how much there is and how much is used, and why everything waits.

import { Bar } from "./bar.js";
import { codeInWords, listedAs } from "./codes.js";
import { el, link, note, place, section, setText } from "./dom.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { to, toQueue } from "./route.js";
import { active } from "./shell.js";
import { Spark } from "./spark.js";
import { stacked, swatch } from "./stacked.js";
import { partitions, state } from "./store.js";
import { amount, count, counted, time } from "./units.js";

const MAX_REASONS = 6;

/** A section with an icon. */
export function card(name, mark, ...children) {
  const node = section(name, ...children);
  node.querySelector("h2").prepend(icon(mark));
  return node;
}

const summed = (all, of) => all.reduce((total, one) => total + of(one), 0);

/** How many asks wait in all partitions. */
export const waitingAsks = () => summed(partitions(), ({ pendingAsks }) => pendingAsks);

/** Sums over all partitions, with the last hour of their roots. */
export class Totals {
  constructor() {
    this.figures = el("dl", { class: "figures" });
    this.rows = el("div", { class: "totals" });
    this.bars = new Map();
    this.sparks = new Map();
    this.node = card("Now, in all partitions", "gauge", this.figures, this.rows);
  }

  update() {
    const all = partitions();
    const sum = (of) => summed(all, of);
    const one = ([name, value, href, more]) => el("div", {}, el("dt", { text: name }), el("dd", {}, href ? link(href, count(value)) : count(value), more ? el("small", { text: ` ${more}` }) : null));
    place(this.figures, [
      ["Asks waiting", waitingAsks()],
      ["Allocations", sum(({ allocations }) => allocations)],
      ["Applications", sum(active), "", `${count(sum(({ applications }) => applications.Running ?? 0))} running`],
      ["Nodes", sum(({ nodes }) => nodes)],
    ].map(one));
    const names = ["vcore", "memory"].filter((name) => all.some(({ capacity }) => name in capacity));
    place(this.rows, names.map((name) => this.row(name, all)));
  }

  row(name, all) {
    if (!this.bars.has(name)) {
      const bar = new Bar();
      this.bars.set(name, { bar, spark: new Spark(), node: el("div", { class: "total" }, bar.node) });
    }
    const of = (kind) => (partition) => Number(partition[kind][name] ?? 0);
    const sum = (kind) => all.reduce((total, partition) => total + of(kind)(partition), 0);
    const pending = all.reduce((total, partition) => total + Number(state.queues.get(partition.name)?.get("root")?.pending[name] ?? 0), 0);
    const max = sum("capacity");
    const { bar, node } = this.bars.get(name);
    bar.show({ name, used: sum("allocated"), guaranteed: 0, max, pending, scale: max });
    return node;
  }

  /** Takes the last hour of one partition's root; `resource` is what was asked for. */
  takeSparks(partition, resource, root) {
    this.sparks.set(partition, root);
    const all = [...this.sparks.values()];
    const add = (kind) => root[kind].map((_, at) => all.reduce((sum, one) => (one[kind][at] === null ? sum : (sum ?? 0) + one[kind][at]), null));
    const shown = this.bars.get(resource);
    if (shown === undefined) return;
    if (!shown.spark.node.isConnected) shown.node.append(shown.spark.node);
    const used = add("used");
    shown.spark.show(used, add("waiting"), `${resource} in use over the last hour, at most ${amount(resource, Math.max(0, ...used.map((value) => value ?? 0)))}`);
  }
}

/** Why asks wait: how many by the first check that stops them. A path that is not there leaves it out. */
export class Reasons {
  /** `waiting` tells how many asks wait now, of those that `query` picks. */
  constructor(query, waiting = () => null) {
    Object.assign(this, { query, waiting, said: el("p", { class: "summary" }) });
    this.holder = el("div", {}, note("Counting …"));
    this.node = card("Why everything waits", "waits", this.holder);
    this.node.classList.add("broad");
    this.polled = new Polled({
      path: "ui/api/reasons", query, partition: query.partition || "",
      show: (answer) => this.show(answer), failed: () => { this.node.hidden = true; },
    });
  }

  close() {
    this.polled.close();
  }

  /** Says of what moment the sums are where others on the screen are newer; `waiting` is how many wait now. */
  update(waiting) {
    const { asks, never, time: moment } = this.sums ?? {};
    const apart = never ? `, ${count(never)} of which can never start` : "";
    if (asks) setText(this.said, waiting === null || asks === waiting ? `${counted(asks, "ask")}${apart}, by the first check that stops each` : `${counted(asks, "ask")} at ${time(moment)}${apart}, by the first check that stopped each; ${count(waiting)} now`);
  }

  show({ reasons = [], asks = 0, time: moment = 0, missingMembers = [] }) {
    this.node.hidden = false;
    this.sums = { asks, never: reasons.find(({ code }) => code === "NEVER_FITS")?.asks, time: moment };
    if (!asks) return place(this.holder, [el("p", { class: "done-well" }, icon("done"), "Nothing waits.")]);
    const shown = reasons.slice(0, MAX_REASONS);
    const left = reasons.length - shown.length;
    place(this.holder, [
      this.said,
      stacked(reasons.map((reason) => ({ label: `${count(reason.asks)}: ${codeInWords(reason.code)}`, value: reason.asks }))),
      el("ul", { class: "reasons" }, shown.map((reason, at) => this.line(reason, at))),
      left > 0 ? note(`and ${counted(left, "other reason")}`) : null,
      missingMembers.length ? note(`Not counted: asks of ${missingMembers.join(", ")}.`) : null,
    ].filter(Boolean));
    this.update(this.waiting());
    return undefined;
  }

  line({ code, asks, queues, firstQueues = [], causes = [] }, at) {
    const partition = this.query.partition || firstQueues[0]?.partition || state.partition;
    const href = to("applications", [partition], { reason: listedAs(code), queue: this.query.queue });
    const where = firstQueues.slice(0, 2).map((first, own) => [own ? ", " : "", link(toQueue(first.partition, first.queue), first.queue),
      first.subject && first.subject !== first.queue ? ` (${first.subject})` : ""]).flat();
    const why = causes.slice(0, 4).map(({ cause, asks: some }) => (code === "NEVER_FITS" ? cause : `${count(some)} ${cause}`)).join(", ");
    return el("li", {}, swatch(at), el("span", { class: "asks", text: count(asks) }),
      el("span", {}, link(href, codeInWords(code), { title: `Applications that wait for this in ${partition}` }), " ", el("code", { text: code })),
      el("span", { class: "more" }, queues > 1 ? `in ${counted(queues, "queue")}, first ` : "in ", ...where, why ? `: ${why}` : ""));
  }
}
