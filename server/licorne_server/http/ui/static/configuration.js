// The configuration of an RM: its revisions, a text of your own with its check, difference, plan and
// application, and the running one.

import { actButton, mayAct } from "./act.js";
import { get, post, postJson } from "./api.js";
import { commandLine, copyButton } from "./copy.js";
import { difference } from "./difference.js";
import { badge, button, choice, el, facts, note, place, section } from "./dom.js";
import { Editor } from "./editor.js";
import { shownPlan } from "./plan.js";
import { Revisions } from "./revisions.js";
import { noneRegistered } from "./rms.js";
import { to } from "./route.js";
import { chosenRm, state, subscribe } from "./store.js";
import { counted, humanText } from "./units.js";

// How a problem begins that names its line and column.
const AT_LINE = /^(\d+):(\d+): /;

export function view([rm = chosenRm()]) {
  const page = new Configuration(rm);
  return { title: "Configuration", node: page.node, command: commandLine("config", "history", ...(page.rm ? ["--rm", page.rm] : [])), close: () => page.close() };
}

class Configuration {
  constructor(rm) {
    Object.assign(this, { rm, running: null, checksum: "" });
    const rms = [...state.rms.keys()].sort().map((id) => [id, id]);
    const tools = el("div", { class: "tools" }, choice("RM", rms.length ? rms : [[rm, rm]], rm, (id) => { location.hash = to("configuration", [id]); }));
    this.shown = el("div", {}, note("Loading …"));
    this.touched = false;
    this.text = new Editor("Configuration to check", "Paste or write a configuration here …", () => this.changed());
    // An empty text would be the built-in configuration, which nobody means by it.
    this.needText = [
      button("Validate", () => this.validate(), { class: mayAct() ? null : "main" }),
      ...(mayAct() ? [button("Plan", () => this.plan(), { class: "main" })] : []),
      button("Compare with the running one", () => this.compare()),
    ];
    // What runs has to be known, or the text would be taken away for nothing.
    this.ofRunning = button("Begin with the running one", () => this.begin());
    this.ofRunning.disabled = true;
    this.file = el("input", { type: "file", class: "hidden", accept: ".yaml,.yml,text/*", "aria-label": "Read a file", onchange: () => this.readFile() });
    this.result = el("div", { role: "status", "aria-live": "polite" });
    this.revisions = new Revisions(this.rm, () => this.load());
    this.node = el("div", { class: "stack" }, tools, this.revisions.node,
      section(mayAct() ? "Edit, plan and apply" : "Check and compare", note(`${mayAct() ? "Nothing changes until you apply it" : "Nothing is changed by this"}. The text stays in this page, and goes to the server to be checked.`),
        this.text.node, el("div", { class: "tools" }, this.needText,
          this.ofRunning, el("label", { class: "button" }, "Read a file …", this.file)), this.result),
      section("Running", this.shown));
    this.stop = subscribe(({ rms: changed }) => {
      if (!this.rm && state.rms.size) this.rm = this.revisions.rm = chosenRm();
      if (changed.has(this.rm) && state.rms.get(this.rm)?.checksum !== this.checksum) this.load();
    });
    this.changed(false);
    this.load();
  }

  /** What was found out about a text is of no other text. */
  changed(touched = true) {
    this.touched = touched;
    for (const one of this.needText) one.disabled = !this.text.text.trim();
    this.text.mark([]);
    place(this.result, []);
  }

  close() {
    this.stop();
  }

