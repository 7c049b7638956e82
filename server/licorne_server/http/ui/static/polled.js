// Something that is asked for again when its partition has changed, as often as the server says.

import { get } from "./api.js";
import { state, subscribe } from "./store.js";

// How long to wait after a refusal.
const AFTER_FAILURE = 15000;

export class Polled {
  /**
   * `show` is called with each answer, `failed` with what was refused. Without a `partition` any change
   * counts; `always` asks again although nothing has changed, as for what shows time, and `least` is the
   * least pause in ms.
   */
  constructor({ partition = "", path, query = {}, show, failed = () => {}, always = false, least = 0 }) {
    Object.assign(this, { partition, path, query, show, failed, always, least });
    this.timer = 0;
    this.changed = false;
    this.bad = false;
    this.controller = null;
    this.stop = subscribe((changes) => this.hear(changes));
    this.load();
  }

  close() {
    this.stop();
    clearTimeout(this.timer);
    this.controller?.abort();
  }

  /** Asks for something else, at once. */
  ask(query) {
    Object.assign(this.query, query);
    this.controller?.abort();
    clearTimeout(this.timer);
    this.timer = 0;
    this.load();
  }

  hear({ partitions, link }) {
    if (link && state.link.state === "live" && this.bad) this.changed = true;
    if (this.partition ? partitions.has(this.partition) : partitions.size) this.changed = true;
    if (this.changed && !this.timer && !this.controller) this.load();
  }

  async load() {
    const mine = new AbortController();
    this.controller = mine;
    this.changed = false;
    try {
      const answer = await get(this.path, this.query, mine.signal);
      this.bad = false;
      this.wait(Math.max(this.least, answer.refresh || AFTER_FAILURE));
      this.show(answer);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.bad = true;
      // What is missing may come with the next change; what failed otherwise is left alone for a while.
      if (error.status !== 404 || this.always) this.wait(AFTER_FAILURE);
      this.failed(error);
    } finally {
      if (this.controller === mine) this.controller = null;
    }
  }

  wait(pause) {
    this.timer = setTimeout(() => {
      this.timer = 0;
      if (document.hidden) this.changed = true;
      else if (this.changed || (this.always && state.link.state === "live")) this.load();
    }, pause);
  }
}
