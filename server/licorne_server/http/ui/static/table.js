// Tables, and lists that come from the server in pages.

import { get } from "./api.js";
import { button, el, note, place, setText } from "./dom.js";
import { state, subscribe } from "./store.js";
import { count, counted } from "./units.js";

// What picks some of the rows of a list.
const PICKS = ["q", "queue", "status", "waiting"];
// How often a search goes on by itself where the server has looked at many things and found few.
const MAX_ROUNDS = 30;

/**
 * A table. A column is { name, cell, number, wide }: `cell` makes a node or a text of a row, numbers
 * stand on the right, and `wide` columns are left out where there is little room.
 */
export function table(label, columns, rows) {
  const head = columns.map((column) => el("th", { scope: "col", role: "columnheader", class: classes(column), text: column.name }));
  const body = el("tbody", { role: "rowgroup" });
  body.append(...rows.map((row) => line(columns, row)));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    el("table", { role: "table", "aria-label": label },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head)), body));
}

function classes({ number, wide }) {
  return [number && "number", wide && "wide"].filter(Boolean).join(" ") || null;
}

function line(columns, row) {
  const cells = columns.map((column) => {
    const shown = column.cell(row);
    return el("td", { role: "cell", class: classes(column), "data-label": column.name }, shown === undefined ? "" : shown);
  });
  return el("tr", { role: "row" }, ...cells);
}

/**
 * A list that comes in pages. `path` and `query` say where from; `by` names the parameter that says
 * where a page begins. It asks again when its partition has changed, as often as the server says.
 */
export class PagedList {
  constructor({ label, columns, path, query = {}, by = "after", partition, empty }) {
    Object.assign(this, { label, columns, path, query, by, partition, empty });
    this.places = [""];
    this.next = "";
    this.controller = null;
    this.timer = 0;
    this.changed = false;
    this.status = el("span", { class: "status", role: "status" });
    this.back = button("Previous", () => this.turn(-1), { disabled: true });
    this.forth = button("Next", () => this.turn(1), { disabled: true });
    this.holder = el("div", { class: "holder" });
    this.node = el("div", { class: "list" }, this.holder, el("div", { class: "pager" }, this.status, this.back, this.forth));
    this.stop = subscribe((changes) => this.hear(changes));
    this.load();
  }

  close() {
    this.stop();
    clearTimeout(this.timer);
    this.controller?.abort();
  }

  /** Looks for something else, from the first page on. */
  search(query) {
    Object.assign(this.query, query);
    this.places = [""];
    this.load();
  }

  turn(step) {
    if (step > 0) this.places.push(this.next);
    else this.places.pop();
    this.load();
  }

  hear({ partitions, link }) {
    if (link && state.link.state === "live" && this.failed) this.load();
    if (partitions.has(this.partition)) this.changed = true;
    if (this.changed && !this.timer && !this.controller) this.load();
  }

  async load() {
    this.controller?.abort();
    clearTimeout(this.timer);
    this.timer = 0;
    const mine = new AbortController();
    this.controller = mine;
    this.changed = false;
    this.holder.setAttribute("aria-busy", "true");
    try {
      const answer = await this.fetch(mine);
      this.failed = false;
      this.show(answer);
      this.wait(answer.refresh);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.failed = true;
      this.holder.replaceChildren(note(error.message, { class: "note bad", role: "alert" }));
      setText(this.status, "");
    } finally {
      if (this.controller === mine) {
        this.controller = null;
        this.holder.removeAttribute("aria-busy");
      }
    }
  }

  /** One page. Where little was found among much, the search goes on behind it. */
  async fetch(mine) {
    let place = this.places.at(-1);
    let looked = 0;
    for (let round = 1; ; round += 1) {
      const answer = await get(this.path, { ...this.query, [this.by]: place }, mine.signal);
      looked += answer.lookedAt;
      if (answer.rows.length || !answer.next || round === MAX_ROUNDS) return { ...answer, looked };
      setText(this.status, `looked at ${count(looked)} …`);
      place = answer.next;
    }
  }

  wait(refresh) {
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.changed && !document.hidden) this.load();
    }, refresh);
  }

  show({ rows, next, total, looked }) {
    this.next = next;
    this.back.disabled = this.places.length < 2;
    this.forth.disabled = !next;
    this.back.hidden = this.forth.hidden = this.back.disabled && this.forth.disabled;
    const focused = this.holder.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    if (rows.length) place(this.holder, [table(this.label, this.columns, rows)]);
    else place(this.holder, [note(next ? `Nothing found among ${count(looked)}. Next goes on.` : this.empty)]);
    if (focused) [...this.holder.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    const page = this.places.length > 1 || next ? `page ${this.places.length}, ` : "";
    setText(this.status, rows.length || total ? `${page}${counted(rows.length, "row")}${this.among(rows.length, total)}` : "");
  }

  /** Of how many these rows are. Where something is looked for, the others are not what was wanted. */
  among(rows, total) {
    if (total === undefined || rows === total) return "";
    return PICKS.some((name) => this.query[name]) ? ` found among ${count(total)}` : ` of ${count(total)}`;
  }
}
