// What happens to an RM, live. After a break the list goes on where it was.

import { get } from "./api.js";
import { badge, button, choice, el, note, searchField, setText } from "./dom.js";
import { change, to } from "./route.js";
import { chosenRm, state, subscribe } from "./store.js";
import { count, counted, humanText, resources, time } from "./units.js";

const PAGE = 200;
const MAX_SHOWN = 1000;
// So many events may wait before the newest are shown and the rest is passed over.
const MAX_BEHIND = 2000;
// How far back a search begins.
const SEARCH_BACK = 20000;
const TYPES = [["", "everything"], ["REQUEST", "asks and allocations"], ["APP", "applications"], ["NODE", "nodes"], ["QUEUE", "queues"], ["USERGROUP", "users and groups"]];

export function view([rm = chosenRm()], query) {
  const tail = new Tail(rm, query);
  return { title: "Events", node: tail.node, close: () => tail.close() };
}

class Tail {
  constructor(rm, { q = "", type = "" }) {
    Object.assign(this, { rm, q, type, next: null, first: null, instance: "", timer: 0, busy: false, paused: false });
    this.status = el("span", { class: "status", role: "status" });
    this.pause = button("Pause", () => this.setPaused(!this.paused), { "aria-pressed": "false" });
    const rms = [...state.rms.keys()].sort().map((id) => [id, id]);
    this.list = el("ol", { class: "events", role: "log", "aria-live": "off", "aria-label": `Events of ${rm}`, tabindex: 0 });
    this.older = button("Earlier events", () => this.loadOlder());
    const tools = el("div", { class: "tools" },
      choice("RM", rms.length ? rms : [[rm, rm]], rm, (id) => { location.hash = to("events", [id]); }),
      choice("About", TYPES, type, (value) => this.search({ type: value })),
      searchField("Look in ids and messages", q, (text) => this.search({ q: text })), this.pause);
    this.node = el("div", { class: "stack" }, tools, el("div", { class: "pager" }, this.status), this.list, el("div", {}, this.older));
    this.stop = subscribe(({ logs, link, rms: known }) => {
      if (!this.rm && known.size) this.rm = chosenRm();
      if (logs.has(this.rm) || link) this.load();
    });
    this.load();
  }

  close() {
    this.stop();
    clearTimeout(this.timer);
    this.closed = true;
  }

  search(part) {
    Object.assign(this, part);
    change(part);
    this.clear();
    this.load();
  }

  setPaused(paused) {
    this.paused = paused;
    this.pause.setAttribute("aria-pressed", String(paused));
    setText(this.pause, paused ? "Go on" : "Pause");
    if (!paused) this.load();
  }

  clear() {
    this.list.replaceChildren();
    this.next = null;
    this.first = null;
  }

  get isSearch() {
    return Boolean(this.q || this.type);
  }

  ask(query) {
    return get("ui/api/events", { rm: this.rm, type: this.type, q: this.q, limit: PAGE, ...query });
  }

  async load() {
    if (this.busy || this.timer || this.paused || this.closed || !this.rm) return;
    this.busy = true;
    let refresh = 1000;
    try {
      if (this.next === null) await this.begin();
      const answer = await this.ask({ start: this.next });
      if (this.closed) return;
      this.take(answer);
      refresh = answer.behind > answer.next ? 100 : answer.refresh;
      this.again = answer.behind > answer.next;
    } catch (error) {
      setText(this.status, error.message);
      refresh = 3000;
    }
    this.busy = false;
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (this.again || (state.logs.get(this.rm)?.next ?? 0) > this.next) this.load();
    }, refresh);
  }

  /** Where the list begins: some events back, or far back where somebody looks for few of them. */
  async begin() {
    const { behind, lowest, instance } = await this.ask({ start: 0, limit: 1 });
    this.instance = instance;
    this.next = Math.max(lowest, behind - (this.isSearch ? SEARCH_BACK : PAGE));
    this.first = this.next;
  }

  take(answer) {
    if (answer.instance !== this.instance) {
      this.instance = answer.instance;
      this.gap("Events start over here: the RM has registered anew, or the server was started again.");
      this.next = Math.max(answer.lowest, answer.behind - PAGE);
      this.first = this.next;
      return;
    }
    if (answer.lowest > this.next) this.gap(`${counted(answer.lowest - this.next, "event")} that came before are not kept any more.`);
    this.list.prepend(...answer.rows.map(shown).reverse());
    this.next = answer.next;
    if (!this.isSearch && answer.behind - this.next > MAX_BEHIND) {
      this.gap(`${counted(answer.behind - PAGE - this.next, "event")} passed over to keep up.`);
      this.next = answer.behind - PAGE;
    }
    while (this.list.childElementCount > MAX_SHOWN) this.list.lastElementChild.remove();
    const kept = `${count(answer.behind - answer.lowest)} kept, the newest is ${count(Math.max(0, answer.behind - 1))}`;
    const off = answer.tracking ? "" : "Event tracking is disabled for this RM. ";
    setText(this.status, `${off}${counted(this.list.childElementCount, "event")} shown, newest first; ${kept}.`);
    this.older.hidden = this.first <= answer.lowest;
    if (!this.list.childElementCount) this.list.append(note("No such event yet.", { class: "gap none" }));
    else if (answer.rows.length) this.list.querySelectorAll(".gap.none").forEach((item) => item.remove());
  }

  gap(text) {
    this.list.prepend(el("li", { class: "gap", text }));
  }

  async loadOlder() {
    const start = Math.max(0, this.first - (this.isSearch ? SEARCH_BACK : PAGE));
    try {
      const { rows } = await this.ask({ start, limit: 500 });
      const before = this.first;
      this.list.append(...rows.filter(({ id }) => id < before).map(shown).reverse());
      this.first = start;
      this.older.hidden = start === 0;
    } catch (error) {
      setText(this.status, error.message);
    }
  }
}

function shown(event) {
  const what = [event.change.toLowerCase(), event.detail.toLowerCase().replaceAll("_", " ")].filter(Boolean).join(", ");
  const size = Object.keys(event.resource).length ? resources(event.resource) : "";
  return el("li", {},
    el("time", { text: time(event.time), title: `event ${event.id}` }), badge(event.type.toLowerCase(), "quiet"),
    el("span", { class: "what", text: what }), el("span", { class: "object", text: event.object }),
    event.reference ? el("span", { class: "reference", text: event.reference }) : null,
    event.message ? el("span", { class: "message", text: humanText(event.message) }) : null,
    size ? el("span", { class: "message", text: size }) : null);
}
