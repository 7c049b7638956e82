// The navigation: an icon, a name and a count for each view, and the key that jumps there after g.

import { el, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";
import { to } from "./route.js";
import { findings, partitions, state } from "./store.js";
import { count, short } from "./units.js";

const ENDED = new Set(["Completed", "Rejected", "Expired", "Failed", "total"]);
const ofPartition = ({ partition }) => (partition ? [partition] : []);
const none = () => [];
const entry = (view, label, key, names, counted = () => null, needed = () => true) => ({ view, label, key, names, counted, needed });
const figure = (name) => (partition) => partition?.[name] ?? null;

/** The views that the navigation has; `names` gives the arguments of the address. */
const ENTRIES = [
  entry("overview", "Overview", "o", none),
  entry("applications", "Applications", "a", ofPartition, active),
  entry("nodes", "Nodes", "n", ofPartition, figure("nodes")),
  entry("users", "Users", "u", ofPartition, figure("users")),
  entry("preemptions", "Preemptions", "p", ofPartition, (partition) => partition?.preemptions || null),
  entry("calendar", "Calendar", "s", ofPartition, () => null, () => partitions().some(({ backfill }) => backfill)),
  entry("events", "Events", "e", none),
  entry("configuration", "Configuration", "c", none),
  entry("rms", "RMs", "r", none, () => state.rms.size || null),
];

/** The views that have something to show: those of a feature that is off have nothing. */
export const shownEntries = () => ENTRIES.filter(({ needed }) => needed());

/** Views that are part of another one in the navigation. */
const UNDER = { queue: "overview", application: "applications", ask: "applications", node: "nodes", user: "users", group: "users", groups: "users" };

export const ownerOf = (view) => UNDER[view] || view;

/** How many applications have not ended. */
export function active(partition) {
  if (partition === undefined) return null;
  return Object.entries(partition.applications).reduce((sum, [name, value]) => sum + (ENDED.has(name) ? 0 : value), 0);
}

/** Makes the entries of the navigation. */
export function startShell(nav) {
  for (const { view, label, key, names } of ENTRIES) {
    if (names === ofPartition && !nav.querySelector(".scope")) nav.append(el("span", { class: "scope", title: "The partition of these lists and counts" }));
    nav.append(el("a", { "data-view": view, title: `${label} (g ${key})` }, icon(view), el("span", { class: "label", text: label }), " ", el("span", { class: "count" })));
  }
}

// Views of more than one partition: beside their figures those of a single one would be of another scope.
const OF_ALL = new Set(["overview", "events", "configuration", "rms", "search"]);

/** Marks the view that is shown, and brings counts and links up to date. */
export function showShell(nav, view) {
  const partition = OF_ALL.has(view) && partitions().length > 1 ? undefined : state.partitions.get(state.partition);
  const lost = findings({ counting: true }).filter(({ concern }) => concern === "rm").length;
  const scope = nav.querySelector(".scope");
  setText(scope, partitions().length > 1 ? state.partition : "");
  for (const { view: own, label, names, counted, needed } of ENTRIES) {
    const item = nav.querySelector(`[data-view="${own}"]`);
    item.hidden = !needed();
    setAttribute(item, "href", to(own, names(state)));
    setAttribute(item, "aria-current", own === ownerOf(view) ? "page" : null);
    const number = item.querySelector(".count");
    const value = counted(partition);
    setText(number, own === "rms" && lost ? `${count(lost)} lost` : value === null ? "" : short(value));
    number.classList.toggle("warn", own === "rms" && lost > 0);
    setAttribute(item, "aria-label", number.textContent ? `${label} ${number.textContent}` : null);
  }
}
