// What to look at first: the findings of the server's verdict, and what operators stopped or cordoned and
// have not ended.

import { ofPartition } from "./api.js";
import { card } from "./cards.js";
import { badge, el, link, place, setAttribute } from "./dom.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { to, toNode, toQueue } from "./route.js";
import { findings, partitions, state } from "./store.js";
import { byWhom, findingParts } from "./when.js";

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
    const items = [...findings().map(found), ...stopped(queues), ...[...this.nodes.values()].flat()];
    const well = el("li", { class: "done-well" }, icon("done"), el("span", { text: "Nothing is wrong, and nothing is stopped or cordoned." }));
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

const MARKS = { rm: "rms", scheduling: "hold", queue: "gauge" };

/** A finding, with a way to what it is about. */
function found(one) {
  const [partition, path] = one.concern === "queue" ? one.name.split(/ (?=root)/) : [];
  const href = path ? toQueue(partition, path) : ["rm", "scheduling", "member"].includes(one.concern) ? to("rms") : "";
  const tone = { down: "bad", degraded: "warn", ok: "plain" }[one.severity];
  const word = one.severity === "ok" ? "for moments only" : one.severity;
  return item({ mark: MARKS[one.concern] ?? "attention", href, name: one.concern, word, tone, more: findingParts(one) });
}

function stopped(queues) {
  return queues.filter(([, queue]) => queue.stop?.time || queue.state === "Stopped")
    .map(([partition, { path, stop }]) => item({ mark: "stop", href: toQueue(partition, path), name: path, word: "stopped", more: [stop?.time ? byWhom(stop) : ""], partition }));
}

function item({ mark, href, name, word, tone = "warn", more, partition }) {
  const beside = [...more.filter(Boolean), partition ? ` · ${partition}` : ""];
  return el("li", {}, icon(mark), el("span", {}, href ? link(href, name, { class: "name" }) : el("span", { class: "name", text: name }), " ", badge(word, tone)), el("span", { class: "summary" }, beside));
}
