// The queues of one partition as a tree that is live: a row is drawn anew when its queue changes.

import { Bar, figures, words } from "./bar.js";
import { badge, el, link, place, setAttribute, setText } from "./dom.js";
import { above, isWaiting, lastName, marks, scaleOf } from "./queues.js";
import { toQueue } from "./route.js";
import { Spark } from "./spark.js";
import { state } from "./store.js";
import { amount, count, percent } from "./units.js";

// Trees with more queues begin with the upper levels alone.
const SMALL = 60;
const MAX_ROWS = 1500;

export class Tree {
  /** `columns` gives the resources that have a bar. */
  constructor(partition, columns) {
    this.partition = partition;
    this.columns = columns;
    this.rows = new Map();
    this.shown = [];
    this.filter = { text: "", waiting: false };
    this.closed = new Set();
    this.opened = new Set();
    this.all = null;
    this.sparks = { resource: "", queues: {} };
    this.current = "root";
    this.more = el("p", { class: "note", hidden: true });
    this.body = el("div", {
      role: "tree", "aria-label": `Queues of ${partition}`,
      onkeydown: (event) => this.onKey(event), onclick: (event) => this.onClick(event),
      onfocusin: (event) => this.onFocus(event),
    });
    this.head = el("div", { class: "row head", "aria-hidden": "true" });
    this.node = el("div", { class: "tree" }, this.head, this.body, this.more);
    this.arrange();
  }

  get queues() {
    return state.queues.get(this.partition) || new Map();
  }

  isOpen(path) {
    if (this.filter.text || this.filter.waiting) return true;
    if (this.opened.has(path)) return true;
    if (this.closed.has(path)) return false;
    if (this.all !== null) return this.all;
    return this.queues.size <= SMALL || above(path).length < 1;
  }

  /** Opens or closes all queues. */
  setAll(open) {
    this.all = open;
    this.opened.clear();
    this.closed.clear();
    this.arrange();
  }

  setFilter(filter) {
    Object.assign(this.filter, filter);
    this.arrange();
  }

  setColumns(columns) {
    this.columns = columns;
    for (const row of this.rows.values()) row.fresh = false;
    this.arrange();
  }

  /** Shows the last hour of each queue, of one resource. */
  setSparks(resource, queues) {
    this.sparks = { resource, queues };
    this.node.classList.toggle("timed", Object.keys(queues).length > 0);
    for (const [path, row] of this.rows) row.showSpark(resource, queues[path]);
  }

  /** Takes note of what has changed; `paths` are those of queues. */
  update(paths) {
    const structure = [...paths].some((path) => this.queues.has(path) !== this.known.has(path));
    if (structure || this.filter.waiting) {
      this.arrange();
      return;
    }
    // The maximum of a queue measures the bars of those below it as well.
    if ([...paths].some((path) => this.hasOtherMax(path))) this.setColumns(this.columns);
    else for (const path of paths) this.draw(path);
  }

  hasOtherMax(path) {
    const before = this.rows.get(path)?.queue;
    return Boolean(before) && JSON.stringify(before.max) !== JSON.stringify(this.queues.get(path)?.max);
  }

  /** Finds out which rows there are, in which order. */
  arrange() {
    const children = new Map();
    for (const queue of this.queues.values()) {
      if (!children.has(queue.parent)) children.set(queue.parent, []);
      children.get(queue.parent).push(queue.path);
    }
    for (const list of children.values()) list.sort();
    this.children = children;
    const names = this.columns.map((name) => el("span", { text: name }));
    this.head.replaceChildren(el("span", { text: "Queue" }), el("span", { class: "bars" }, names),
      el("span", { class: "last", text: "Last hour" }),
      el("span", { class: "number apps", text: "Applications" }), el("span", { class: "number share", text: "Fair share" }));
    this.known = new Set(this.queues.keys());
    const wanted = this.wanted();
    this.shown = [];
    this.walk("", wanted);
    const kept = this.shown.slice(0, MAX_ROWS);
    const left = this.shown.length - kept.length;
    this.more.hidden = !left;
    setText(this.more, `${count(left)} more queues are not shown: look for a part of their names, or close some.`);
    this.shown = kept;
    const stays = new Set(kept);
    for (const path of [...this.rows.keys()]) if (!stays.has(path)) this.rows.delete(path);
    place(this.body, kept.map((path) => this.rowOf(path).node));
    if (!stays.has(this.current)) this.current = kept[0];
    for (const path of kept) this.draw(path, true);
    this.setStop();
  }

  /** The queues that fit the filter, with all above them; null for all. */
  wanted() {
    const { text, waiting } = this.filter;
    if (!text && !waiting) return null;
    const found = new Set();
    for (const queue of this.queues.values()) {
      if ((!text || queue.path.includes(text)) && (!waiting || isWaiting(queue))) {
        found.add(queue.path);
        for (const path of above(queue.path)) found.add(path);
      }
    }
    return found;
  }

  walk(parent, wanted) {
    for (const path of this.children.get(parent) || []) {
      if (wanted !== null && !wanted.has(path)) continue;
      this.shown.push(path);
      if (this.children.has(path) && this.isOpen(path)) this.walk(path, wanted);
    }
  }

