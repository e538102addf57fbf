// Undo of a change of configuration: the values from before its entry in the audit log, for the editor.

import { fetchJson } from "../../api.js";
import { createAge, createCallout, createEmptyState } from "../../components.js";
import { h } from "../../dom.js";

/** Fetches the entry of the audit log with this id, null if it is not known what it changed of ``topic``. */
export async function fetchUndoneEntry(topic, id, signal) {
  const { entries } = await fetchJson("audit", { topic, entry: id }, signal);
  return entries[0]?.config_changes ? entries[0] : null;
}

/** Lists by key the values from before ``entry``; null: the default. */
export function listFormerValues(entry) {
  return Object.fromEntries(Object.entries(entry.config_changes).map(([name, [before]]) => [name, before]));
}

/** Proposes a reason that names the entry, as the command that undoes it does in the audit log. */
export function proposeReason(entry) {
  return `undoes ${entry.entry_id}`;
}

/** Creates the note above the fields. ``values``: what the topic sets; other values than the entry's are named. */
export function createUndoNote(entry, values) {
  const others = Object.entries(entry.config_changes).filter(([name, pair]) => !pair.includes(values[name] ?? null));
  const names = Object.keys(entry.config_changes).join(", ");
  const said = h(
    "p",
    { class: "quiet" },
    `The values from before the change by ${entry.actor}, `,
    createAge(entry.at_ms),
    `, are in the fields: ${names}.`,
  );
  return h("div", { class: "undo-note" }, said, others.length === 0 ? null : createConflict(others, values));
}

function createConflict(others, values) {
  const named = others.map(([name]) => `${name} is ${values[name] ?? "not set"}`).join(", ");
  const effect = h("p", {}, `${named}. Applying this would take back that later change, too.`);
  return createCallout("overdue", "Changed again since.", effect);
}

/** Creates what stands in place of the note if there is nothing to fill in. */
export function createUndoRefusal() {
  return createEmptyState("This entry of the audit log is gone, or does not say what it changed of this topic.");
}
