// What happens to an RM, live. After a break the list goes on where it was.

import { get } from "./api.js";
import { commandLine } from "./copy.js";
import { badge, button, choice, el, link, searchField, setText } from "./dom.js";
import { change, to, toApp, toAsk, toNode, toQueue } from "./route.js";
import { fold, sentence, whole } from "./sentences.js";
import { chosenRm, partitions, state, subscribe } from "./store.js";
import { count, counted } from "./units.js";
import { when } from "./when.js";

const PAGE = 200;
const MAX_SHOWN = 1000;
// So many events may wait before the newest are shown and the rest is passed over.
const MAX_BEHIND = 2000;
// How far back a search begins.
const SEARCH_BACK = 20000;
const TYPES = [["", "everything"], ["REQUEST", "asks and allocations"], ["APP", "applications"], ["NODE", "nodes"], ["QUEUE", "queues"], ["USERGROUP", "users and groups"]];

export function view([rm = chosenRm()], query) {
  const tail = new Tail(rm, query);
  return { title: "Events", node: tail.node, command: commandLine("events", "-w", "--rm", rm), close: () => tail.close() };
}

class Tail {
  constructor(rm, { q = "", type = "" }) {
    Object.assign(this, { rm, q, type, next: null, first: null, instance: "", timer: 0, busy: false, paused: false });
    this.status = el("span", { class: "status", role: "status" });
    this.pause = button("Pause", () => this.setPaused(!this.paused), { "aria-pressed": "false" });
    const rms = [...state.rms.keys()].sort().map((id) => [id, id]);
    const name = `Events of ${rm}`;
    this.list = el("ol", { class: "events", "aria-label": name, tabindex: 0 });
    const log = el("div", { role: "log", "aria-live": "off", "aria-label": name }, this.list);
    this.older = button("Earlier events", () => this.loadOlder());
    const tools = el("div", { class: "tools" },
      choice("RM", rms.length ? rms : [[rm, rm]], rm, (id) => { location.hash = to("events", [id]); }),
      choice("About", TYPES, type, (value) => this.search({ type: value })),
      searchField("Look in ids and messages", q, (text) => this.search({ q: text })), this.pause);
    this.node = el("div", { class: "stack" }, tools, el("div", { class: "pager" }, this.status), log, el("div", {}, this.older));
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
    // What is cut off in the middle of a decision comes with the next answer.
    const rest = answer.behind > answer.next && answer.rows.length ? whole(answer.rows) : answer.rows.length;
    this.list.prepend(...this.lines(answer.rows.slice(0, rest)));
    this.next = answer.rows[rest]?.id ?? answer.next;
    if (!this.isSearch && answer.behind - this.next > MAX_BEHIND) {
      this.gap(`${counted(answer.behind - PAGE - this.next, "event")} passed over to keep up.`);
      this.next = answer.behind - PAGE;
    }
    while (this.list.childElementCount > MAX_SHOWN) this.list.lastElementChild.remove();
    const kept = `${counted(answer.behind - answer.lowest, "event")} kept`;
    const off = answer.tracking ? "" : "Event tracking is disabled for this RM. ";
    setText(this.status, `${off}${counted(this.list.childElementCount, "line")}, newest first; ${kept}.`);
    this.older.hidden = this.first <= answer.lowest;
    if (!this.list.childElementCount) this.list.append(el("li", { class: "gap none", text: "No such event yet." }));
    else if (answer.rows.length) this.list.querySelectorAll(".gap.none").forEach((item) => item.remove());
  }

  gap(text) {
    this.list.prepend(el("li", { class: "gap", text }));
  }

  /** Lines of these events, the newest first. */
  lines(events) {
    const links = linksOf(this.rm);
    return fold(events).map((decision) => shown(decision, links)).reverse();
  }

  async loadOlder() {
    const start = Math.max(0, this.first - (this.isSearch ? SEARCH_BACK : PAGE));
    try {
      const { rows } = await this.ask({ start, limit: 500 });
      const before = this.first;
      this.list.append(...this.lines(rows.filter(({ id }) => id < before)));
      this.first = start;
      this.older.hidden = start === 0;
    } catch (error) {
      setText(this.status, error.message);
    }
  }
}

const WORDS = { APP: "application", REQUEST: "ask", USERGROUP: "user" };

/** One decision; the events that it is made of are behind the number. */
function shown(events, links) {
  const [first] = events;
  const others = events.length > 1
    ? el("details", {}, el("summary", { text: counted(events.length, "event") }), el("ul", {}, events.map((event) => el("li", { title: `event ${event.id}` }, sentence([event], links)))))
    : null;
  return el("li", {}, when(first.time), badge(kindOf(events), "quiet"), el("span", { class: "says" }, sentence(events, links)), others);
}

function kindOf(events) {
  const kind = events.length > 1 ? events.find(({ type }) => type === "APP")?.type ?? "NODE" : events[0].type;
  return WORDS[kind] || kind.toLowerCase();
}

/** Events do not say in which partition they are: it is the chosen one, or the first of the RM. */
function linksOf(rm) {
  const own = partitions().filter((partition) => partition.rm === rm).map(({ name }) => name);
  const partition = own.includes(state.partition) ? state.partition : own[0];
  const make = (address) => (...names) => (partition && names.every(Boolean) ? link(address(...names), names.at(-1)) : names.at(-1));
  return {
    app: make((app) => toApp(partition, app)), ask: make((app, key) => toAsk(partition, app, key)), node: make((node) => toNode(partition, node)),
    queue: make((path) => toQueue(partition, path)), user: make((name) => to("user", [partition, name])), group: make((name) => to("group", [partition, name])),
  };
}
