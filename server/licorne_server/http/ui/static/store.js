// The one place where the page keeps what it knows. The feed and the visitor's choices change it,
// views read it and hear of changes. It knows nothing of elements.

const listeners = new Set();
let pending = null;

/** Everything that the page knows. Views only read it. */
export const state = {
  // connecting, live, lost, token (one is needed) or refused (no token would help), with the reason
  // in words.
  link: { state: "connecting", reason: "", retryAt: 0, restarted: 0 },
  server: null,
  // When the figures were true, by the server's clock, and how far that is ahead of ours, in ms.
  asOf: 0,
  ahead: 0,
  rms: new Map(),
  partitions: new Map(),
  // By partition, then by path.
  queues: new Map(),
  // Of each RM which events there are.
  logs: new Map(),
  // What is wrong, by the verdict of the server; those of severity "ok" do not count yet.
  findings: new Map(),
  // Whether the figures of this server have come.
  loaded: false,
  partition: "",
};

/** Calls back with what has changed, once for all that changes together; returns how to stop. */
export function subscribe(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function note(what, key) {
  if (pending === null) {
    pending = { link: false, rms: new Set(), partitions: new Set(), queues: new Map(), logs: new Set(), findings: new Set() };
    queueMicrotask(tell);
  }
  if (what === "link") pending.link = true;
  else if (what === "queues") {
    const [partition, path] = key;
    if (!pending.queues.has(partition)) pending.queues.set(partition, new Set());
    pending.queues.get(partition).add(path);
  } else pending[what].add(key);
}

function tell() {
  const changes = pending;
  pending = null;
  for (const listener of [...listeners]) listener(changes);
}

/** What the connection to the server is like. */
export function setLink(link) {
  Object.assign(state.link, link);
  note("link");
}

/** Which server this is. What another one has said is forgotten: it is not true any more. */
export function setServer(server) {
  if (state.server !== null && state.server.instance !== server.instance) {
    forgetAll();
    state.loaded = false;
    setLink({ restarted: server.started });
  }
  state.server = server;
}

/** What the server says is true now, at this time by its clock. */
export function setTime(now) {
  state.asOf = now;
  state.ahead = now - Date.now();
  if (state.link.state !== "live") setLink({ state: "live", reason: "", retryAt: 0 });
}

/** The time by the server's clock. */
export const now = () => Date.now() + state.ahead;

/** Which partition the lists are of. */
export function choosePartition(name) {
  if (name && name !== state.partition) {
    state.partition = name;
    note("partitions", name);
  }
}

/** Takes in what the feed says has changed; `whole` means that nothing else is there. */
export function apply(change) {
  setTime(change.time);
  if (!state.loaded) note("link");
  state.loaded = true;
  if (change.whole) forgetAll();
  for (const [kind, rm, partition, name] of change.gone || []) forget(kind, rm, partition, name);
  for (const row of change.rms || []) set("rms", row.id, row);
  for (const row of change.partitions || []) set("partitions", row.name, row);
  for (const row of change.logs || []) set("logs", row.rm, row);
  for (const row of change.findings || []) set("findings", row.id, row);
  for (const row of change.queues || []) {
    if (!state.queues.has(row.partition)) state.queues.set(row.partition, new Map());
    state.queues.get(row.partition).set(row.path, row);
    note("queues", [row.partition, row.path]);
  }
  if (!state.partitions.has(state.partition)) choosePartition(state.partitions.keys().next().value);
}

function set(kind, key, row) {
  state[kind].set(key, row);
  note(kind, key);
}

function forgetAll() {
  for (const name of state.partitions.keys()) note("partitions", name);
  for (const [partition, queues] of state.queues) {
    for (const path of queues.keys()) note("queues", [partition, path]);
  }
  for (const id of state.findings.keys()) note("findings", id);
  for (const kind of ["rms", "partitions", "queues", "logs", "findings"]) state[kind].clear();
}

function forget(kind, rm, partition, name) {
  if (kind === "queues") {
    state.queues.get(partition)?.delete(name);
    if (!state.queues.get(partition)?.size) state.queues.delete(partition);
    note("queues", [partition, name]);
  } else {
    const key = name || partition || rm;
    state[kind].delete(key);
    note(kind, key);
  }
}

/** The RM whose partition the lists are of; empty while no RM is known. */
export function chosenRm() {
  return state.partitions.get(state.partition)?.rm ?? state.rms.keys().next().value ?? "";
}

/** The findings, the worst first; with `counting` those that count. */
export function findings({ counting = false } = {}) {
  const order = ["down", "degraded", "ok"];
  const all = [...state.findings.values()].filter(({ severity }) => !counting || severity !== "ok");
  return all.sort((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity) || a.since - b.since || (a.id < b.id ? -1 : 1));
}

/** Partitions in order: those of one RM beside one another. */
export function partitions() {
  return [...state.partitions.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
}
