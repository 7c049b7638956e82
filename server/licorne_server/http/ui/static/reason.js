// Why an ask waits, in the words of the check that stops it, as a link to its explanation.

import { codeInWords } from "./codes.js";
import { link } from "./dom.js";
import { toAsk } from "./route.js";
import { humanText } from "./units.js";

/** `reason` is { code, text, key } as lists have it; a dash for none. The code is in the title. */
export function reasonLink(partition, app, reason) {
  if (!reason?.code) return "–";
  return link(toAsk(partition, app, reason.key), reason.text ? humanText(reason.text) : codeInWords(reason.code), { title: `${reason.code}: ${codeInWords(reason.code)}` });
}
