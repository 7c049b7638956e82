// The configurations that an RM had: when, by whom and why, the difference between any two, and the way back.

import { actButton } from "./act.js";
import { get } from "./api.js";
import { badge, choice, el, note, place, section, setOptions } from "./dom.js";
import { difference } from "./difference.js";
import { icon } from "./icons.js";
import { change, parse } from "./route.js";
import { sortedTable } from "./table.js";
import { when } from "./when.js";

export class Revisions {
  /** `done()` is called after a way back. */
  constructor(rm, done) {
    Object.assign(this, { rm, done, texts: new Map(), asked: 0 });
    this.holder = el("div", {}, note("Loading …"));
    this.from = choice("Compare", [], "", (from) => this.compare({ from }));
    this.to = choice("with", [], "", (to) => this.compare({ to }));
    this.tools = el("div", { class: "tools" }, this.from, this.to);
    this.result = el("div", { "aria-live": "polite" });
    this.node = section("Revisions", this.holder, this.tools, this.result);
    this.node.querySelector("h2").prepend(icon("clock"));
  }

  async load() {
    try {
      this.rows = await get("ui/api/config/revisions", { rm: this.rm });
    } catch (error) {
      place(this.holder, [note(error.message, { class: "note bad", role: "alert" })]);
      return;
    }
    const current = this.rows.find((row) => row.current);
    this.tools.hidden = this.result.hidden = this.rows.length < 2;
    if (!this.rows.length) {
      place(this.holder, [note("No revision is kept.")]);
      return;
    }
    place(this.holder, [sortedTable("Revisions", [
      { name: "Revision", value: (row) => row.revision, cell: (row) => el("span", { class: "marks" }, el("b", { text: String(row.revision) }), row.current ? badge("in force", "good") : null) },
      { name: "When", value: (row) => row.time, cell: (row) => when(row.time) },
      { name: "By", value: (row) => row.by, cell: (row) => row.by || "–" },
      { name: "Why", kind: "sentence", value: (row) => row.message, cell: (row) => row.message || "–" },
      { name: "From", wide: true, value: (row) => row.source, cell: (row) => row.source },
      { name: "Checksum", wide: true, value: (row) => row.checksum, cell: (row) => el("code", { text: row.checksum.slice(0, 12), title: row.checksum }) },
      { name: "", kind: "bare", cell: (row) => (row.current ? "" : this.back(row, current) ?? "") },
    ], this.rows, "revisions")]);
    this.offer();
  }

  /** The button that puts a former revision into force again. */
  back({ revision }, current) {
    return actButton({
      act: "rollback", label: "Roll back", rm: this.rm, danger: true, verb: "Put it into force", title: `Roll back to revision ${revision}`,
      words: ["config", "rollback", "--to", revision, "--base", current.revision], text: `Revision ${revision} of ${this.rm} is in force again, as a new revision. If another than ${current.revision} is in force meanwhile, nothing is done.`,
      more: () => ({ revision, base_revision: current.revision }), told: ({ revision: made }) => `In force as revision ${made}.`, done: this.done,
    });
  }

  /** Offers the revisions to compare: at first the one in force and the one before. */
  offer() {
    const { from = "", to = "" } = parse(location.hash).query;
    const numbers = this.rows.map((row) => String(row.revision));
    const names = this.rows.map(({ revision, current }) => [String(revision), current ? `${revision}, in force` : String(revision)]);
    const known = (number, other) => (numbers.includes(number) ? number : other);
    setOptions(this.from.querySelector("select"), names, known(from, numbers[1] ?? numbers[0]));
    setOptions(this.to.querySelector("select"), names, known(to, numbers[0]));
    if (this.rows.length > 1) this.compare({});
  }

  async compare(chosen) {
    change(chosen);
    const mine = ++this.asked;
    const [from, to] = [this.from, this.to].map((field) => field.querySelector("select").value);
    try {
      const [before, after] = await Promise.all([this.text(from), this.text(to)]);
      if (mine === this.asked) place(this.result, difference(`Revision ${from} and ${to}`, before, after, "Both have the same text."));
    } catch (error) {
      place(this.result, [note(error.message, { class: "note bad", role: "alert" })]);
    }
  }

  /** The text of a revision, which never changes. */
  async text(revision) {
    if (!this.texts.has(revision)) this.texts.set(revision, (await get("ui/api/config/revision", { rm: this.rm, revision })).text);
    return this.texts.get(revision);
  }
}
