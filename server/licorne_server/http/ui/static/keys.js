// The keys of the page, in one map: what is listed under ? is what works.

import { el } from "./dom.js";
import { open } from "./dialog.js";
import { shownEntries } from "./shell.js";
import { state } from "./store.js";
import { to } from "./route.js";

// How long after g a letter may come.
const PAUSE = 1500;
let jumping = 0;

const MAP = [
  ["Anywhere", [
    ["/", "search", () => document.getElementById("q").focus()],
    ["?", "this list", () => help()],
    ["t", "light, dark, or as the system", () => document.getElementById("theme").click()],
    ["g", "then a letter: to a view", () => { jumping = Date.now(); }],
  ]],
  ["In lists", [
    ["j", "next row", () => step(1)],
    ["k", "row before", () => step(-1)],
    ["y", "copy the name of the row", () => copyOfRow()?.click()],
    ["]", "next page", () => turn(1)],
    ["[", "page before", () => turn(-1)],
    ["u", "up, to what this is part of", () => up()],
  ]],
];
const FIXED = [["↵", "open the row"], ["← →", "close and open a queue, step through a chart"], ["Esc", "close, leave a field"]];
const ACTIONS = new Map(MAP.flatMap(([, keys]) => keys.map(([key, , action]) => [key, action])));

/** Listens to keys from now on. */
export function startKeys(button) {
  button.addEventListener("click", help);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const view = Date.now() - jumping < PAUSE ? shownEntries().find(({ key }) => key === event.key) : undefined;
    jumping = 0;
    const action = view ? () => { location.hash = to(view.view, view.names(state)); } : ACTIONS.get(event.key);
    if (action === undefined) return;
    event.preventDefault();
    action();
  });
}

function rows() {
  const found = document.querySelectorAll("#view tbody tr, #view [role=treeitem], #view .hits li");
  return [...found].filter((row) => row.offsetParent !== null).map((row) => (row.role === "treeitem" ? row : row.querySelector("a"))).filter(Boolean);
}

function step(by) {
  const all = rows();
  const row = document.activeElement.closest("tr, [role=treeitem], li");
  const at = all.findIndex((item) => row !== null && (item === row || row.contains(item)));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

const copyOfRow = () => document.activeElement.closest("tr")?.querySelector(".copy");

function turn(by) {
  [...document.querySelectorAll("#view .pager")].find((pager) => pager.offsetParent)?.querySelector(`[data-turn="${by}"]`)?.click();
}

function up() {
  [...document.querySelectorAll("#crumbs a")].at(-1)?.click();
}

function help() {
  const part = (title, pairs) => [el("h3", { text: title }), el("dl", { class: "keymap" }, pairs.map(([keys, text]) =>
    el("div", {}, el("dt", {}, keys.split(" ").map((key) => el("kbd", { text: key }))), el("dd", { text }))))];
  const jumps = shownEntries().map(({ key, label }) => [`g ${key}`, label]);
  open("Keys", ...part("Anywhere", MAP[0][1]), ...part("To a view", jumps), ...part("In lists", [...MAP[1][1], ...FIXED]));
}
