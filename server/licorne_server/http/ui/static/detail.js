// One thing, asked for again when its partition has changed, as often as the server says.

import { get } from "./api.js";
import { el, note, place } from "./dom.js";
import { state, subscribe } from "./store.js";

export class Detail {
  /** `render` makes nodes of an answer. */
  constructor({ partition, path, query = {}, render }) {
    Object.assign(this, { partition, path, query, render });
    this.timer = 0;
    this.changed = false;
    this.node = el("div", { class: "stack" }, note("Loading …"));
    this.controller = null;
    this.stop = subscribe((changes) => this.hear(changes));
    this.load();
  }

  close() {
    this.stop();
    clearTimeout(this.timer);
    this.controller?.abort();
  }

  hear({ partitions, link }) {
    if (link && state.link.state === "live" && this.failed) this.changed = true;
    if (partitions.has(this.partition)) this.changed = true;
    if (this.changed && !this.timer && !this.controller) this.load();
  }

  async load() {
    const mine = new AbortController();
    this.controller = mine;
    this.changed = false;
    try {
      const answer = await get(this.path, this.query, mine.signal);
      this.failed = false;
      this.show(answer);
      this.timer = setTimeout(() => {
        this.timer = 0;
        if (this.changed && !document.hidden) this.load();
      }, answer.refresh);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.failed = true;
      const gone = error.status === 404 ? note("It may have ended or been removed meanwhile. If it comes back this page shows it.") : null;
      place(this.node, [note(error.message, { class: "note bad", role: "alert" }), gone].filter(Boolean));
    } finally {
      if (this.controller === mine) this.controller = null;
    }
  }

  /** Shows an answer, and leaves the focus on the link where it was. */
  show(answer) {
    const active = this.node.contains(document.activeElement) ? document.activeElement : null;
    const href = active?.getAttribute("href");
    place(this.node, this.render(answer).filter(Boolean));
    if (active && !this.node.contains(active)) {
      [...this.node.querySelectorAll("a")].find((link) => link.getAttribute("href") === href)?.focus();
    }
  }
}
