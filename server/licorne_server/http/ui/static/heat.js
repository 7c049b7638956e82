// All nodes in one picture: a square for each, the fuller the stronger, by rack, zone or whatever most
// nodes have. Arrow keys go from one to the next. The list below has the same in words.

import { ofPartition } from "./api.js";
import { choice, el, setAttribute, setOptions, setText } from "./dom.js";
import { beside, cellAt, laidOut, ordered } from "./heatlayout.js";
import { Polled } from "./polled.js";
import { change, toNode } from "./route.js";
import { count, counted, percent } from "./units.js";

const STEPS = 5;
const STATES = ["", "cordoned", "reserved"];
const ORDERS = [["fill", "fullest first"], ["name", "by name"]];
const NAMES = ["0–20 %", "20–40 %", "40–60 %", "60–80 %", "80–100 %"];

export class HeatMap {
  /** `query` has by (a resource), group (an attribute) and order (fill or name). */
  constructor(partition, { by = "", group = "", order = "fill" }) {
    Object.assign(this, { partition, by, group, order, nodes: [], resources: [], groups: [], at: 0 });
    this.selects = {
      by: choice("Colour by", [], "", (value) => this.set({ by: value })),
      group: choice("Group by", [], "", (value) => this.set({ group: value })),
      order: choice("Order", ORDERS, order, (value) => this.set({ order: value })),
    };
    this.canvas = el("canvas", {
      tabindex: 0, role: "img", "aria-label": "Heat map of the nodes", "aria-describedby": "heat-at",
      onkeydown: (event) => this.onKey(event), onclick: () => this.open(),
      onmousemove: (event) => this.onMove(event), onfocus: () => this.draw(), onblur: () => this.draw(),
    });
    this.said = el("output", { id: "heat-at", class: "said", "aria-live": "polite" });
    this.selects.group.hidden = true;
    this.counts = el("p", { class: "summary", text: "Loading …" });
    this.holder = el("div", { class: "heat" }, this.canvas);
    this.node = el("div", {}, el("div", { class: "tools" }, ...Object.values(this.selects)), this.counts, this.holder, this.said, legend());
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.holder);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.dark.addEventListener("change", this.redraw);
    addEventListener("themechange", this.redraw);
    this.polled = new Polled({
      partition, path: ofPartition(partition, "heat"), query: { by: group },
      show: (answer) => this.show(answer), failed: (error) => setText(this.counts, error.message),
    });
  }

  close() {
    this.polled.close();
    this.sizes.disconnect();
    this.dark.removeEventListener("change", this.redraw);
    removeEventListener("themechange", this.redraw);
  }

  set(choices) {
    Object.assign(this, choices);
    change(choices);
    if ("group" in choices) this.polled.ask({ by: this.group });
    else this.show(this.answer);
  }

  show(answer) {
    const chosen = this.nodes[this.at]?.[0];
    const { resources, nodes, groups = [], attributes = [] } = answer;
    Object.assign(this, { answer, resources, groups });
    if (!resources.includes(this.by)) this.by = resources[0] || "";
    this.place = resources.indexOf(this.by) + 2;
    this.grouped = groups.length ? resources.length + 2 : null;
    this.nodes = ordered(nodes, { place: this.place, group: this.grouped, groups, byFill: this.order !== "name" });
    this.at = Math.max(0, this.nodes.findIndex(([id]) => id === chosen));
    setOptions(this.selects.by.querySelector("select"), resources.map((name) => [name, name]), this.by);
    setOptions(this.selects.group.querySelector("select"), [["", "nothing"], ...attributes.map((name) => [name, name])], this.group);
    this.selects.group.hidden = !attributes.length;
    this.count();
    this.draw();
    this.say();
  }

  count() {
    const { nodes } = this;
    const known = nodes.filter((node) => node[this.place] >= 0);
    const mean = known.reduce((sum, node) => sum + node[this.place], 0) / (known.length || 1) / 1000;
    const marked = (mark) => nodes.filter((node) => node[1] === mark).length;
    const [cordoned, reserved] = [marked(1), marked(2)];
    const text = [counted(nodes.length, "node"), `${this.by} ${percent(mean)} used on average`, cordoned && `${count(cordoned)} cordoned`, reserved && `${count(reserved)} reserved`];
    setText(this.counts, nodes.length ? text.filter(Boolean).join(" · ") : "There are no nodes.");
    setAttribute(this.canvas, "aria-label", `Heat map of ${text.filter(Boolean).join(", ")}. Arrow keys go from node to node, Enter opens one.`);
  }

  draw() {
    const width = this.holder.clientWidth || 300;
    this.layout = laidOut(this.nodes, this.grouped ?? null, width);
    const { size, height, cells, heads } = this.layout;
    const ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    const colours = this.colours();
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = `600 11px ${getComputedStyle(this.node).fontFamily}`;
    pen.fillStyle = colours.text;
    for (const head of heads) {
      const name = this.groups[this.nodes[head.at][this.grouped]] || "none";
      pen.fillText(`${name} · ${count(head.count)}`, head.x, head.y, head.width + 12);
    }
    this.nodes.forEach((node, at) => drawCell(pen, { at: cells[at], size, value: node[this.place], mark: node[1], colours }));
    if (document.activeElement === this.canvas && this.nodes.length) {
      pen.strokeStyle = colours.focus;
      pen.lineWidth = 2;
      pen.strokeRect(...cells[this.at], size, size);
    }
  }

  /** The colours that are in force, as a canvas takes them. */
  colours() {
    const probe = el("span");
    this.node.append(probe);
    const of = (name) => {
      probe.style.color = `var(${name})`;
      return getComputedStyle(probe).color;
    };
    const steps = Array.from({ length: STEPS }, (_, at) => of(`--heat-${at}`));
    const found = { steps, none: of("--line"), mark: of("--heat-mark"), focus: of("--ink"), text: of("--muted") };
    probe.remove();
    return found;
  }

  say() {
    const node = this.nodes[this.at];
    if (node === undefined) return setText(this.said, "");
    const usage = this.resources.map((name, at) => `${name} ${node[at + 2] < 0 ? "–" : percent(node[at + 2] / 1000)}`);
    return setText(this.said, [node[0], STATES[node[1]], ...usage, this.grouped && this.groups[node[this.grouped]]].filter(Boolean).join(" · "));
  }

  onMove(event) {
    const at = cellAt(this.layout, event.offsetX, event.offsetY);
    if (at < 0 || at === this.at) return;
    this.at = at;
    this.say();
  }

  onKey(event) {
    if (event.key === "Enter") this.open();
    const last = this.nodes.length - 1;
    const to = {
      ArrowRight: () => this.at + 1, ArrowLeft: () => this.at - 1, Home: () => 0, End: () => last,
      ArrowDown: () => beside(this.layout, this.at, true), ArrowUp: () => beside(this.layout, this.at, false),
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.at = Math.max(0, Math.min(last, to()));
    this.draw();
    this.say();
  }

  open() {
    const node = this.nodes[this.at];
    if (node !== undefined) location.hash = toNode(this.partition, node[0]);
  }
}

function legend() {
  const sample = (kind, text) => el("span", {}, el("span", { class: `sample ${kind}`, "aria-hidden": "true" }), text);
  return el("p", { class: "legend" }, NAMES.map((name, at) => sample(`heat-${at}`, name)),
    sample("drained", "crossed: cordoned"), sample("reserved", "dot: reserved"));
}

function drawCell(pen, { at: [x, y], size, value, mark, colours }) {
  pen.fillStyle = value < 0 ? colours.none : colours.steps[Math.min(STEPS - 1, Math.floor((value * STEPS) / 1000))];
  pen.beginPath();
  pen.roundRect(x, y, size, size, size > 12 ? 3 : 1);
  pen.fill();
  if (mark === 1) {
    pen.strokeStyle = colours.mark;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, y + size);
    pen.lineTo(x + size, y);
    pen.moveTo(x, y);
    pen.lineTo(x + size, y + size);
    pen.stroke();
  } else if (mark === 2) {
    pen.fillStyle = colours.mark;
    pen.beginPath();
    pen.arc(x + size / 2, y + size / 2, Math.max(1.5, size / 6), 0, 7);
    pen.fill();
  }
}
