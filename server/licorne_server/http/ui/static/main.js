// Begins everything: shows the view that the address names, and says what the connection is like.

import { setToken, token } from "./api.js";
import { commandShown, copyButton } from "./copy.js";
import { closeAll } from "./dialog.js";
import { el, link, place, section, setAttribute, setOptions, setText } from "./dom.js";
import { restart, start } from "./feed.js";
import { icon } from "./icons.js";
import { startKeys } from "./keys.js";
import { parse, to } from "./route.js";
import { ownerOf, showShell, startShell } from "./shell.js";
import { choosePartition, findings, partitions, state, subscribe } from "./store.js";
import { startTheme } from "./theme.js";
import { dayAndTime, span, time } from "./units.js";
import { findingParts } from "./when.js";
import * as application from "./application.js";
import * as applications from "./applications.js";
import * as ask from "./ask.js";
import * as calendar from "./calendar.js";
import * as configuration from "./configuration.js";
import * as events from "./events.js";
import * as node from "./node.js";
import * as nodes from "./nodes.js";
import * as overview from "./overview.js";
import * as people from "./people.js";
import * as preemptions from "./preemptions.js";
import * as queue from "./queue.js";
import * as rms from "./rms.js";
import * as search from "./search.js";

const VIEWS = {
  overview: overview.view, queue: queue.view, applications: applications.view, application: application.view,
  ask: ask.view, calendar: calendar.view, nodes: nodes.view, node: node.view, users: people.list("user"), groups: people.list("group"),
  user: people.one("user"), group: people.one("group"), preemptions: preemptions.view, events: events.view,
  configuration: configuration.view, rms: rms.view, search: search.view,
};

// Views whose address begins with a partition.
const OF_PARTITION = ["applications", "nodes", "users", "groups", "preemptions", "calendar"];

// Views that have something to show although no RM is registered.
const WITHOUT_RM = ["configuration", "search"];

const MAX_FINDINGS = 3;

const byId = (id) => document.getElementById(id);
const navigation = document.querySelector("nav.main");
let shown = null;
let phase = "";

function show() {
  const { view: name, names, query } = parse(location.hash);
  const make = VIEWS[name] || missing;
  shown?.close?.();
  shown = null;
  closeAll();
  phase = phaseNow();
  if (["connecting", "token", "refused"].includes(state.link.state)) return;
  shown = phase === "loading" ? loading() : phase === "empty" && !WITHOUT_RM.includes(name) ? nobody() : make(names, query);
  setText(byId("title"), shown.title);
  document.title = `${shown.title} – Licorne`;
  place(byId("crumbs"), (shown.crumbs || []).map(([href, text]) => el("li", {}, link(href, text))));
  showHead();
  place(byId("view"), [shown.node]);
  showShell(navigation, name);
}

/** What stands beside the title: what it is of, what can be done, and the command that shows the same. */
function showHead() {
  const { partition, name, actions, command } = shown;
  place(byId("of"), [name ? copyButton(name) : null, partition || ""].filter(Boolean).map((item) => (typeof item === "string" ? document.createTextNode(item) : item)));
  place(byId("actions"), actions ? [actions] : []);
  place(byId("command"), command ? commandShown(command) : []);
  byId("command").hidden = !command;
}

/**
 * Whether the figures are still on their way, or there is nothing to look at: no RM is registered, or none that
 * the visitor may see. While a member or the store is silent nobody knows that.
 */
function phaseNow() {
  if (!state.loaded) return "loading";
  const unknown = findings().some(({ concern }) => concern === "member" || concern === "store");
  return state.link.state === "live" && state.rms.size === 0 && !unknown ? "empty" : "full";
}

function loading() {
  return { title: "Loading …", node: el("p", { class: "note", text: "The figures of this server are on their way." }) };
}

function nobody() {
  const role = state.server?.role;
  const when = role === "rm" ? "You see one RM only. This page fills itself as soon as that one has registered." : "This page fills itself as soon as one has.";
  // A server that knows who registers refuses a fake RM that shows neither token nor certificate.
  const pretended = role !== "open" ? [] : [
    el("p", {}, "To see something without an RM of your own, start one that only pretends, where the server runs:"),
    el("p", {}, el("code", { text: "licorne fake-rm" })),
  ];
  return {
    title: "Nothing here yet",
    node: section(`${rms.noneRegistered()} yet`,
      el("p", { text: `A resource manager (RM) registers with its client, over this server’s gRPC address. ${when}` }), ...pretended),
  };
}