  rowOf(path) {
    let row = this.rows.get(path);
    if (row === undefined) {
      row = new Row(this.partition, path);
      row.showSpark(this.sparks.resource, this.sparks.queues[path]);
      this.rows.set(path, row);
    }
    return row;
  }

  draw(path, lazily = false) {
    const queue = this.queues.get(path);
    const row = this.rows.get(path);
    if (queue === undefined || row === undefined) return;
    const has = this.children.has(path);
    const open = has && this.isOpen(path);
    setAttribute(row.node, "aria-expanded", has ? String(open) : null);
    if (lazily && row.fresh && row.queue === queue) return;
    row.show(queue, this.columns);
  }

  setStop() {
    for (const [path, row] of this.rows) row.node.tabIndex = path === this.current ? 0 : -1;
  }

  moveTo(path) {
    if (path === undefined || !this.rows.has(path)) return;
    this.current = path;
    this.setStop();
    this.rows.get(path).node.focus();
  }

  toggle(path, open = !this.isOpen(path)) {
    if (!this.children.has(path)) return;
    this.opened.delete(path);
    this.closed.delete(path);
    (open ? this.opened : this.closed).add(path);
    this.arrange();
  }

  onClick(event) {
    const row = event.target.closest("[role=treeitem]");
    if (row === null || event.target.closest("a")) return;
    this.current = row.dataset.path;
    this.setStop();
    this.toggle(row.dataset.path);
  }

  /** Where the focus goes by j and k the keys of the tree go on. */
  onFocus(event) {
    const path = event.target.closest("[role=treeitem]")?.dataset.path;
    if (path === undefined || path === this.current) return;
    this.current = path;
    this.setStop();
  }

  onKey(event) {
    const path = event.target.closest("[role=treeitem]")?.dataset.path;
    if (path === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    const at = this.shown.indexOf(path);
    const has = this.children.has(path);
    const open = has && this.isOpen(path);
    const actions = {
      ArrowDown: () => this.moveTo(this.shown[at + 1]),
      ArrowUp: () => this.moveTo(this.shown[at - 1]),
      Home: () => this.moveTo(this.shown[0]),
      End: () => this.moveTo(this.shown.at(-1)),
      ArrowRight: () => (has && !open ? this.toggle(path, true) : open && this.moveTo(this.shown[at + 1])),
      ArrowLeft: () => (open ? this.toggle(path, false) : this.moveTo(this.queues.get(path)?.parent)),
      Enter: () => { location.hash = toQueue(this.partition, path); },
      " ": () => this.toggle(path),
    };
    const action = actions[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
    this.rows.get(this.current)?.node.focus();
  }
}

/** One queue of a tree. */
class Row {
  constructor(partition, path) {
    this.partition = partition;
    this.fresh = false;
    this.queue = null;
    this.bars = [];
    this.marks = el("span", { class: "marks" });
    this.cells = el("span", { class: "bars" });
    this.last = el("span", { class: "last" });
    this.apps = el("span", { class: "number apps", title: "applications that run, of all that are in the queue" });
    this.share = el("span", { class: "number share", title: "how much it has of its fair share: the queue with the least comes first" });
    const name = link(toQueue(partition, path), path === "root" ? "root" : lastName(path), { tabindex: -1, class: "name" });
    this.node = el("div", { role: "treeitem", class: "row", tabindex: -1, "data-path": path, "aria-level": above(path).length + 1 },
      el("span", { class: "title" }, el("span", { class: "twist", "aria-hidden": "true" }), name, this.marks),
      this.cells, this.last, this.apps, this.share);
    this.node.style.setProperty("--depth", above(path).length);
  }

  show(queue, columns) {
    this.queue = queue;
    this.fresh = true;
    while (this.bars.length < columns.length) this.bars.push(new Bar());
    this.bars.length = columns.length;
    place(this.cells, this.bars.map((bar) => bar.node));
    const shown = columns.map((name) => figures(name, queue, scaleOf(this.partition, queue, name)));
    shown.forEach((of, at) => this.bars[at].show(of));
    const said = marks(queue);
    const key = said.join("|");
    if (this.said !== key) {
      this.said = key;
      this.marks.replaceChildren(...said.map(([text, tone]) => badge(text, tone)));
    }
    const running = queue.running ? `${count(queue.running)} running` : "";
    setText(this.apps, queue.leaf ? `${count(queue.running)} of ${count(queue.applications)} run` : running);
    setText(this.share, queue.parent ? percent(queue.share) : "");
    const share = queue.parent ? [`fair share ${percent(queue.share)}`] : [];
    const label = [queue.path, ...said.map(([text]) => text), ...shown.map(words), ...share].join(", ");
    setAttribute(this.node, "aria-label", label);
  }

  showSpark(resource, values) {
    if (values === undefined) return this.last.replaceChildren();
    if (!this.spark) this.spark = new Spark();
    const most = Math.max(0, ...values.used.map((value) => value ?? 0));
    this.spark.show(values.used, values.waiting, `${resource} in use over the last hour: at most ${amount(resource, most)}`);
    return place(this.last, [this.spark.node]);
  }
}
