// Makes elements. Text only ever becomes text: nothing here takes HTML.

const SVG = "http://www.w3.org/2000/svg";

// From so many characters on a name may be too long for its place; so many of its end stay then.
const LONG = 14;
const KEPT = 8;

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

/** A link within the page. A name stays on one line; a title adds to what the name says by itself. */
export function link(href, text, { class: kind, title, ...attributes } = {}) {
  if (/\s/.test(text)) return el("a", { href, text, class: kind, title, ...attributes });
  const long = text.length >= LONG;
  return el("a", {
    href, class: ["one", kind].filter(Boolean).join(" "), title: [long && text, title].filter(Boolean).join(" ") || null, "aria-label": long ? text : null, ...attributes,
  }, long ? halves(text) : text);
}

/** A name that leads nowhere, on one line as well. */
export function nameText(text, kind = "") {
  const long = text.length >= LONG;
  return el("span", { class: `one ${kind}`.trim(), title: long ? text : null }, long ? halves(text) : text);
}

/** The parts of a long name: where there is no room for it the first is cut at its end, so that the name lacks its middle. */
const halves = (text) => [el("span", { class: "first", text: text.slice(0, -KEPT) }), el("span", { class: "last", text: text.slice(-KEPT) })];

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
