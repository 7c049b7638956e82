// One thing and all that is to be said of it, kept up to date.

import { el, note, place } from "./dom.js";
import { Polled } from "./polled.js";

export class Detail {
  /** `render` makes nodes of an answer; those that are the same stay where they are. */
  constructor({ partition, path, query = {}, render }) {
    this.render = render;
    this.node = el("div", { class: "stack" }, note("Loading …"));
    this.polled = new Polled({ partition, path, query, show: (answer) => this.show(answer), failed: (error) => this.fail(error) });
  }

  close() {
    this.polled.close();
  }

  /** Fetches it again, as after an action. */
  load() {
    this.polled.ask({});
  }

  fail(error) {
    const gone = error.status === 404 ? note("It may have ended or been removed meanwhile. If it comes back this page shows it.") : null;
    place(this.node, [note(error.message, { class: "note bad", role: "alert" }), gone].filter(Boolean));
  }

  /** Shows an answer, and leaves the focus on the link where it was. */
  show(answer) {
    const active = this.node.contains(document.activeElement) ? document.activeElement : null;
    const href = active?.getAttribute("href");
    place(this.node, this.render(answer).filter(Boolean));
    if (active && href && !this.node.contains(active)) {
      [...this.node.querySelectorAll("a")].find((link) => link.getAttribute("href") === href)?.focus();
    }
  }
}
