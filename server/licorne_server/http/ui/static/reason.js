// Why an ask waits, in the words of the check that stops it, as a link to its explanation; and what an
// allocation has to make room for.

import { codeInWords } from "./codes.js";
import { badge, el, link } from "./dom.js";
import { toAsk, toQueue } from "./route.js";
import { humanText } from "./units.js";
import { when } from "./when.js";

/** `reason` is { code, text, key } as lists have it; a dash for none. The title has it whole, with the code. */
export function reasonLink(partition, app, reason) {
  if (!reason?.code) return "–";
  const text = reason.text ? humanText(reason.text) : codeInWords(reason.code);
  return link(toAsk(partition, app, reason.key), text, { title: `${reason.code}: ${text}` });
}

/** The marks of an allocation that is being stopped, or is under notice: { deadline, forApplication, forKey, forQueue }. */
export function stopMarks(partition, { stopping, notice }) {
  if (stopping) return [badge(`stopping: ${stopping}`, "warn")];
  if (!notice) return [];
  const whom = notice.forKey
    ? link(toAsk(partition, notice.forApplication, notice.forKey), notice.forKey, { title: `of ${notice.forApplication} in ${notice.forQueue}` })
    : link(toQueue(partition, notice.forQueue), notice.forQueue, { title: "its maximum was lowered" });
  return [badge("under notice", "warn", "its RM was told that it will be preempted"), el("span", { class: "summary" }, "for ", whom, ", stops at ", when(notice.deadline))];
}
