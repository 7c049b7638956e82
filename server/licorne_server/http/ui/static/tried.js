// What would let a waiting ask start at once: the server tries changes on a copy of its state, and says those
// with which the ask started there. A copy costs the server something: it is asked once, and again when something
// else stops the ask, but not more often than every 30 seconds.

import { postJson } from "./api.js";
import { button, el, note, place, section } from "./dom.js";
import { now, state } from "./store.js";
import { humanText } from "./units.js";
import { when } from "./when.js";

// Kinds of checks that a higher bound or another node may pass.
const KINDS = new Set(["size", "queue", "user", "group", "running", "nodes"]);

// Least time between two trials that nobody has asked for, in milliseconds.
const PAUSE = 30_000;

export class Tried {
  constructor(partition, app) {
    Object.assign(this, { partition, app, key: "", stopped: "", turn: 0, next: 0 });
    this.said = el("div", { "aria-live": "polite" });
    this.again = button("Try again", () => this.ask());
    this.node = section("What would unblock it", this.said, this.again);
    this.node.classList.add("wayout");
  }

  close() {
    this.turn += 1;
  }

  /** Its section, or null for a check that nothing helps which can be tried. */
  about(report, blocker) {
    if (!KINDS.has(blocker.kind)) return null;
    const stopped = [report.allocationKey, blocker.code, blocker.subject].join("\n");
    this.key = report.allocationKey;
    if (stopped !== this.stopped && now() >= this.next) {
      this.stopped = stopped;
      this.next = now() + PAUSE;
      this.ask();
    }
    return this.node;
  }

  async ask() {
    const turn = ++this.turn;
    this.again.disabled = true;
    place(this.said, [note("Trying on a copy …")]);
    const rm = state.partitions.get(this.partition)?.rm ?? "";
    let said;
    try {
      said = told(await postJson("ui/api/act", { act: "try", rm, partition: this.partition, applicationId: this.app, allocationKey: this.key }));
    } catch (error) {
      said = [note(`It was not tried: ${error.message}.`)];
    }
    if (turn !== this.turn) return;
    this.again.disabled = false;
    place(this.said, said);
  }
}

function told({ trials, complete }) {
  const at = el("p", { class: "note" }, "Tried at ", when(now()), complete ? "." : ", as far as there was time.");
  if (!trials.length) return [el("p", { text: "Nothing that was tried is enough, or it goes to asks ahead of this one." }), at];
  return [el("ul", {}, trials.map(({ message }) => el("li", {}, el("strong", { text: "On a copy: " }), `${humanText(message)}.`))), at];
}
