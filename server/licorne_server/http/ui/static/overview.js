// All resource managers (RMs) with the trees of their queues, live.

import { ofPartition } from "./api.js";
import { Attention } from "./attention.js";
import { Reasons, Totals, waitingAsks } from "./cards.js";
import { commandLine } from "./copy.js";
import { button, choice, el, link, note, place, searchField, section, setOptions, setText } from "./dom.js";
import { Polled } from "./polled.js";
import { change, to } from "./route.js";
import { partitions, state } from "./store.js";
import { linkMarks, partitionFacts } from "./rms.js";
import { sortedNames } from "./units.js";
import { Tree } from "./tree.js";

// Of so many partitions the last hour is asked for.
const MAX_SPARKS = 16;
// How often, in ms: a point of a sparkline is a minute.
const EVERY = 20000;

export function view(_names, query) {
  return new Overview(query);
}

class Overview {
  constructor(query) {
    this.title = "Overview";
    this.command = commandLine("top");
    this.totals = new Totals();
    this.reasons = new Reasons({}, waitingAsks);
    this.attention = new Attention();
    this.blocks = new Map();
    this.columns = [query.a || "", query.b || ""];
    this.filter = { text: query.q || "", waiting: query.waiting === "1" };
    this.selects = [choice("First bar", [], "", (name) => this.setColumn(0, name)), choice("Second bar", [], "", (name) => this.setColumn(1, name))];
    const waiting = el("input", {
      type: "checkbox", checked: this.filter.waiting,
      onchange: (event) => this.setFilter({ waiting: event.target.checked }),
    });
    this.tools = el("div", { class: "tools" },
      searchField("Filter queues", this.filter.text, (text) => this.setFilter({ text: text.toLowerCase() })),
      el("label", { class: "check" }, waiting, "only where something waits"),
      ...this.selects,
      button("Expand all", () => this.setAll(true)), button("Collapse all", () => this.setAll(false)));
    this.holder = el("div", { class: "stack" });
    this.cards = el("div", { class: "cards" }, this.totals.node, this.reasons.node, this.attention.node);
    this.node = el("div", { class: "stack" }, this.cards, this.tools, legend(), this.holder);
    this.update({ partitions: state.partitions, rms: state.rms, queues: new Map(), findings: new Set() });
  }

  close() {
    for (const part of [this.reasons, this.attention, ...this.blocks.values()]) part.close();
  }

  update({ partitions: changed, rms, queues, findings }) {
    if (changed.size || rms.size) this.arrange();
    if (changed.size || queues.size) this.totals.update();
    if (changed.size) this.reasons.update(waitingAsks());
    if (changed.size || findings.size || [...queues.values()].some((paths) => paths.size)) this.attention.update();
    for (const [partition, paths] of queues) this.blocks.get(partition)?.tree.update(paths);
  }

  arrange() {
    const all = partitions();
    this.arrangeColumns(all);
    for (const [name, block] of [...this.blocks]) {
      if (state.partitions.has(name)) continue;
      block.close();
      this.blocks.delete(name);
    }
    for (const { name } of all) {
      if (!this.blocks.has(name)) this.addBlock(name);
      this.blocks.get(name).show();
    }
    place(this.holder, all.map(({ name }) => this.blocks.get(name).node));
  }

  addBlock(name) {
    const block = new Block(name, this.shownColumns(), this.filter);
    if (this.blocks.size < MAX_SPARKS) block.followSparks((resource, root) => this.totals.takeSparks(name, resource, root));
    this.blocks.set(name, block);
  }

  arrangeColumns(all) {
    const names = sortedNames(new Set(all.flatMap(({ capacity }) => Object.keys(capacity)))).slice(0, 100);
    if (names.join() === this.names?.join()) return;
    this.names = names;
    const [first, second] = this.shownColumns();
    const options = names.map((name) => [name, name]);
    setOptions(this.selects[0].querySelector("select"), options, first);
    setOptions(this.selects[1].querySelector("select"), [["none", "none"], ...options], second || "none");
    for (const block of this.blocks.values()) block.setColumns(this.shownColumns());
  }

  shownColumns() {
    const first = this.columns[0] || this.names?.[0] || "vcore";
    const second = this.columns[1] || this.names?.find((name) => name !== first) || "none";
    return second === "none" ? [first] : [first, second];
  }

  setColumn(at, name) {
    this.columns[at] = name;
    change({ a: this.columns[0], b: this.columns[1] });
    for (const block of this.blocks.values()) block.setColumns(this.shownColumns());
  }

  setFilter(filter) {
    Object.assign(this.filter, filter);
    change({ q: this.filter.text, waiting: this.filter.waiting ? "1" : "" });
    for (const block of this.blocks.values()) block.tree.setFilter(this.filter);
  }

  setAll(open) {
    for (const block of this.blocks.values()) block.tree.setAll(open);
  }
}

/** One partition. */
class Block {
  constructor(name, columns, filter) {
    this.name = name;
    this.tree = new Tree(name, columns);
    if (filter.text || filter.waiting) this.tree.setFilter(filter);
    this.marks = el("span", { class: "marks" });
    this.facts = el("p", { class: "summary" });
    this.cut = note("This partition has more queues than are shown live. The search finds all of them.");
    this.node = section(name, this.facts, this.tree.node, this.cut);
    this.node.classList.add("partition");
    this.node.querySelector("h2").append(el("nav", { class: "links end", "aria-label": `Lists of ${name}` },
      link(to("applications", [name]), "Applications"), link(to("nodes", [name]), "Nodes"),
      link(to("users", [name]), "Users"), link(to("preemptions", [name]), "Preemptions")));
    this.node.querySelector("h2").firstChild.after(this.marks);
  }

  close() {
    this.polled?.close();
  }

  /** The last hour of each queue, of the resource that is shown first. */
  followSparks(hear) {
    this.polled = new Polled({
      partition: this.name, path: ofPartition(this.name, "sparks"), query: { resource: this.tree.columns[0] }, always: true, least: EVERY,
      show: ({ queues }) => {
        this.tree.setSparks(this.polled.query.resource, queues);
        if (queues.root) hear(this.polled.query.resource, queues.root);
      },
    });
  }

  setColumns(columns) {
    this.tree.setColumns(columns);
    if (this.polled && this.polled.query.resource !== columns[0]) this.polled.ask({ resource: columns[0] });
  }

  show() {
    const partition = state.partitions.get(this.name);
    if (partition === undefined) return;
    const marks = linkMarks(partition);
    this.marks.replaceChildren(...marks);
    setText(this.facts, partitionFacts(partition));
    this.cut.hidden = !partition.cut;
  }
}

function legend() {
  const sample = (kind, text) => el("span", {}, el("span", { class: `sample ${kind}`, "aria-hidden": "true" }), text);
  return el("p", { class: "legend legend-line" },
    sample("inside", "used"), sample("above", "used beyond the guarantee"), sample("asked", "waiting"),
    sample("mark", "guaranteed"), sample("full", "at its maximum"),
    el("span", { text: "A bar is as long as the maximum, the queue’s own or that of one above." }));
}
