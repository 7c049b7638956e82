// The search: hits while one types, walked with arrow keys, and a view of all that is found.

import { get } from "./api.js";
import { el, link, nameText, note, place, section, setAttribute } from "./dom.js";
import { icon } from "./icons.js";
import { to, toAsk } from "./route.js";
import { state, subscribe } from "./store.js";
import { time } from "./units.js";

const KINDS = [["queue", "Queues"], ["application", "Applications"], ["ask", "Asks"], ["node", "Nodes"], ["user", "Users"], ["group", "Groups"]];
const ICONS = { queue: "queue", application: "applications", ask: "waits", node: "nodes", user: "users", group: "group" };
const PAUSE = 180;
// Hits of a kind while one types.
const FEW = 5;

const address = ({ kind, partition, name, application }) => (kind === "ask" ? toAsk(partition, application, name) : to(kind, [partition, name]));

/** What a hit is beyond its name. */
function about({ state: its, finished, queue, user, application, partition }) {
  const parts = [application && ["of ", nameText(application)], finished ? `${its} at ${time(finished)}` : its, queue && nameText(queue), user && ["of ", nameText(user)], partition && nameText(partition)];
  return el("span", { class: "where" }, parts.filter(Boolean).map((part) => el("span", {}, part)));
}

/** Lets a field show what is found while one types in it. */
export class SearchField {
  constructor(form, input) {
    Object.assign(this, { form, input, hits: [], at: -1, timer: 0, controller: null });
    this.list = el("ul", { id: "found", class: "found", role: "listbox", "aria-label": "Found", hidden: true, onpointerdown: (event) => event.preventDefault(), onclick: (event) => this.onClick(event) });
    form.append(this.list);
    for (const [name, value] of Object.entries({ role: "combobox", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list" })) setAttribute(input, name, value);
    input.addEventListener("input", () => this.later());
    input.addEventListener("keydown", (event) => this.onKey(event));
    input.addEventListener("blur", () => this.hide());
    form.addEventListener("submit", (event) => this.submit(event));
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.look(), PAUSE);
  }

  async look() {
    this.controller?.abort();
    const q = this.input.value.trim();
    if (!q) return this.hide();
    const mine = new AbortController();
    this.controller = mine;
    try {
      this.show(q, await get("ui/api/search", { q, limit: FEW }, mine.signal));
    } catch (error) {
      if (error.name !== "AbortError") this.fill([el("li", { class: "note bad", role: "presentation", text: error.message })]);
    }
    return undefined;
  }

  show(q, { hits }) {
    const order = KINDS.map(([kind]) => kind);
    const few = order.flatMap((kind) => hits.filter((hit) => hit.kind === kind).slice(0, FEW));
    this.hits = few;
    const items = few.map((hit, at) => el("li", { id: `found-${at}`, role: "option", "aria-selected": "false" },
      icon(ICONS[hit.kind]), nameText(hit.id || hit.name, "name"), about(hit)));
    this.fill(items.length ? items : [el("li", { class: "note", role: "presentation", text: `Nothing has “${q}” in its name.` })]);
    this.mark(-1);
  }

  fill(items) {
    place(this.list, items);
    this.list.hidden = document.activeElement !== this.input;
    setAttribute(this.input, "aria-expanded", String(!this.list.hidden));
  }

  hide() {
    clearTimeout(this.timer);
    this.controller?.abort();
    this.list.hidden = true;
    this.hits = [];
    this.mark(-1);
    setAttribute(this.input, "aria-expanded", "false");
  }

  mark(at) {
    this.at = at;
    [...this.list.children].forEach((item, own) => item.role === "option" && setAttribute(item, "aria-selected", String(own === at)));
    setAttribute(this.input, "aria-activedescendant", at < 0 ? null : `found-${at}`);
    this.list.children[at]?.scrollIntoView({ block: "nearest" });
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") this.hide();
    if (step === undefined || !this.hits.length) return;
    event.preventDefault();
    const length = this.hits.length;
    this.mark(this.at < 0 && step < 0 ? length - 1 : (this.at + step + length) % length);
  }

  onClick(event) {
    const at = [...this.list.children].indexOf(event.target.closest("[role=option]"));
    if (at >= 0) this.open(this.hits[at]);
  }

  submit(event) {
    event.preventDefault();
    const q = this.input.value.trim();
    if (this.hits[this.at]) this.open(this.hits[this.at]);
    else if (q) {
      this.hide();
      location.hash = to("search", [], { q });
    }
  }

  open(hit) {
    this.hide();
    this.input.value = "";
    location.hash = address(hit);
  }
}

export function view(_names, { q = "" }) {
  const node = el("div", { class: "stack" }, note(q ? "Searching …" : "Nothing to look for."));
  const controller = new AbortController();
  const search = async () => {
    try {
      place(node, shown(q, await get("ui/api/search", { q }, controller.signal)));
    } catch (error) {
      if (error.name !== "AbortError") place(node, [note(error.message, { class: "note bad", role: "alert" })]);
    }
  };
  if (q) search();
  // A search that failed because the server was away is made anew.
  const stop = subscribe(({ link: changed }) => {
    if (q && changed && state.link.state === "live" && node.querySelector(".bad")) search();
  });
  return { title: `Search: ${q}`, node, close: () => (stop(), controller.abort()) };
}

function shown(q, { hits, complete }) {
  if (!hits.length) return [note(`Nothing has “${q}” in its name.`)];
  const parts = KINDS.map(([kind, title]) => {
    const found = hits.filter((hit) => hit.kind === kind);
    if (!found.length) return null;
    return section(title, el("ul", { class: "hits" }, found.map((hit) =>
      el("li", {}, link(address(hit), hit.id || hit.name, { class: "name" }), about(hit)))));
  });
  return [...parts.filter(Boolean), complete ? null : note("There is more than is shown: a longer text finds less.")].filter(Boolean);
}
