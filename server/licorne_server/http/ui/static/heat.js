// All nodes in one picture: a square for each, the darker the fuller. Arrow keys go from one to the
// next. The list below has the same in words.

import { get, ofPartition } from "./api.js";
import { choice, el, note, setAttribute, setOptions, setText } from "./dom.js";
import { change, toNode } from "./route.js";
import { state, subscribe } from "./store.js";
import { count, counted, percent } from "./units.js";

const GAP = 1;
const LARGEST = 22;
const SMALLEST = 6;
const STEPS = 5;
const STATES = ["", "drained", "reserved"];

export class HeatMap {
  constructor(partition, by) {
    Object.assign(this, { partition, by, nodes: [], resources: [], at: 0, timer: 0, changed: false });
    this.choice = choice("Colour by", [], "", (name) => this.setBy(name));
    this.canvas = el("canvas", {
      tabindex: 0, role: "img", "aria-describedby": "heat-at",
      onkeydown: (event) => this.onKey(event), onclick: () => this.open(),
      onmousemove: (event) => this.onMove(event), onfocus: () => this.draw(), onblur: () => this.draw(),
    });
    this.said = el("output", { id: "heat-at", class: "said", "aria-live": "polite" });
    this.counts = el("p", { class: "summary" });
    this.legend = el("p", { class: "legend" });
    this.holder = el("div", { class: "heat" }, this.canvas);
    this.node = el("div", {}, el("div", { class: "tools" }, this.choice, this.counts), this.holder, this.said, this.legend);
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.holder);
    this.dark = matchMedia("(prefers-color-scheme: dark)");
    this.redraw = () => this.draw();
    this.dark.addEventListener("change", this.redraw);
    addEventListener("themechange", this.redraw);
    this.stop = subscribe((changes) => this.hear(changes));
    this.load();
  }

  close() {
    this.stop();
    this.sizes.disconnect();
    this.dark.removeEventListener("change", this.redraw);
    removeEventListener("themechange", this.redraw);
    clearTimeout(this.timer);
    this.closed = true;
  }

  hear({ partitions, link }) {
    if (partitions.has(this.partition) || (link && state.link.state === "live")) this.changed = true;
    if (this.changed && !this.timer && !this.loading) this.load();
  }

  async load() {
    this.loading = true;
    this.changed = false;
    let refresh = 5000;
    try {
      const answer = await get(ofPartition(this.partition, "heat"));
      if (this.closed) return;
      refresh = answer.refresh;
      this.show(answer);
    } catch (error) {
      setText(this.counts, error.message);
    }
    this.loading = false;
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.changed && !document.hidden && !this.closed) this.load();
    }, refresh);
  }

  show({ resources, nodes }) {
    this.nodes = nodes;
    this.resources = resources;
    if (!resources.includes(this.by)) this.by = resources[0] || "";
    setOptions(this.choice.querySelector("select"), resources.map((name) => [name, name]), this.by);
    this.at = Math.min(this.at, Math.max(0, nodes.length - 1));
    const drained = nodes.filter(([, mark]) => mark === 1).length;
    const reserved = nodes.filter(([, mark]) => mark === 2).length;
    const place = resources.indexOf(this.by) + 2;
    const known = nodes.filter((node) => node[place] >= 0);
    const mean = known.reduce((sum, node) => sum + node[place], 0) / (known.length || 1) / 1000;
    const text = [counted(nodes.length, "node"), `${this.by} ${percent(mean)} used on average`, drained && `${count(drained)} drained`, reserved && `${count(reserved)} reserved`];
    setText(this.counts, nodes.length ? text.filter(Boolean).join(" · ") : "There are no nodes.");
    setAttribute(this.canvas, "aria-label", `Heat map of ${text.filter(Boolean).join(", ")}. Arrow keys go from node to node, Enter opens one.`);
    this.draw();
    this.say();
  }

  setBy(name) {
    this.by = name;
    change({ by: name });
    this.show(this);
  }

  /** The size of a square: all nodes are to fit without much scrolling. */
  measure() {
    const width = this.holder.clientWidth || 300;
    const room = width * 360;
    const side = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(Math.sqrt(room / Math.max(1, this.nodes.length)))));
    const columns = Math.max(1, Math.floor(width / side));
    return { width, side, columns, rows: Math.ceil(this.nodes.length / columns) };
  }

  draw() {
    const { width, side, columns, rows } = this.measure();
    const ratio = devicePixelRatio || 1;
    const height = Math.max(1, rows) * side;
    Object.assign(this.canvas, { width: width * ratio, height: height * ratio });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.columns = columns;
    this.side = side;
    const colours = this.colours();
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const place = this.resources.indexOf(this.by) + 2;
    this.nodes.forEach((node, at) => {
      const [x, y] = [(at % columns) * side, Math.floor(at / columns) * side];
      drawCell(pen, { x, y, side: side - GAP, value: node[place], mark: node[1], colours });
    });
    if (document.activeElement === this.canvas && this.nodes.length) {
      pen.strokeStyle = colours.focus;
      pen.lineWidth = 2;
      pen.strokeRect((this.at % columns) * side, Math.floor(this.at / columns) * side, side - GAP, side - GAP);
    }
    this.drawLegend();
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
    const found = { steps, none: of("--line"), mark: of("--heat-mark"), focus: of("--accent") };
    probe.remove();
    return found;
  }

  drawLegend() {
    if (this.legend.childElementCount) return;
    const names = ["0–20 %", "20–40 %", "40–60 %", "60–80 %", "80–100 %"];
    this.legend.append(...names.map((name, at) => el("span", {}, el("span", { class: `sample heat-${at}`, "aria-hidden": "true" }), name)),
      el("span", {}, el("span", { class: "sample drained", "aria-hidden": "true" }), "crossed: drained"),
      el("span", {}, el("span", { class: "sample reserved", "aria-hidden": "true" }), "dot: reserved"));
  }

  say() {
    const node = this.nodes[this.at];
    if (node === undefined) return setText(this.said, "");
    const usage = this.resources.map((name, at) => `${name} ${node[at + 2] < 0 ? "–" : percent(node[at + 2] / 1000)}`);
    return setText(this.said, [node[0], STATES[node[1]], ...usage].filter(Boolean).join(" · "));
  }

  onMove(event) {
    const at = Math.floor(event.offsetY / this.side) * this.columns + Math.floor(event.offsetX / this.side);
    if (at < this.nodes.length && at !== this.at) {
      this.at = at;
      this.say();
    }
  }

  onKey(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns, Home: -this.nodes.length, End: this.nodes.length };
    if (event.key === "Enter") this.open();
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.at = Math.max(0, Math.min(this.nodes.length - 1, this.at + step));
    this.draw();
    this.say();
  }

  open() {
    const node = this.nodes[this.at];
    if (node !== undefined) location.hash = toNode(this.partition, node[0]);
  }
}

function drawCell(pen, { x, y, side, value, mark, colours }) {
  pen.fillStyle = value < 0 ? colours.none : colours.steps[Math.min(STEPS - 1, Math.floor((value * STEPS) / 1000))];
  pen.fillRect(x, y, side, side);
  if (mark === 1) {
    pen.strokeStyle = colours.mark;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, y + side);
    pen.lineTo(x + side, y);
    pen.moveTo(x, y);
    pen.lineTo(x + side, y + side);
    pen.stroke();
  } else if (mark === 2) {
    pen.fillStyle = colours.mark;
    pen.beginPath();
    pen.arc(x + side / 2, y + side / 2, Math.max(1.5, side / 6), 0, 7);
    pen.fill();
  }
}
