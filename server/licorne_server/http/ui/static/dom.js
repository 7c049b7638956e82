// Makes elements. Text only ever becomes text: nothing here takes HTML.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with attributes and children. `class`, `text` and `on…` mean what they say; null,
 * undefined and false leave an attribute out, true makes it empty. Children are nodes or texts.
 */
export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for a shape. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else setAttribute(node, name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : String(value));
}

/** Sets a text only where it is another one, so that nothing is drawn for nothing. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Puts these children into a node, in this order, and moves as few as it can. */
export function place(parent, children) {
  let next = parent.firstChild;
  for (const child of children) {
    if (child === next) next = next.nextSibling;
    else parent.insertBefore(child, next);
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/** A link within the page. */
export function link(href, text, attributes = {}) {
  return el("a", { href, text, ...attributes });
}

/** A word that marks something, such as "draining". */
export function badge(text, tone = "plain", title = "") {
  return el("span", { class: `badge ${tone}`, text, title: title || null });
}

/** A list of names and values; values are nodes or texts, and null leaves the pair out. */
export function facts(pairs) {
  const list = el("dl", { class: "facts" });
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === "") continue;
    list.append(el("div", {}, el("dt", { text: name }), el("dd", {}, value)));
  }
  return list;
}

/** A choice among values, each of which has a name. */
export function choice(label, options, value, onchange) {
  const select = el("select", { "aria-label": label, onchange: () => onchange(select.value) });
  setOptions(select, options, value);
  return el("label", { class: "field" }, el("span", { text: label }), select);
}

export function setOptions(select, options, value) {
  select.replaceChildren(
    ...options.map(([key, name]) => el("option", { value: key, text: name, selected: key === value })),
  );
}

/** A field for what is searched for. It tells when nothing has been typed for a moment. */
export function searchField(label, value, onsearch, placeholder = null) {
  let timer = 0;
  const input = el("input", {
    type: "search", value, placeholder, "aria-label": label, autocomplete: "off", spellcheck: "false",
    maxlength: 256,
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => onsearch(input.value.trim()), 250);
    },
  });
  return el("label", { class: "field grow" }, el("span", { text: label }), input);
}

/** A button. */
export function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", text, onclick, ...attributes });
}

/** A part of a page with a heading. */
export function section(title, ...children) {
  return el("section", { class: "panel" }, el("h2", { text: title }), ...children);
}

/** A sentence where there is nothing else to show. */
export function note(text, attributes = {}) {
  return el("p", { class: "note", text, ...attributes });
}
