// A chart over time: areas and lines with steps for limits, flags for what happened, a readout under the
// pointer or the arrow keys, and the same figures as a table. SVG of our own.
//
// chart.show({ start, step, series: [{ name, kind, values, area, over, steps }], marks: [{ time, kind, text }] })
// `kind` is the class that gives the colour: used, waiting, guaranteed, max, plain, other. An area is filled
// down to the values `over` which it stands, or to the floor.

import { el, place, setAttribute, setText, svg } from "./dom.js";
import { runs } from "./spark.js";
import { table } from "./table.js";
import { dayAndTime, hourAndMinute, localTime, time } from "./units.js";

const HEIGHT = 220;
const EDGE = { left: 72, right: 12, top: 14, bottom: 22 };
const MAX_MARKS = 200;
const TABLE_ROWS = 25;
// Distances of the lines of time, in ms.
const TICKS = [15e3, 60e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 10800e3, 21600e3];

export class Chart {
  /** `name` says what it shows; `format` makes a text of a value, `kilo` is 1,024 for bytes. */
  constructor(name, format, kilo = 1000) {
    Object.assign(this, { name, format, kilo, data: null, at: -1 });
    this.desc = svg("desc");
    this.drawn = svg("g");
    this.cursor = svg("g");
    this.svg = svg("svg", {
      height: HEIGHT, role: "img", tabindex: 0, "aria-label": name,
      onpointermove: (event) => this.point(event.offsetX), onpointerleave: () => this.choose(-1),
      onkeydown: (event) => this.onKey(event), onblur: () => this.choose(-1),
    }, this.desc, this.drawn, this.cursor);
    this.readout = el("div", { class: "readout", hidden: true, "aria-live": "polite" });
    this.legend = el("p", { class: "legend" });
    this.numbers = el("div");
    this.more = el("details", { ontoggle: () => this.fillTable() }, el("summary", { text: "As a table" }), this.numbers);
    this.frame = el("div", { class: "chart" }, this.svg, this.readout);
    this.node = el("div", {}, this.legend, this.frame, this.more);
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.frame);
  }

  close() {
    this.sizes.disconnect();
  }

  show(data) {
    const { series } = data;
    this.data = { ...data, length: Math.max(0, ...series.map(({ values }) => values.length)) };
    const named = series.map(({ name, kind }) => el("span", {}, el("span", { class: `keyline ${kind}`, "aria-hidden": "true" }), name));
    place(this.legend, named);
    const last = series.map(({ name, values }) => [name, values.findLast((value) => value !== null)]).filter(([, value]) => value !== undefined);
    setText(this.desc, `Now: ${last.map(([name, value]) => `${name} ${this.format(value)}`).join(", ")}. Arrow keys step through it; the table has the figures.`);
    this.draw();
    this.fillTable();
  }

  get width() {
    return Math.max(240, this.frame.clientWidth);
  }

  x(at) {
    return EDGE.left + (at / Math.max(1, this.data.length - 1)) * (this.width - EDGE.left - EDGE.right);
  }

  y(value) {
    return HEIGHT - EDGE.bottom - (value / this.scale) * (HEIGHT - EDGE.top - EDGE.bottom);
  }

  draw() {
    if (this.data === null) return;
    setAttribute(this.svg, "viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const largest = Math.max(1, ...this.data.series.flatMap(({ values }) => values.map((value) => value ?? 0)));
    const step = niceStep(largest / 4, this.kilo);
    this.scale = Math.ceil(largest / step) * step;
    place(this.drawn, [...this.lines(step), ...this.data.series.flatMap((one) => this.curve(one)), ...this.flags()]);
    this.choose(this.at);
  }

  lines(step) {
    const found = [];
    for (let value = 0; value <= this.scale; value += step) {
      const y = this.y(value);
      found.push(svg("line", { class: "grid", x1: EDGE.left, x2: this.width - EDGE.right, y1: y, y2: y }),
        svg("text", { x: EDGE.left - 8, y: y + 4, "text-anchor": "end" }, this.format(value)));
    }
    const { start, step: every, length } = this.data;
    const end = start + every * (length - 1);
    const distance = TICKS.find((size) => (end - start) / size <= this.width / 90) || TICKS.at(-1);
    const text = distance < 60e3 ? time : hourAndMinute;
    for (let ms = Math.ceil(start / distance) * distance; ms <= end; ms += distance) {
      found.push(svg("text", { class: "tick", x: this.x((ms - start) / every), y: HEIGHT - 5, "text-anchor": "middle" }, text(ms), svg("title", {}, `${dayAndTime(ms)} · ${localTime(ms)}`)));
    }
    return found;
  }

  curve({ kind, values, area, over, steps }) {
    return runs(values).flatMap(([from, to]) => {
      const point = (at) => `${this.x(at).toFixed(1)} ${this.y(values[at]).toFixed(1)}`;
      let path = `M${point(from)}`;
      for (let at = from + 1; at < to; at += 1) path += steps ? `H${this.x(at).toFixed(1)}V${this.y(values[at]).toFixed(1)}` : `L${point(at)}`;
      const back = over && over.slice(from, to).map((value, own) => `${this.x(from + own).toFixed(1)} ${this.y(value ?? 0).toFixed(1)}`).reverse();
      const floor = back ? `L${back.join("L")}Z` : `V${this.y(0)}H${this.x(from).toFixed(1)}Z`;
      return [area && svg("path", { class: `${kind}-area`, d: path + floor, stroke: "none" }), svg("path", { class: kind, d: path })].filter(Boolean);
    });
  }

  flags() {
    const { start, step, length, marks = [] } = this.data;
    const shown = marks.filter(({ time: ms }) => ms >= start && ms <= start + step * length).slice(-MAX_MARKS);
    return shown.flatMap(({ time: ms, kind, text }) => {
      const x = this.x((ms - start) / step);
      return [svg("line", { class: "flag", x1: x, x2: x, y1: EDGE.top, y2: HEIGHT - EDGE.bottom }),
        svg("path", { class: `flag-head ${kind}`, d: `M${x} ${EDGE.top - 8}l5 5-5 5-5-5z` }, svg("title", {}, `${time(ms)} ${text}`))];
    });
  }

  point(offset) {
    const share = (offset - EDGE.left) / (this.width - EDGE.left - EDGE.right);
    this.choose(Math.max(0, Math.min(this.data.length - 1, Math.round(share * (this.data.length - 1)))));
  }

  onKey(event) {
    const { length } = this.data;
    const steps = { ArrowRight: 1, ArrowLeft: -1, PageUp: -12, PageDown: 12, Home: -length, End: length };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const from = this.at < 0 ? length - 1 : this.at;
    this.choose(Math.max(0, Math.min(length - 1, from + steps[event.key])));
  }

  /** Shows the figures at a place; none for -1. */
  choose(at) {
    this.at = at;
    this.readout.hidden = at < 0;
    if (at < 0) return place(this.cursor, []);
    const { start, step, series, marks = [] } = this.data;
    const ms = start + at * step;
    const x = this.x(at);
    place(this.cursor, [svg("line", { class: "cursor", x1: x, x2: x, y1: EDGE.top, y2: HEIGHT - EDGE.bottom })]);
    const figures = series.map(({ name, values }) => el("div", {}, el("span", { text: name }), el("span", { text: this.said(values[at]) })));
    const near = marks.filter((mark) => Math.abs(mark.time - ms) <= step * 3).slice(0, 3).map(({ text }) => el("div", { class: "summary", text }));
    place(this.readout, [el("b", { text: dayAndTime(ms) }), el("span", { class: "summary", text: `${localTime(ms)} here` }), ...figures, ...near]);
    const room = this.frame.clientWidth - this.readout.offsetWidth;
    this.readout.style.left = `${Math.max(0, Math.min(room, x < this.width / 2 ? x + 12 : x - this.readout.offsetWidth - 12))}px`;
    return undefined;
  }

  said(value) {
    return value === null || value === undefined ? "–" : this.format(value);
  }

  fillTable() {
    if (!this.more.open || this.data === null) return;
    const { start, step, series, length } = this.data;
    const every = Math.max(1, Math.ceil(length / TABLE_ROWS));
    const rows = [];
    for (let at = length - 1; at >= 0; at -= every) rows.push(at);
    place(this.numbers, [table(this.name, [
      { name: "Time", cell: (at) => time(start + at * step) },
      ...series.map(({ name, values }) => ({ name, number: true, cell: (at) => this.said(values[at]) })),
    ], rows)]);
  }
}

/** The next round step above this one: 1, 2 or 5 of a power of ten, or 1, 2, 4 … of one of 1,024. */
function niceStep(rough, kilo) {
  if (kilo === 1024) return 2 ** Math.ceil(Math.log2(Math.max(1, rough)));
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  return [1, 2, 5, 10].find((size) => size * power >= rough) * power;
}
