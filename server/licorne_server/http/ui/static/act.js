// What operators do from the page. Each action is a button that opens a dialog with the command line of
// the same, and goes to the server in one form: POST ui/api/act. Viewers see no such button.

import { postJson } from "./api.js";
import { commandLine, ofThe, option } from "./copy.js";
import { confirm } from "./dialog.js";
import { button } from "./dom.js";
import { icon } from "./icons.js";
import { state } from "./store.js";

const MESSAGE = { name: "message", label: "Why (kept, and shown to everybody)", placeholder: "such as: disk is being replaced" };

const of = (given) => (typeof given === "function" ? given : () => given);

/** Whether the visitor may do things. What an RM may do is said by the server when it tries. */
export function mayAct() {
  return ["open", "operator", "rm"].includes(state.server?.role);
}

/**
 * A button that does `act` to something, or null for who may do nothing. `words` are those of the
 * command before the options, `text` says what will happen, `fields` adds to the message, `more(values)`
 * gives the fields of the request, `told(answer)` the result in words, and `done()` is called after it.
 * `danger` marks what stops work; it, `text` and `verb` may be functions of the values. A command with
 * a `danger` asks, unless it has --yes. What is of an RM as a whole has `rm` instead of a partition.
 */
export function actButton({ act, label, mark, partition, rm = state.partitions.get(partition)?.rm ?? "", name, words, text, fields = [], options = () => [], more = () => ({}), told, danger = false, done = () => {}, verb = label, title = `${label}: ${name}` }) {
  if (!mayAct()) return null;
  const command = ({ message, ...values }) =>
    commandLine(...words, ...(partition ? ofThe(partition) : ["--rm", rm]), ...options(values), ...(message ? option("--message", message) : []), ...(danger ? ["--yes"] : []));
  const run = async ({ message, ...values }) => {
    const answer = await postJson("ui/api/act", { act, rm, partition, name, message, ...more(values) });
    done();
    if (answer.changed === false) return "Nothing was changed: it was so already.";
    return told?.(answer) || "Done. The server has written it to its audit log.";
  };
  const made = button("", () => confirm({ title, text: of(text), fields: [...fields, MESSAGE], command, verb: of(verb), danger: of(danger), run }), { "data-act": act });
  made.append(...(mark ? [icon(mark)] : []), label);
  return made;
}
