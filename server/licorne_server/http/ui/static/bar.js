// A bar with its numbers: what is used of a resource, what is guaranteed, the maximum, and what waits.

import { el, setText, setAttribute } from "./dom.js";
import { amount, amountOf } from "./units.js";

/** What a bar shows of one resource of a queue; `scale` is the maximum that counts for it. */
export function figures(name, queue, scale) {
  const of = (map) => Number(map[name] ?? 0);
  const max = name in queue.max ? of(queue.max) : null;
  return { name, used: of(queue.allocated), guaranteed: of(queue.guaranteed), max, pending: of(queue.pending), scale };
}

/** The same in words. */
export function words({ name, used, guaranteed, max, pending }) {
  const parts = [`${name} ${amount(name, used)} used`];
  parts.push(max === null ? "no maximum" : `maximum ${amount(name, max)}`);
  if (guaranteed) parts.push(`guaranteed ${amount(name, guaranteed)}`);
  if (pending) parts.push(`${amount(name, pending)} waiting`);
  return parts.join(", ");
}

/** A bar that can be told of other figures. */
export class Bar {
  constructor() {
    this.numbers = el("span", { class: "numbers" });
    this.waiting = el("span", { class: "waiting" });
    this.inside = el("span", { class: "fill" });
    this.above = el("span", { class: "fill above" });
    this.asked = el("span", { class: "fill asked" });
    this.mark = el("span", { class: "mark" });
    this.track = el("span", { class: "track", "aria-hidden": "true" }, this.inside, this.above, this.asked, this.mark);
    this.node = el("span", { class: "bar" }, el("span", { class: "line" }, this.numbers, this.waiting), this.track);
  }

  show(of) {
    const { name, used, guaranteed, max, pending } = of;
    setText(this.numbers, amountOf(name, used, max));
    setText(this.waiting, pending ? `+${amount(name, pending)} waiting` : "");
    setAttribute(this.node, "title", words(of));
    // Without any maximum the bar is as long as what there is to show.
    const scale = of.scale || Math.max(used + pending, guaranteed) || 1;
    const part = (value) => Math.max(0, Math.min(1, value / scale));
    const own = guaranteed ? Math.min(used, guaranteed) : used;
    const ends = [part(own), part(used), part(used + pending)];
    put(this.inside, 0, ends[0]);
    put(this.above, ends[0], ends[1]);
    put(this.asked, ends[1], ends[2]);
    this.mark.hidden = !guaranteed;
    this.mark.style.left = `${part(guaranteed) * 100}%`;
    this.track.classList.toggle("full", max !== null && max > 0 && used >= max);
  }
}

function put(node, from, to) {
  node.style.left = `${from * 100}%`;
  node.style.width = `${(to - from) * 100}%`;
}

/** What is used of the capacity of a resource, of a node or of a domain of nodes. */
export function usageBar(name, { capacity: all, available }) {
  if (!(name in all)) return "–";
  const bar = new Bar();
  const capacity = all[name];
  const used = capacity - (available[name] ?? 0);
  bar.show({ name, used, guaranteed: 0, max: capacity, pending: 0, scale: capacity });
  return bar.node;
}
