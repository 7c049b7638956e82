// Tables whose columns sort, and lists that come from the server in pages.
//
// A column is { name, cell, number, wide, sort, value, kind }: `cell` makes a node or a text of a row,
// numbers stand on the right, `wide` columns are left out on narrow screens, and "wider" ones first. On a
// telephone rows are cards.
// `sort` is the name by which the server orders a list; `value` gives what a table here is ordered by.
// `kind` is "bare" for a cell that needs no name on a card, "sentence" for one that needs a line.

import { get } from "./api.js";
import { button, el, note, place, setText } from "./dom.js";
import { icon } from "./icons.js";
import { change, parse } from "./route.js";
import { state, subscribe } from "./store.js";
import { count, counted } from "./units.js";

// What picks some of the rows of a list.
const PICKS = ["q", "queue", "user", "group", "status", "waiting", "reason", "attribute"];
// How often a search goes on by itself where the server has looked at many things and found few.
const MAX_ROUNDS = 30;

/** Rows of a page: a list is never much longer than two screens. */
const pageSize = () => (matchMedia("(max-width: 760px)").matches ? 20 : 50);

/**
 * A table of these rows as they are. `order`, if given, is { sort, onsort }: what it is sorted by now,
 * with a minus for the largest first, and who is told of another choice.
 */
export function table(label, columns, rows, order = null) {
  const head = columns.map((column) => heading(column, order));
  const body = el("tbody", { role: "rowgroup" });
  body.append(...rows.map((row) => line(columns, row)));
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    el("table", { role: "table", "aria-label": label },
      el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...head)), body));
}

function heading(column, order) {
  const { name } = column;
  const key = order === null ? "" : keyOf(column);
  if (!key) return el("th", { scope: "col", role: "columnheader", class: classes(column), text: name });
  const down = order.sort === `-${key}`;
  const up = order.sort === key;
  // Of numbers and times the largest is looked for, of names the first.
  const next = up ? `-${key}` : down ? key : column.number ? `-${key}` : key;
  return el("th", { scope: "col", role: "columnheader", class: classes(column), "aria-sort": down ? "descending" : up ? "ascending" : "none" },
    el("button", { type: "button", class: "sort", onclick: () => order.onsort(next), title: `Sort by ${name}` }, name, icon("down")));
}

const keyOf = ({ name, sort, value }) => sort || (value ? name.toLowerCase() : "");

function classes({ number, wide, kind }) {
  return [number && "number", wide === true ? "wide" : wide, kind].filter(Boolean).join(" ") || null;
}

/** A name gives way to other columns: it is cut in its middle, as far as its column allows. Lines end between amounts. */
function inCell(shown) {
  if (shown instanceof Element) return shown.matches(".one") ? el("span", { class: "named" }, shown) : shown;
  const [last, ...before] = String(shown).split(" · ").reverse();
  return before.length ? el("span", { class: "amounts" }, before.reverse().flatMap((one) => [el("span", { text: `${one} ·` }), " "]), el("span", { text: last })) : shown;
}

function line(columns, row) {
  const cells = columns.map((column) => {
    const shown = inCell(column.cell(row) ?? "");
    const none = shown === "–" || shown === "" ? "none" : "";
    return el("td", { role: "cell", class: [classes(column), none].filter(Boolean).join(" ") || null, "data-label": column.name }, shown);
  });
  return el("tr", { role: "row" }, ...cells);
}

/**
 * A table that sorts the rows that it has, and turns pages where they are many. Order and page are kept
 * in the address, as `param` and with "page" behind it, so that they outlive a look at newer rows.
 */
