// Dialogs. The browser's own <dialog> keeps the focus inside, closes on Escape and gives the focus back.

import { button, el, setAttribute, setText } from "./dom.js";
import { icon } from "./icons.js";

// How long after it has opened a second click belongs to the double click that opened it.
const DOUBLE_CLICK = 600;

/** Opens a dialog with a heading; returns it. It is gone when it is closed, or its view is left. */
export function open(title, ...children) {
  const opened = performance.now();
  const close = button("", () => dialog.close(), { class: "plain", "aria-label": "Close" });
  close.append(icon("close"));
  const heading = el("h2", { id: "dialog-title" }, title, el("span", { class: "hidden", text: " " }));
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, heading, ...children);
  close.style.position = "absolute";
  close.style.right = close.style.top = ".75rem";
  dialog.append(close);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.detail < 2 || event.timeStamp - opened > DOUBLE_CLICK) return;
    event.preventDefault();
    event.stopPropagation();
  }, { capture: true });
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Closes what is open: a dialog is about what the view behind it shows. */
export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
}

/**
 * Has the visitor confirm something: what it does in words, the command that does the same, fields, and
 * a line for the result. `run(values)` does it and gives that line; its failure is shown instead.
 * `fields` are { name, label, type, value, placeholder, required, options }; with `when(values)` a field is
 * there only if that is true, and `wants` says what it takes. While a field has something else there is
 * neither a command nor a button. `text`, `verb`, `danger` and `command` are functions of the values.
 */
export function confirm({ title, text, fields = [], command, verb, danger, run }) {
  const inputs = fields.map(input);
  const values = () => Object.fromEntries(inputs.filter(({ control }) => !control.disabled).map(({ name, control }) => [name, valueOf(control)]));
  const code = el("code");
  const said = el("p");
  const result = el("p", { class: "result", role: "status" });
  const go = el("button");
  const cancel = button("Cancel", () => dialog.close());
  const filled = el("fieldset", {}, inputs.map(({ node }) => node));
  const buttons = el("div", { class: "buttons" }, cancel, go);
  const form = el("form", { method: "dialog", oninput: show, onchange: show }, said, filled, el("div", { class: "command" }, code), result, buttons);

  function show() {
    for (const one of inputs) {
      one.control.disabled = one.node.hidden = !(one.when?.(values()) ?? true);
      const wrong = !fits(one.control);
      setAttribute(one.control, "aria-invalid", wrong);
      one.hint.hidden = !wrong;
    }
    const given = values();
    go.disabled = !inputs.every(({ control }) => fits(control));
    go.className = danger(given) ? "danger" : "main";
    setText(go, verb(given));
    setText(said, text(given));
    setText(code, go.disabled ? "" : command(given));
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (go.disabled) return;
    const given = values();
    go.disabled = filled.disabled = true;
    setText(result, "…");
    result.className = "result";
    try {
      setText(result, await run(given));
      result.classList.add("good");
      filled.remove();
      go.remove();
      setText(cancel, "Close");
      cancel.focus();
    } catch (error) {
      setText(result, error.message);
      result.classList.add("bad");
      filled.disabled = false;
      show();
    }
  });
  // A reason is typed and sent by Enter. What stops work is not: its button has to be pressed.
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target !== go && event.target !== cancel && danger(values())) event.preventDefault();
  });
  show();
  const dialog = open(title, form);
  (inputs[0]?.control || go).focus();
  return dialog;
}

/** What a field has; a number as every command takes it, whatever way it was typed. */
function valueOf(control) {
  return control.type === "number" && control.value ? String(control.valueAsNumber) : control.value.trim();
}

function fits(control) {
  return control.disabled || (control.checkValidity() && !(control.required && !control.value.trim()));
}

function input({ name, label, options, when, wants = "this is needed", ...more }) {
  const control = options
    ? el("select", { name }, options.map(([value, text]) => el("option", { value, text, selected: value === more.value })))
    : el("input", { name, autocomplete: "off", maxlength: 1024, ...more });
  const hint = el("p", { class: "hint", id: `wants-${name}`, text: wants });
  setAttribute(control, "aria-describedby", hint.id);
  return { name, control, when, hint, node: el("div", {}, el("label", { class: "field" }, el("span", { text: label }), control), hint) };
}
