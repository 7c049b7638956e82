// Dialogs. The browser's own <dialog> keeps the focus inside, closes on Escape and gives the focus back.

import { button, el, setText } from "./dom.js";
import { icon } from "./icons.js";

/** Opens a dialog with a heading; returns it. It is gone when it is closed. */
export function open(title, ...children) {
  const close = button("", () => dialog.close(), { class: "plain", "aria-label": "Close" });
  close.append(icon("close"));
  const heading = el("h2", { id: "dialog-title" }, title, el("span", { class: "hidden", text: " " }));
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, heading, ...children);
  close.style.position = "absolute";
  close.style.right = close.style.top = ".75rem";
  dialog.append(close);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Has the visitor confirm something: what it does in words, the command that does the same, fields, and
 * a line for the result. `run(values)` does it and gives that line; its failure is shown instead.
 * `fields` are { name, label, type, value, placeholder, required, options }. `command(values)` gives the
 * command of what is filled in.
 */
export function confirm({ title, text, fields = [], command, verb, danger = false, run }) {
  const inputs = fields.map(input);
  const values = () => Object.fromEntries(inputs.map(({ name, control }) => [name, control.value.trim()]));
  const code = el("code");
  const show = () => setText(code, command(values()));
  const result = el("p", { class: "result", role: "status" });
  const go = el("button", { class: danger ? "danger" : "main", text: verb });
  const cancel = button("Cancel", () => dialog.close());
  const form = el("form", { method: "dialog", oninput: show },
    el("p", { text }), ...inputs.map(({ node }) => node),
    el("div", { class: "command" }, code), result,
    el("div", { class: "buttons" }, cancel, go));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true;
    setText(result, "…");
    result.className = "result";
    try {
      setText(result, await run(values()));
      result.classList.add("good");
      setText(cancel, "Close");
      cancel.focus();
    } catch (error) {
      setText(result, error.message);
      result.classList.add("bad");
      go.disabled = false;
    }
  });
  show();
  const dialog = open(title, form);
  (inputs[0]?.control || go).focus();
  return dialog;
}

function input({ name, label, options, ...more }) {
  const control = options
    ? el("select", { name }, options.map(([value, text]) => el("option", { value, text, selected: value === more.value })))
    : el("input", { name, autocomplete: "off", maxlength: 1024, ...more });
  return { name, control, node: el("label", { class: "field" }, el("span", { text: label }), control) };
}
