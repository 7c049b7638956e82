// A field for a text of many lines, with their numbers beside it and marks at lines that are wrong.

import { el, place, setText } from "./dom.js";

export class Editor {
  /** `label` names the field, `onchange` is told of each change by the reader. */
  constructor(label, placeholder, onchange) {
    this.numbers = el("span", { class: "numbers" });
    this.marks = el("span", {});
    this.inside = el("div", {}, this.numbers, this.marks);
    this.field = el("textarea", {
      rows: 16, spellcheck: "false", wrap: "off", "aria-label": label, placeholder,
      oninput: () => (this.count(), onchange()), onscroll: () => this.follow(),
    });
    this.node = el("div", { class: "editor" }, el("div", { class: "gutter", "aria-hidden": "true" }, this.inside), this.field);
    this.count();
  }

  get text() {
    return this.field.value;
  }

  set text(text) {
    this.field.value = text;
    this.count();
    this.mark([]);
  }

  /** Marks lines, by their numbers, that are wrong. */
  mark(lines) {
    place(this.marks, [...new Set(lines)].map((line) => {
      const mark = el("span", { class: "wrong", text: String(line) });
      mark.style.top = `calc(${line - 1} * 1lh)`;
      return mark;
    }));
  }

  /** Leads to a line. */
  goTo(line) {
    const lines = this.text.split("\n");
    const from = lines.slice(0, line - 1).reduce((sum, text) => sum + text.length + 1, 0);
    this.field.focus();
    this.field.setSelectionRange(from, from + (lines[line - 1] ?? "").length);
    this.field.scrollTop = (this.field.scrollHeight / lines.length) * Math.max(0, line - 4);
  }

  count() {
    const lines = this.text.split("\n").length;
    setText(this.numbers, Array.from({ length: lines }, (_, at) => at + 1).join("\n"));
  }

  follow() {
    this.inside.style.transform = `translateY(${-this.field.scrollTop}px)`;
  }
}
