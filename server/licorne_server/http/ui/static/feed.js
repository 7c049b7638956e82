// Hears from the server what changes, and comes back by itself when the connection is lost.
// EventSource cannot send a token, so the events are read from a plain answer.

import { Failure, failure, headers } from "./api.js";
import { apply, setLink, setServer, setTime } from "./store.js";

const FIRST_RETRY = 500;
const LONGEST_RETRY = 8000;
// So many beats may be missed before the connection counts as lost.
const MISSED_BEATS = 3;
// How long a tab may be hidden before it stops listening: browsers have few connections to one host.
const HIDDEN = 15000;

let controller = null;
let retry = FIRST_RETRY;
let retryTimer = 0;
let silenceTimer = 0;
let hiddenTimer = 0;
let beat = 5000;

/** Listens, from now on and for as long as the tab is looked at. */
export function start() {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(rest, HIDDEN);
    else if (controller === null) restart();
  });
  listen();
}

/** Listens anew at once, such as with another token. */
export function restart() {
  retry = FIRST_RETRY;
  rest();
  listen();
}

function rest() {
  clearTimeout(retryTimer);
  clearTimeout(silenceTimer);
  controller?.abort();
  controller = null;
}

async function listen() {
  const mine = new AbortController();
  controller = mine;
  clearTimeout(retryTimer);
  try {
    const response = await fetch("ui/api/feed", { headers: headers(), signal: mine.signal, cache: "no-store" });
    if (!response.ok) throw await failure(response);
    await read(response.body.getReader(), mine);
    throw new Failure(0, "the connection was closed");
  } catch (error) {
    if (controller !== mine) return;
    controller = null;
    clearTimeout(silenceTimer);
    lost(error);
  }
}

function lost(error) {
  const barred = { 401: "token", 403: "refused" }[error.status];
  if (barred) {
    setLink({ state: barred, reason: error.message, retryAt: 0 });
    return;
  }
  const reason = error instanceof Failure && error.message ? error.message : "the server does not answer";
  setLink({ state: "lost", reason, retryAt: Date.now() + retry });
  if (!document.hidden) retryTimer = setTimeout(listen, retry);
  retry = Math.min(LONGEST_RETRY, retry * 2);
}

/** Reads events, which end with an empty line, until the answer ends. */
async function read(reader, mine) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    clearTimeout(silenceTimer);
    silenceTimer = setTimeout(() => reader.cancel(), beat * MISSED_BEATS);
    const { done, value } = await reader.read();
    if (done || controller !== mine) return;
    // A long event comes in many parts: its end is looked for in what is new.
    const from = Math.max(0, text.length - 1);
    text += decoder.decode(value, { stream: true });
    for (let end = text.indexOf("\n\n", from); end >= 0; end = text.indexOf("\n\n")) {
      take(text.slice(0, end));
      text = text.slice(end + 2);
    }
  }
}

function take(message) {
  const fields = new Map(message.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
  const data = JSON.parse(fields.get("data"));
  switch (fields.get("event")) {
    case "hello":
      beat = data.beat;
      retry = FIRST_RETRY;
      setServer(data);
      break;
    case "change":
      apply(data);
      break;
    case "beat":
      setTime(data.time);
      break;
    case "bye":
      throw new Failure(0, data.reason);
  }
}