function missing() {
  return { title: "There is no such page", node: el("p", {}, link(to("overview"), "To the overview")) };
}

function showPartitions() {
  const select = byId("partition");
  const options = partitions().map(({ name }) => [name, name]);
  byId("partition-field").hidden = options.length < 2;
  if (document.activeElement !== select || select.options.length !== options.length) setOptions(select, options, state.partition);
}

/** Says what the connection is like, and dims what may not be true any more. */
function showLink() {
  const { state: now, reason, retryAt, restarted } = state.link;
  document.body.dataset.link = now;
  setAttribute(byId("view"), "aria-disabled", now === "lost" ? "true" : null);
  const words = { connecting: "connecting …", live: "live", lost: "connection lost", token: "token needed", refused: "refused" };
  setText(byId("link"), words[now]);
  byId("banner").hidden = now !== "lost";
  if (now === "lost") {
    const wait = Math.max(0, retryAt - Date.now());
    const old = state.asOf ? ` What is shown is of ${time(state.asOf)}.` : "";
    setText(byId("banner-text"), `Connection lost: ${reason}.${old} ${wait > 0 ? `Trying again in ${span(Math.ceil(wait / 1000) * 1000)}.` : "Trying …"}`);
  }
  setText(byId("restarted"), restarted ? `The server was started again at ${time(restarted)}.` : "");
  byId("restarted").hidden = !restarted || now !== "live";
  byId("token").hidden = now !== "token";
  setText(byId("token-reason"), token() ? `${reason}: the token that is set is not taken.` : "This server wants a token.");
  byId("refused").hidden = now !== "refused";
  setText(byId("refused-reason"), now === "refused" ? `This server shows nothing here: ${reason}.` : "");
  byId("forget").hidden = !token() || now === "token";
  showServer();
}

/** Says what is wrong, the worst first, and since when. */
function showFindings() {
  const found = findings({ counting: true });
  const banner = byId("findings");
  banner.hidden = !found.length;
  banner.classList.toggle("bad", found[0]?.severity === "down");
  const more = found.length - MAX_FINDINGS;
  place(banner, found.slice(0, MAX_FINDINGS).map((one) => el("div", {}, el("strong", { text: `${one.severity}: ` }), ...findingParts(one))));
  if (more > 0) banner.append(el("div", { text: `and ${more} more, see the overview` }));
}

function showServer() {
  const { server } = state;
  if (server === null) return;
  const roles = { open: "", rm: "as an RM, which sees its own only", viewer: "as a viewer, who sees everything", operator: "as an operator" };
  setText(byId("server"), [`Licorne ${server.version}`, `up since ${dayAndTime(server.started)}`, roles[server.role]].filter(Boolean).join(", "));
}

function listen() {
  subscribe((changes) => {
    if (changes.link) showLink();
    if (changes.partitions.size) showPartitions();
    if (changes.partitions.size || changes.rms.size || changes.findings.size) showShell(navigation, parse(location.hash).view);
    if (changes.findings.size) showFindings();
    if (shown === null || phaseNow() !== phase) show();
    else shown.update?.(changes);
  });
  addEventListener("hashchange", () => {
    show();
    byId("title").focus({ preventScroll: true });
    scrollTo(0, 0);
  });
  setInterval(() => state.link.state === "lost" && showLink(), 1000);
  byId("partition").addEventListener("change", (event) => changePartition(event.target.value));
  byId("token").addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(byId("token-text").value.trim());
    byId("token-text").value = "";
    restart();
  });
  byId("forget").addEventListener("click", () => {
    setToken("");
    location.reload();
  });
  for (const id of ["again", "ask-again"]) byId(id).addEventListener("click", restart);
  byId("skip").addEventListener("click", () => byId("title").focus());
}

function changePartition(name) {
  choosePartition(name);
  const { view: of } = parse(location.hash);
  const list = [of, ownerOf(of)].find((view) => OF_PARTITION.includes(view));
  if (list) location.hash = to(list, [name]);
}

startShell(navigation);
startTheme(byId("theme"));
startKeys(byId("keys"));
byId("keys").append(icon("keys"));
byId("search").prepend(icon("search"));
new search.SearchField(byId("search"), byId("q"));
listen();
showLink();
start();
