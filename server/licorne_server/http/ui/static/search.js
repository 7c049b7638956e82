// What is found by a part of its name, in all partitions.

import { get } from "./api.js";
import { el, link, note, place, section } from "./dom.js";
import { to } from "./route.js";
import { state, subscribe } from "./store.js";

const KINDS = [["queue", "Queues"], ["application", "Applications"], ["node", "Nodes"], ["user", "Users"], ["group", "Groups"]];

export function view(_names, { q = "" }) {
  const node = el("div", { class: "stack" }, note(q ? "Searching …" : "Nothing to look for."));
  const controller = new AbortController();
  const search = async () => {
    try {
      place(node, shown(q, await get("ui/api/search", { q }, controller.signal)));
    } catch (error) {
      if (error.name !== "AbortError") place(node, [note(error.message, { class: "note bad", role: "alert" })]);
    }
  };
  if (q) search();
  // A search that failed because the server was away is made anew.
  const stop = subscribe(({ link: changed }) => {
    if (q && changed && state.link.state === "live" && node.querySelector(".bad")) search();
  });
  return { title: `Search: ${q}`, node, close: () => (stop(), controller.abort()) };
}

function shown(q, { hits, complete }) {
  if (!hits.length) return [note(`Nothing has “${q}” in its name.`)];
  const parts = KINDS.map(([kind, title]) => {
    const found = hits.filter((hit) => hit.kind === kind);
    if (!found.length) return null;
    return section(title, el("ul", { class: "hits" }, found.map(({ partition, name }) =>
      el("li", {}, link(to(kind, [partition, name]), name, { class: "name" }), el("span", { class: "where", text: partition })))));
  });
  return [...parts.filter(Boolean), complete ? null : note("There is more than is shown: a longer text finds less.")].filter(Boolean);
}
