// Copying: names beside a link, and the command line that shows the same as a view.

import { el, link, setAttribute } from "./dom.js";
import { icon } from "./icons.js";

/** A button that puts a text into the clipboard, and says so. */
export function copyButton(text, what = text, attributes = {}) {
  const button = el("button", { type: "button", class: "plain copy", title: `Copy ${what}`, "aria-label": `Copy ${what}`, ...attributes }, icon("copy"));
  button.addEventListener("click", async (event) => {
    event.stopPropagation();
    const done = await copied(text);
    button.classList.toggle("done", done);
    button.replaceChildren(icon(done ? "done" : "close"));
    setAttribute(button, "aria-label", done ? "Copied" : "The browser does not let this page copy");
    setTimeout(() => {
      button.classList.remove("done");
      button.replaceChildren(icon("copy"));
      setAttribute(button, "aria-label", `Copy ${what}`);
    }, 1500);
  });
  return button;
}

/** Copies a text. Over plain HTTP browsers have no clipboard, but they copy what is selected. */
async function copied(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false;
    }
  }
  const area = el("textarea", { class: "hidden", readonly: true });
  area.value = text;
  (document.querySelector("dialog[open]") || document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** A link to something with a button beside it that copies its name; for the first column of a list. */
export function named(href, text, attributes = {}) {
  return el("span", { class: "named" }, link(href, text, { class: "name", ...attributes }), copyButton(text, text, { tabindex: -1 }));
}

/** A command line of these words, quoted as a shell needs it; empty words are left out. */
export function commandLine(...words) {
  return ["licorne", ...words.filter((word) => word !== "" && word !== null && word !== undefined)].map(quoted).join(" ");
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? String(word) : `'${String(word).replaceAll("'", `'\\''`)}'`;
}

/** An option and its value, which may begin with a dash. */
export function option(name, value) {
  return String(value).startsWith("-") ? [`${name}=${value}`] : [name, value];
}

/** The options that name a partition; none for the one that is meant anyway. */
export function ofThe(partition) {
  const [, rm, name] = /^\[(.*?)\](.*)$/.exec(partition) || ["", "", "", partition];
  return [...(rm ? ["--rm", rm] : []), ...(name && name !== "default" ? ["--partition", name] : [])];
}

/** A line with a command and a button that copies it. */
export function commandShown(text) {
  return [el("code", { text, title: text }), copyButton(text, "this command")];
}
