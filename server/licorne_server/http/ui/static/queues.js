// What there is to say of queues beyond their numbers.

import { state } from "./store.js";

/** The maximum that a queue's bar is measured by: its own, or that of the nearest queue above. */
export function scaleOf(partition, queue, name) {
  const queues = state.queues.get(partition);
  for (let at = queue; at; at = queues?.get(at.parent)) {
    if (name in at.max) return Number(at.max[name]);
  }
  return 0;
}

/** Whether a queue has all that it may have of a resource. */
export function isFull(queue) {
  return Object.entries(queue.max).some(([name, max]) => max > 0 && (queue.allocated[name] ?? 0) >= max);
}

/** Whether it waits for something of which it has less than it is guaranteed. */
export function isBelowGuarantee(queue) {
  return Object.entries(queue.guaranteed).some(
    ([name, guaranteed]) => (queue.pending[name] ?? 0) > 0 && (queue.allocated[name] ?? 0) < guaranteed,
  );
}

export const isWaiting = (queue) => Object.values(queue.pending).some((value) => value > 0);

/** The marks of a queue: words and their tones. */
export function marks(queue) {
  const found = [];
  if (queue.state !== "Active") found.push([queue.state.toLowerCase(), "warn"]);
  if (isFull(queue)) found.push([queue.parent ? "at maximum" : "full", "bad"]);
  if (isBelowGuarantee(queue)) found.push(["below guarantee", "warn"]);
  if (queue.maxApplications && queue.running >= queue.maxApplications) found.push(["all applications run that may", "warn"]);
  if (Object.values(queue.preempting).some((value) => value > 0)) found.push(["preempting", "warn"]);
  if (!queue.managed && queue.parent) found.push(["dynamic", "quiet"]);
  return found;
}

/** The paths of the queues above one, root first. */
export function above(path) {
  const names = path.split(".");
  return names.slice(0, -1).map((_, end) => names.slice(0, end + 1).join("."));
}

export const lastName = (path) => path.slice(path.lastIndexOf(".") + 1);
