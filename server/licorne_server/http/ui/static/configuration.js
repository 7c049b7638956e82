// The running configuration of an RM, the check of another one, and what is different between them.

import { get, post } from "./api.js";
import { badge, button, choice, el, facts, note, place, section } from "./dom.js";
import { diff, near } from "./diff.js";
import { noneRegistered } from "./rms.js";
import { to } from "./route.js";
import { chosenRm, state, subscribe } from "./store.js";
import { counted } from "./units.js";

export function view([rm = chosenRm()]) {
  const page = new Configuration(rm);
  return { title: "Configuration", node: page.node, close: () => page.close() };
}

class Configuration {
  constructor(rm) {
    Object.assign(this, { rm, running: null, checksum: "" });
    const rms = [...state.rms.keys()].sort().map((id) => [id, id]);
    const tools = el("div", { class: "tools" }, choice("RM", rms.length ? rms : [[rm, rm]], rm, (id) => { location.hash = to("configuration", [id]); }));
    this.shown = el("div", {}, note("Loading …"));
    this.text = el("textarea", {
      rows: 16, spellcheck: "false", "aria-label": "Configuration to check", placeholder: "Paste or write a configuration here …",
      oninput: () => place(this.result, []),
    });
    this.file = el("input", { type: "file", accept: ".yaml,.yml,text/*", "aria-label": "Read a file", onchange: () => this.readFile() });
    this.result = el("div", { role: "status", "aria-live": "polite" });
    this.node = el("div", { class: "stack" }, tools, role(),
      section("Check and compare", note("Nothing is changed by this. The text stays in this page, and goes to the server to be checked."),
        this.text, el("div", { class: "tools" },
          button("Validate", () => this.validate(), { class: "main" }), button("Compare with the running one", () => this.compare()),
          button("Begin with the running one", () => this.begin()), this.file), this.result),
      section("Running", this.shown));
    this.stop = subscribe(({ rms: changed }) => {
      if (!this.rm && state.rms.size) this.rm = chosenRm();
      if (changed.has(this.rm) && state.rms.get(this.rm)?.checksum !== this.checksum) this.load();
    });
    this.load();
  }

  close() {
    this.stop();
  }

  async load() {
    if (!this.rm) {
      place(this.shown, [note(`${noneRegistered()}.`)]);
      return;
    }
    try {
      const { text, checksum, extra } = await get("ui/api/config", { rm: this.rm });
      Object.assign(this, { running: text, checksum });
      const extras = Object.entries(extra);
      place(this.shown, [
        facts([["Checksum", el("code", { text: checksum })]]),
        text.trim() ? numbered(text) : note("The RM runs the built-in configuration: its text is empty."),
        ...(extras.length ? [el("h3", { text: "Extra configuration" }), facts(extras)] : []),
      ]);
    } catch (error) {
      place(this.shown, [note(error.message, { class: "note bad", role: "alert" })]);
    }
  }

  begin() {
    this.text.value = this.running ?? "";
    place(this.result, []);
    this.text.focus();
  }

  async readFile() {
    const [file] = this.file.files;
    if (file) this.text.value = await file.text();
    place(this.result, []);
  }

  async validate() {
    place(this.result, [note("Checking …")]);
    try {
      const verdict = await post("ws/v1/validate-conf", this.text.value);
      place(this.result, [verdict.allowed ? this.taken(verdict) : this.refused(verdict.reason)]);
    } catch (error) {
      place(this.result, [note(error.message, { class: "note bad", role: "alert" })]);
    }
  }

  taken({ checksum }) {
    const same = checksum === this.checksum ? "It is what runs already." : "";
    return el("p", {}, badge("valid", "good"), ` The server would take this text. ${same}`);
  }

  refused(reason) {
    const problems = reason.split("\n").filter(Boolean);
    return el("div", {}, el("p", {}, badge("refused", "bad"), ` ${counted(problems.length, "problem")}:`),
      el("ul", { class: "problems" }, problems.map((text) => el("li", {}, this.problem(text)))));
  }

  /** A problem; where it names a line, a button that leads there. */
  problem(text) {
    const found = /^(\d+):(\d+): /.exec(text);
    if (found === null) return text;
    return [button(`line ${found[1]}`, () => this.goTo(Number(found[1])), { class: "inline" }), ` ${text.slice(found[0].length)}`];
  }

  goTo(line) {
    const lines = this.text.value.split("\n");
    const from = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    this.text.focus();
    this.text.setSelectionRange(from, from + (lines[line - 1] ?? "").length);
    this.text.scrollTop = (this.text.scrollHeight / lines.length) * Math.max(0, line - 4);
  }

  compare() {
    if (this.running === null) return;
    const lines = near(diff(this.running, this.text.value));
    const changed = lines.filter((line) => line !== null && line.kind !== "same");
    const gone = changed.filter(({ kind }) => kind === "gone").length;
    place(this.result, changed.length
      ? [el("p", { text: `${counted(gone, "line")} of the running text less, ${counted(changed.length - gone, "line")} more:` }), shownDiff(lines)]
      : [note("The text is the running one.")]);
  }
}

function numbered(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  return el("ol", { class: "code", tabindex: 0, role: "region", "aria-label": "Running configuration" }, lines.map((line) => el("li", {}, el("code", { text: line || " " }))));
}

const SIGNS = { same: " ", gone: "−", new: "+" };
const SAID = { same: "", gone: "less: ", new: "more: " };

function shownDiff(lines) {
  const rows = lines.slice(0, 5000).map((line) => {
    if (line === null) return el("li", { class: "skip", text: "…" });
    const number = el("span", { class: "place", "aria-hidden": "true", text: String(line.after ?? line.before) });
    const sign = el("span", { class: "sign", "aria-hidden": "true", text: SIGNS[line.kind] });
    return el("li", { class: line.kind }, number, sign, el("span", { class: "hidden", text: SAID[line.kind] }), el("code", { text: line.text || " " }));
  });
  return el("ul", { class: "diff", tabindex: 0, role: "region", "aria-label": "Differences" }, rows);
}

/** What this visitor may do: changes are never made here. */
function role() {
  if (state.server?.role !== "operator") return null;
  return note("You are an operator. This page changes nothing: make changes with licorne config.", { class: "note" });
}