export function sortedTable(label, columns, rows, param = "sort") {
  const holder = el("div", { class: "sorted" });
  const show = (query = {}, focus = "") => {
    change(query);
    const { [param]: sort = "", [`${param}page`]: page = "0" } = parse(location.hash).query;
    const size = pageSize();
    const from = Math.min(Math.max(0, Number(page) || 0), Math.ceil(rows.length / size) - 1) * size;
    const onsort = (next) => show({ [param]: next, [`${param}page`]: "" }, `[aria-sort]:not([aria-sort="none"]) button`);
    place(holder, [table(label, columns, inOrder(columns, rows, sort).slice(from, from + size), { sort, onsort }), pager(from / size)].filter(Boolean));
    if (focus) holder.querySelector(focus)?.focus();
  };
  const pager = (page) => {
    const pages = Math.ceil(rows.length / pageSize());
    if (pages < 2) return null;
    const to = (step, text, disabled) => button(text, () => show({ [`${param}page`]: String(page + step) }, `[data-turn="${step}"]`), { "data-turn": step, disabled });
    return el("div", { class: "pager" }, el("span", { class: "status", text: `page ${count(page + 1)} of ${count(pages)}, ${counted(rows.length, "row")}` }),
      to(-1, "Previous", page === 0), to(1, "Next", page + 1 === pages));
  };
  show();
  return holder;
}

function inOrder(columns, rows, sort) {
  const column = columns.find((item) => item.value && keyOf(item) === sort.replace(/^-/, ""));
  if (column === undefined) return rows;
  const sign = sort.startsWith("-") ? -1 : 1;
  const of = (row) => column.value(row) ?? -Infinity;
  return [...rows].sort((a, b) => sign * (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0));
}

/**
 * A list that comes in pages, in the server's order. `path` and `query` say where from; `by` names the
 * parameter that says where a page begins. `sort` is the order to begin with, if the address, in which
 * `param` is kept, has none. It asks again when its partition has changed, as often as the server says.
 */
export class PagedList {
  constructor({ label, columns, path, query = {}, by = "after", partition, empty, sort = "", param = "sort" }) {
    Object.assign(this, { label, columns, path, query, by, partition, empty, param });
    this.sort = parse(location.hash).query[param] || sort;
    this.places = [""];
    this.next = "";
    this.controller = null;
    this.timer = 0;
    this.changed = false;
    this.status = el("span", { class: "status", role: "status" });
    this.back = button("Previous", () => this.turn(-1), { hidden: true, "data-turn": -1 });
    this.forth = button("Next", () => this.turn(1), { hidden: true, "data-turn": 1 });
    this.holder = el("div", { class: "holder" }, note("Loading …"));
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

  /** Has the server put the list into another order. */
  sortBy(sort) {
    this.sort = sort;
    change({ [this.param]: sort });
    this.focusSort = true;
    this.search({});
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
    // In an order of its own a list has one kind of places, whatever it is numbered by else.
    const by = this.sort ? "after" : this.by;
    const query = { ...this.query, sort: this.sort, limit: pageSize() };
    for (let round = 1; ; round += 1) {
      const answer = await get(this.path, { ...query, [by]: place }, mine.signal);
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

  show({ rows, next, total, looked, found }) {
    this.next = next;
    this.back.disabled = this.places.length < 2;
    this.forth.disabled = !next;
    this.back.hidden = this.forth.hidden = this.back.disabled && this.forth.disabled;
    const focused = this.holder.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    const order = { sort: this.sort, onsort: (sort) => this.sortBy(sort) };
    if (rows.length) place(this.holder, [table(this.label, this.columns, rows, order)]);
    else place(this.holder, [note(next ? `Nothing found among ${count(looked)}. Next goes on.` : this.empty)]);
    if (focused) [...this.holder.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused)?.focus();
    if (this.focusSort) this.holder.querySelector(`[aria-sort]:not([aria-sort="none"]) button`)?.focus();
    this.focusSort = false;
    const page = this.places.length > 1 || next ? `page ${this.places.length}, ` : "";
    setText(this.status, rows.length || total ? `${page}${counted(rows.length, "row")}${this.among(rows.length, total, found)}` : "");
  }

  /** Of how many these rows are. Where something is looked for, the others are not what was wanted. */
  among(rows, total, found) {
    if (found !== undefined && PICKS.some((name) => this.query[name])) return rows === found ? " found" : ` of ${count(found)} found`;
    if (total === undefined || rows === total) return "";
    return PICKS.some((name) => this.query[name]) ? ` found among ${count(total)}` : ` of ${count(total)}`;
  }
}
