// What to look at first: lost RMs, what is on hold, queues that wait below their guarantee, and what
// operators stopped or cordoned and have not ended.

import { ofPartition } from "./api.js";
import { card } from "./cards.js";
import { badge, el, link, place, setAttribute } from "./dom.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { isBelowGuarantee } from "./queues.js";
import { to, toNode, toQueue } from "./route.js";
import { partitions, state } from "./store.js";
import { byWhom, when } from "./when.js";
import { amount, sortedNames } from "./units.js";

const MAX_ITEMS = 50;
// Partitions whose nodes are asked for.
const MAX_PARTITIONS = 16;

export class Attention {
  constructor() {
    this.list = el("ul", { class: "attention" });
    this.node = card("Look here first", "attention", this.list);
    this.node.classList.add("narrow");
    this.nodes = new Map();
    this.polled = new Map();
  }

  close() {
    for (const polled of this.polled.values()) polled.close();
  }

  update() {
    for (const { name, cordoned } of partitions()) {
      if (cordoned === 0) this.nodes.delete(name);
      else if (!this.polled.has(name) && this.polled.size < MAX_PARTITIONS) this.follow(name);
    }
    for (const name of this.nodes.keys()) if (!state.partitions.has(name)) this.nodes.delete(name);
    const queues = [...state.queues].flatMap(([partition, all]) => [...all.values()].map((queue) => [partition, queue]));
    const items = [...lost(), ...held(), ...starved(queues), ...stopped(queues), ...[...this.nodes.values()].flat()];
    const well = el("li", { class: "done-well" }, icon("done"), el("span", { text: "No RM is lost, no queue waits below its guarantee, nothing is stopped or cordoned." }));
    place(this.list, items.length ? items.slice(0, MAX_ITEMS) : [well]);
    setAttribute(this.list, "tabindex", items.length > 4 ? "0" : null);
  }

  follow(partition) {
    this.polled.set(partition, new Polled({
      partition, path: ofPartition(partition, "nodes"), query: { state: "drained", limit: 20 },
      show: ({ rows }) => {
        this.nodes.set(partition, rows.map((row) => item({
          mark: "drain", href: toNode(partition, row.id), name: row.id, word: row.drain ? "draining" : row.cordon ? "cordoned" : "not schedulable",
          more: [row.cordon?.time ? byWhom(row.cordon) : "its RM says so"], partition,
        })));
        this.update();
      },
    }));
  }
}

function lost() {
  return [...state.rms.values()].filter(({ connected }) => !connected)
    .map(({ id, since }) => item({ mark: "rms", href: to("rms"), name: id, word: "connection lost", tone: "bad", more: ["since ", when(since)] }));
}

function held() {
  return partitions().filter(({ holds }) => holds.length)
    .map(({ name, holds }) => item({ mark: "hold", href: to("rms"), name, word: "on hold", tone: "bad", more: [holds.join(", ")] }));
}

/** Leaves that wait for something of which they have less than is guaranteed, the poorest first. */
function starved(queues) {
  return queues.filter(([, queue]) => queue.leaf && isBelowGuarantee(queue)).sort(([, a], [, b]) => a.share - b.share).slice(0, MAX_ITEMS)
    .map(([partition, queue]) => item({
      mark: "gauge", href: toQueue(partition, queue.path), name: queue.path, word: "below guarantee", more: [lacking(queue)], partition,
    }));
}

function lacking({ guaranteed, allocated, pending }) {
  const names = sortedNames(Object.keys(guaranteed)).filter((name) => (pending[name] ?? 0) > 0 && (allocated[name] ?? 0) < guaranteed[name]);
  return names.map((name) => `${amount(name, allocated[name] ?? 0)} of ${amount(name, guaranteed[name])}, ${amount(name, pending[name])} waiting`)[0];
}

function stopped(queues) {
  return queues.filter(([, queue]) => queue.stop?.time || queue.state === "Stopped")
    .map(([partition, { path, stop }]) => item({ mark: "stop", href: toQueue(partition, path), name: path, word: "stopped", more: [stop?.time ? byWhom(stop) : ""], partition }));
}

function item({ mark, href, name, word, tone = "warn", more, partition }) {
  const beside = [...more.filter(Boolean), partition ? ` · ${partition}` : ""];
  return el("li", {}, icon(mark), el("span", {}, link(href, name, { class: "name" }), " ", badge(word, tone)), el("span", { class: "summary" }, beside));
}
