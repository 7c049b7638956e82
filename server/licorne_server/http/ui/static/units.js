// Amounts and times as people write them. Resources come in bytes, milli-cores or counts.

const BYTE_NAMES = new Set(["memory", "ephemeral-storage", "storage"]);
const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A count: 12,345. */
export const count = (value) => plain.format(value);

/** "1 node", "3 nodes". */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

export function isBytes(name) {
  return BYTE_NAMES.has(name) || name.startsWith("hugepages-");
}

/** Three digits that matter: 0.25, 1.5, 12.4, 128, 4,096, 48.9M. */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return compact.format(value);
  const digits = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return Number(value.toFixed(digits)).toLocaleString("en");
}

/** The number and the unit of an amount, in the unit that fits `like`. */
function parts(name, amount, like = amount) {
  if (name === "vcore") return [short(amount / 1000), amount === 1000 ? "core" : "cores"];
  if (!isBytes(name)) return [count(amount), name === "pods" ? (amount === 1 ? "pod" : "pods") : ""];
  const size = Math.abs(like);
  let unit = 0;
  while (size / 1024 ** unit >= 1023.5 && unit < BINARY.length - 1) unit += 1;
  return [short(amount / 1024 ** unit), BINARY[unit]];
}

/** An amount with its unit: "12.5 cores", "3 GiB", "4". */
export function amount(name, value) {
  return parts(name, value).filter(Boolean).join(" ");
}

/** Two amounts in one unit: "12.5 / 40 cores". Without the second only the first. */
export function amountOf(name, used, max) {
  if (max === undefined || max === null) return amount(name, used);
  const [first] = parts(name, used, max);
  const [second, unit] = parts(name, max);
  return `${first} / ${second} ${unit}`.trim();
}

/** An amount over hours: "12.5 core-hours", "40 GiB-hours". */
export function lost(name, value) {
  const [number, unit] = parts(name, value);
  return `${number} ${unit === "cores" || unit === "core" ? "core" : unit}-${number === "1" ? "hour" : "hours"}`;
}

/** The same of any resource, with three digits that matter: "0.25 gpu-hours". */
export const hours = (name, value) => (name === "vcore" || isBytes(name) ? lost(name, value) : `${short(value)} ${name}-hours`);

/** All amounts over hours in one line. */
export const hoursOf = (map) => sortedNames(Object.keys(map)).map((name) => hours(name, map[name])).join(", ");

/** All amounts of a resource in one line, the known ones first. */
export function resources(map) {
  const names = sortedNames(Object.keys(map || {}));
  return names.map((name) => `${name} ${amount(name, Number(map[name]))}`).join(", ") || "–";
}

/** The same for people who have little room, without the names that go without saying. */
export function brief(map) {
  const names = sortedNames(Object.keys(map || {})).filter((name) => Number(map[name]) !== 0);
  const own = (name) => name === "vcore" || isBytes(name) || name === "pods";
  const text = names.map((name) => amount(name, Number(map[name])) + (own(name) ? "" : ` ${name}`));
  return text.join(" · ") || "–";
}

/** Names of resources, vcore and memory before the others. */
export function sortedNames(names) {
  const rank = (name) => (name === "vcore" ? 0 : name === "memory" ? 1 : 2);
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0));
}

export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  return `${value > 0 && value < 1 ? value.toFixed(1) : Math.round(value)} %`;
}

// One clock for all who look, that of the commands: UTC.
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", timeZone: "UTC" });
const local = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" });

/** The time of day with its zone, as commands write it, and with the day if that is not today; a dash for none. */
export function time(ms) {
  if (!ms) return "–";
  const today = day.format(ms) === day.format(Date.now());
  return today ? `${clock.format(ms)}Z` : dayAndTime(ms);
}

/** The day and the time of day. */
export const dayAndTime = (ms) => `${day.format(ms)}, ${clock.format(ms)}Z`;

const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

/** The time of day without its seconds, for axes. */
export const hourAndMinute = (ms) => `${minutes.format(ms)}Z`;

/** The time of day where the reader is, with its zone. */
export const localTime = (ms) => local.format(ms);

/** A priority; the lowest number stands for none, such as that of a queue in which nothing waits. */
export const priority = (value) => (value === undefined || value <= -2147483648 ? "–" : count(value));

/** Nanoseconds, as REST has them, in milliseconds. */
export const fromNanoseconds = (value) => Math.round(Number(value || 0) / 1e6);

/** A span: 450 ms, 12 s, 3 min 5 s, 2 h 4 min, 5 d 3 h. */
export function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const steps = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const from = steps.findIndex(([size]) => seconds >= size);
  const [[big, bigUnit], next] = [steps[from], steps[from + 1]];
  const rest = Math.floor((seconds % big) / next[0]);
  return `${Math.floor(seconds / big)} ${bigUnit}${rest ? ` ${rest} ${next[1]}` : ""}`;
}

/** Why an ask does not run on the node reserved for it, with what is missing there. */
export function reasonText(text, lacks) {
  return humanText(text) + (Object.keys(lacks).length ? `, lacks ${resources(lacks)}` : "");
}

const QUANTITY = /([\w./-]+)=(-?[\d.]+)([KMGTPE]i|m)?(?![\w.])/g;
const QUANTITIES = new RegExp(`(?:${QUANTITY.source}(?:,(?=[\\w./-]+=))?)+`, "g");

// As the older core writes amounts in its events.
const OLDER = /map\[((?:[\w./-]+:-?\d+ ?)*)\]/g;

/** A sentence of the core's with its amounts, such as memory=4Gi,vcore=500m, in our units. */
export function humanText(text) {
  const plainer = text.replace(OLDER, (_, amounts) => resources(Object.fromEntries(amounts.trim().split(" ").filter(Boolean).map((pair) => pair.split(":")))).replace("–", "nothing"));
  return plainer.replace(QUANTITIES, (all) => [...all.matchAll(QUANTITY)].map(([, name, number, unit]) => {
    const factor = unit === "m" ? 1 / 1000 : unit ? 1024 ** BINARY.indexOf(`${unit}B`) : 1;
    return `${name} ${amount(name, Math.round(Number(number) * factor * (name === "vcore" ? 1000 : 1)))}`;
  }).join(", "));
}
