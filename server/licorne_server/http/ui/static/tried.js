// What would let a waiting ask start at once: the server tries changes on a copy of its state, and says those
// with which the ask started there. A copy costs the server something: it is asked once, and again when something
// else stops the ask, but not more often than every 30 seconds.

import { postJson } from "./api.js";
import { badge, button, el, note, place, section } from "./dom.js";
import { now, state } from "./store.js";
import { counted, humanText } from "./units.js";
import { when } from "./when.js";

// Kinds of checks that a higher bound or another node may pass.
const KINDS = new Set(["size", "queue", "user", "group", "running", "nodes"]);

// Least time between two trials that nobody has asked for, in milliseconds.
const PAUSE = 30_000;

export class Tried {
  constructor(partition, app) {
    Object.assign(this, { partition, app, key: "", stopped: "", asked: null, next: 0 });
    this.said = el("div", { "aria-live": "polite" });
    this.again = button("Try again", () => this.ask());
    this.node = section("What would unblock it", this.said, this.again);
    this.node.classList.add("wayout");
  }

  /** Ends a trial under way, on the server as well. */
  close() {
    this.asked?.abort();
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
    this.close();
    const { signal } = (this.asked = new AbortController());
    this.again.disabled = true;
    place(this.said, [note("Trying on a copy …")]);
    const rm = state.partitions.get(this.partition)?.rm ?? "";
    let said;
    try {
      said = told(await postJson("ui/api/act", { act: "try", rm, partition: this.partition, applicationId: this.app, allocationKey: this.key }, signal));
    } catch (error) {
      said = [note(`It was not tried: ${error.message}.`)];
    }
    if (signal.aborted) return;
    this.again.disabled = false;
    place(this.said, said);
  }
}

function told({ trials, complete, notTried, advice }) {
  const at = el("p", { class: "note" }, "Tried at ", when(now()), complete ? "." : ", as far as there was time.");
  if (notTried) {
    const lacks = humanText(advice.message) || "nothing that another bound or node would give";
    return [el("p", {}, badge("not confirmed", "warn"), ` By its checks alone it lacks: ${lacks}.`), note(`It was not tried: ${notTried}.`)];
  }
  if (!trials.length) return [el("p", { text: "Nothing that was tried is enough, or it goes to asks ahead of this one." }), at];
  return [el("ul", {}, trials.map((trial) => el("li", {}, el("strong", { text: "On a copy: " }), `${humanText(trial.message)}. `, limits(trial)))), at];
}

/** What a start costs others, and who was not asked. */
function limits({ stopped, unasked }) {
  return [stopped && badge(`stops ${counted(stopped, "allocation")}`, "bad"), unasked && badge("its RM was not asked", "warn")].filter(Boolean);
}
