// Free room of a partition by topology domain: how many members of a gang each would take now.

import { ofPartition } from "./api.js";
import { usageBar } from "./bar.js";
import { choice, el, note, setOptions } from "./dom.js";
import { icon } from "./icons.js";
import { Polled } from "./polled.js";
import { change } from "./route.js";
import { sortedTable } from "./table.js";
import { brief, count, counted } from "./units.js";

const INDENT = "var(--s4)";

const columns = (levels) => [
  { name: "Domain", cell: (row) => domain(row, levels), value: (row) => row.path },
  { name: "Level", wide: true, cell: (row) => row.level, value: (row) => row.level },
  { name: "Nodes", number: true, cell: (row) => nodes(row), value: (row) => row.nodes },
  { name: "Free slots", number: true, cell: (row) => count(row.slots), value: (row) => row.slots },
  { name: "Members", number: true, cell: (row) => count(row.members), value: (row) => row.members },
  { name: "vcore", cell: (row) => usageBar("vcore", row), value: (row) => row.available.vcore },
  { name: "memory", cell: (row) => usageBar("memory", row), value: (row) => row.available.memory },
];

/** The section of the nodes by level; it stays empty where the partition has no levels. */
export class Topology {
  /** `query` has level, the only one that is shown. */
  constructor(partition, { level = "" }) {
    Object.assign(this, { level, levels: [] });
    this.choice = choice("Level", [], "", (value) => this.set(value));
    this.said = el("p", { class: "summary" });
    this.holder = el("div");
    const heading = el("h2", {}, icon("nodes"), "By topology");
    this.node = el("section", { class: "panel", hidden: true }, heading, el("div", { class: "tools" }, this.choice), this.said, this.holder);
    this.polled = new Polled({
      partition, path: ofPartition(partition, "topology"), query: { level },
      show: (answer) => this.show(answer), failed: (error) => this.said.replaceChildren(error.message),
    });
  }

  close() {
    this.polled.close();
  }

  set(level) {
    this.level = level;
    change({ level });
    this.polled.ask({ level });
  }

  show({ levels, shape, domains, total }) {
    this.node.hidden = !levels.length;
    if (!levels.length) return;
    setOptions(this.choice.querySelector("select"), [["", "all levels"], ...levels.map((name) => [name, name])], this.level);
    this.said.replaceChildren(inWords(levels, shape, domains));
    const rest = total > domains.length ? note(`These are the first ${count(domains.length)} of ${counted(total, "domain")}: choose a level.`) : null;
    this.holder.replaceChildren(...[sortedTable("Domains", columns(levels), domains, "domains"), rest].filter(Boolean));
  }
}

/** How large a gang would start now, level by level. */
function inWords(levels, shape, domains) {
  if (!Object.keys(shape).length) return "No ask waits that could start, so that there are no slots to count.";
  const best = levels.map((level) => largest(domains.filter((row) => row.level === level))).filter((row) => row?.slots);
  const places = best.map((row) => `${count(row.slots)} in one ${row.level} (${row.path})`);
  const members = `members of ${brief(shape)}`;
  return places.length ? `The largest gang of ${members} that would start now has ${places.join(", ")}.` : `No gang of ${members} would start now.`;
}

function largest(rows) {
  return rows.reduce((best, row) => (best === undefined || row.slots > best.slots ? row : best), undefined);
}

/** The path of a domain, set in below those around it. */
function domain({ path, level }, levels) {
  const node = el("span", { text: path });
  node.style.paddingInlineStart = `calc(${levels.indexOf(level)} * ${INDENT})`;
  return node;
}

function nodes({ nodes: all, schedulableNodes: schedulable }) {
  return schedulable === all ? count(all) : `${count(schedulable)} of ${count(all)}`;
}
