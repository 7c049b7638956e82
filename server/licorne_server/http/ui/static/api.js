// Asks the server. The token, where one is needed, is kept for this tab only.

const KEY = "licorne-token";

/** What the server refused, or why it could not be asked; `problems` are { field, description }. */
export class Failure extends Error {
  constructor(status, message, problems = []) {
    super(message);
    Object.assign(this, { status, problems });
  }
}

export function token() {
  return sessionStorage.getItem(KEY) || "";
}

export function setToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** A path below the page's own address, so that a proxy may put something in front. */
export function address(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value !== undefined && value !== false);
  const search = new URLSearchParams(given).toString();
  return path + (search ? `?${search}` : "");
}

/** A path of a partition's own. */
export function ofPartition(partition, ...names) {
  return ["ui/api/partition", ...[partition, ...names].map(segment)].join("/");
}

/** A name in a path. Browsers take dots out of one in any spelling, so a tilde stands before them. */
function segment(name) {
  return encodeURIComponent(/^~*\.{1,2}$/.test(name) ? `~${name}` : name);
}

export function headers() {
  return token() ? { Authorization: `Bearer ${token()}` } : {};
}

/** The JSON of an answer. Throws a Failure, or an AbortError. */
export async function get(path, query, signal) {
  return answer(address(path, query), { headers: headers(), signal, cache: "no-store" });
}

/** The JSON of the answer to a text. */
export async function post(path, body, signal) {
  return answer(path, { method: "POST", body, headers: headers(), signal });
}

/** The JSON of the answer to an object. */
export async function postJson(path, body, signal) {
  return answer(path, { method: "POST", signal, body: JSON.stringify(body), headers: { ...headers(), "Content-Type": "application/json" } });
}

async function answer(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "the server does not answer");
  }
  if (!response.ok) throw await failure(response);
  return response.json();
}

/** What a refusal says. */
export async function failure(response) {
  try {
    const { message, error, problems } = await response.json();
    return new Failure(response.status, error || message || response.statusText, problems);
  } catch {
    return new Failure(response.status, response.statusText || `status ${response.status}`);
  }
}
