// The address of a view is in the hash: #/queue/[rm]default/root.batch?tab=limits. So links to every
// view can be kept and sent, and the back button works.

/** The view, its arguments and its settings that a hash names. */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...names] = path.split("/").map(decoded);
  return { view: view || "overview", names, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The hash of a view. Settings that are empty are left out. */
export function to(view, names = [], query = {}) {
  const path = [view, ...names].map(encodeURIComponent).join("/");
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined);
  const search = new URLSearchParams(given).toString();
  return `#/${view === "overview" && !names.length ? "" : path}${search ? `?${search}` : ""}`;
}

export const toQueue = (partition, path) => to("queue", [partition, path]);
export const toApp = (partition, app) => to("application", [partition, app]);
export const toAsk = (partition, app, key) => to("ask", [partition, app, key]);
export const toNode = (partition, node) => to("node", [partition, node]);

/** Changes settings of the view that is shown. The back button then leads to the view before it. */
export function change(query) {
  const { view, names, query: before } = parse(location.hash);
  history.replaceState(null, "", to(view, names, { ...before, ...query }));
}