  async load() {
    this.revisions.node.hidden = !this.rm;
    if (!this.rm) {
      place(this.shown, [note(`${noneRegistered()}.`)]);
      return;
    }
    this.revisions.load();
    try {
      const { text, checksum, extra } = await get("ui/api/config", { rm: this.rm });
      Object.assign(this, { running: text, checksum });
      this.ofRunning.disabled = false;
      if (!this.touched) this.beginWith(text);
      const extras = Object.entries(extra);
      place(this.shown, [
        facts([["Checksum", el("span", { class: "marks", title: checksum }, el("code", { text: `${checksum.slice(0, 12)}…` }), copyButton(checksum, "the checksum"))]]),
        text.trim() ? numbered(text) : note("The RM runs the built-in configuration: its text is empty."),
        ...(extras.length ? [el("h3", { text: "Extra configuration" }), facts(extras)] : []),
      ]);
    } catch (error) {
      place(this.shown, [note(error.message, { class: "note bad", role: "alert" })]);
    }
  }

  begin() {
    this.beginWith(this.running);
    this.text.field.focus();
  }

  /** Nothing is lost when the running text changes before anybody has written. */
  beginWith(text) {
    this.text.text = text;
    this.changed(false);
  }

  async readFile() {
    const [file] = this.file.files;
    if (file) this.text.text = await file.text();
    this.changed();
  }

  async validate() {
    place(this.result, [note("Checking …")]);
    try {
      const verdict = await post("ws/v1/validate-conf", this.text.text);
      place(this.result, [verdict.allowed ? this.taken(verdict) : this.refused(verdict.reason.split("\n").filter(Boolean))]);
    } catch (error) {
      place(this.result, [note(error.message, { class: "note bad", role: "alert" })]);
    }
  }

  taken({ checksum }) {
    const same = checksum === this.checksum ? "It is what runs already." : "";
    return el("p", {}, badge("valid", "good"), ` The server would take this text. ${same}`);
  }

  refused(problems) {
    this.text.mark(problems.map((text) => Number(AT_LINE.exec(text)?.[1])).filter(Boolean));
    return el("div", {}, el("p", {}, badge("refused", "bad"), ` ${counted(problems.length, "problem")}:`),
      el("ul", { class: "problems" }, problems.map((text) => el("li", {}, this.problem(text)))));
  }

  /** A problem; where it names a line, a button that leads there. */
  problem(text) {
    const found = AT_LINE.exec(text);
    if (found === null) return humanText(text);
    return [button(`line ${found[1]}`, () => this.text.goTo(Number(found[1])), { class: "inline" }), ` ${humanText(text.slice(found[0].length))}`];
  }

  compare() {
    if (this.running !== null) place(this.result, difference("Differences", this.running, this.text.text, "The text is the running one."));
  }

  /** Says what the text would do, and offers to put it into force. */
  async plan() {
    const config = this.text.text;
    place(this.result, [note("Planning …")]);
    try {
      const plan = await postJson("ui/api/act", { act: "plan", rm: this.rm, config });
      // What was typed meanwhile is not what was planned.
      if (this.text.text === config) place(this.result, [...shownPlan(plan), plan.changed ? this.apply(config, plan.baseRevision) : null].filter(Boolean));
    } catch (error) {
      place(this.result, [error.problems?.length ? this.refused(error.problems.map(({ description }) => description)) : note(error.message, { class: "note bad", role: "alert" })]);
    }
  }

  apply(config, base) {
    const made = actButton({
      act: "apply", label: "Apply …", rm: this.rm, danger: true, verb: "Put it into force", title: `Apply to ${this.rm}`,
      words: ["config", "apply", "FILE", "--base", base], text: `The text is the configuration of ${this.rm}, as it was planned. If another revision than ${base} is in force meanwhile, nothing is done.`,
      more: () => ({ config, base_revision: base }), told: ({ revision, persistent }) => `In force as revision ${revision}${persistent ? "" : ", until the server is started again: it has no state directory"}.`,
      done: () => {
        place(this.result, []);
        this.load();
      },
    });
    made.classList.add("danger");
    return el("div", { class: "tools" }, made);
  }
}

function numbered(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  return el("ol", { class: "code", tabindex: 0, role: "region", "aria-label": "Running configuration" }, lines.map((line) => el("li", {}, el("code", { text: line || " " }))));
}
