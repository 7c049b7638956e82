"""Accessibility faults of the page, found by a script that runs in the browser."""

FAULTS = """() => {
  const wrong = [];
  const shown = (node) => node.getClientRects().length > 0;
  const all = (what) => [...document.querySelectorAll(what)].filter(shown);
  const labelled = (node) => (node.getAttribute("aria-labelledby") || "").split(" ")
    .map((id) => document.getElementById(id)?.textContent || "").join("");
  const labels = (node) => [...(node.labels || [])].map((label) => label.textContent).join("");
  const name = (node) => (node.getAttribute("aria-label") || labelled(node) || labels(node)
    || node.textContent || node.title || node.querySelector("title")?.textContent || "").trim();
  const say = (fault, node) => wrong.push(`${fault}: ${node.outerHTML.slice(0, 120)}`);
  const ids = new Set();
  for (const node of document.querySelectorAll("[id]")) {
    if (ids.has(node.id)) say("an id that is there twice", node);
    ids.add(node.id);
  }
  const named = "[role=treeitem], [role=option], [role=img], [role=region], [role=dialog]";
  for (const node of all(`a, button, select, input, textarea, summary, ${named}`))
    if (!name(node)) say("a control without a name", node);
  for (const node of all("h1, h2, h3")) if (!node.textContent.trim()) say("an empty heading", node);
  if (all("h1").length !== 1) wrong.push(`${all("h1").length} headings of the first level`);
  for (const mark of ["main", "nav[aria-label]", "header", "footer", "[role=search]"])
    if (!document.querySelector(mark)) wrong.push(`no ${mark}`);
  for (const kind of ["aria-controls", "aria-describedby", "aria-activedescendant"])
    for (const node of document.querySelectorAll(`[${kind}]`))
      if (!document.getElementById(node.getAttribute(kind))) say(`${kind} of nothing`, node);
  const cells = "[role=cell], [role=columnheader], [role=rowheader]";
  for (const node of all("[role=table] [role=row]"))
    if (!node.querySelector(cells)) say("a row without cells", node);
  for (const node of all("[tabindex]")) if (node.tabIndex > 0) say("an order of its own", node);
  for (const node of all("a a, a button, button a, button button")) say("a control in a control", node);
  return wrong;
}"""
"""A script that returns faults of names, headings, landmarks, references and the order of focus."""
