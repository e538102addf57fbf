// The undo tab of a topic: its compactions, retention runs and deletions of records, newest first, and taking one back.
// The list starts a process on the server, so it is not asked again by the page's own refresh.

import { createTopicChangeButton, openTopicChangeDialog } from "../../actions.js";
import { encodePathPart, fetchJson, getServerTimeMs } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import {
  createButton,
  createCopyable,
  createEmptyState,
  createInstant,
  createLink,
  createRemainingTime,
  createSection,
} from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { h, insertBreakPoints, updateChildren } from "../../dom.js";
import {
  capitalize,
  EMPTY_VALUE,
  formatBytes,
  formatCount,
  formatCountWithNoun,
  formatDuration,
  shortenId,
} from "../../format.js";
import { buildHash } from "../../router.js";
import { createTable } from "../../table.js";
import { formatInstant } from "../../time-zone.js";

const FEW_CHANGES = 20;
const MANY_CHANGES = 100;
const MAXIMUM_PARTITIONS_SHOWN = 8;
const DELETION = "delete_records";
const KINDS = {
  compaction: { what: "compaction", noun: "compaction" },
  retention: { what: "retention", noun: "retention run" },
  [DELETION]: { what: "records deleted", noun: "deletion of records" },
};

/** Creates the undo tab of ``topic``. */
export function createUndoTab(topic) {
  const list = createAsyncPanel({ lines: 8 });
  const note = h("span", {}, "Possible while the files that a change replaced are there");
  let limit = 0;
  let chosen = "";

  function ask(wanted = limit || FEW_CHANGES) {
    limit = wanted;
    return list.load(
      (signal) => fetchChanges(topic, limit, signal),
      (answer) => {
        updateChildren(note, describeWindow(answer));
        return drawChanges(topic, answer, chosen, ask, askAgain);
      },
    );
  }

  // A DAG run may end long after somebody went to another tab.
  const askAgain = () => (element.isConnected ? ask() : null);
  const element = createSection(
    "Undo",
    {
      id: "undo",
      note,
      tools: createButton("Ask again", { shape: "refresh", key: "ask-again", onPress: () => ask() }),
    },
    list.element,
  );

  function update(query) {
    // A run's page leads here with its plan.
    chosen = query.change ?? "";
    return limit ? null : ask();
  }

  return { element, update, stop: list.stop };
}

async function fetchChanges(topic, limit, signal) {
  const path = `topics/${encodePathPart(topic)}`;
  const [answer, { health }] = await Promise.all([
    fetchJson(`${path}/changes`, { limit }, signal),
    fetchJson(`${path}/health`, {}, signal),
  ]);
  return { ...answer, health };
}

/** Describes how long a change can be undone, and what the files cost that are kept for it. */
function describeWindow({ grace_ms: graceMs, health }) {
  const cost = health
    ? ` and take ${formatBytes(health.retired_bytes)} in ${formatCountWithNoun(health.retired_files, "file")}`
    : "";
  return [
    "Replaced files stay for ",
    h("span", { "data-tip": "winnow.retired.grace.ms" }, formatDuration(graceMs)),
    `${cost}; until then a change can be undone`,
  ];
}

function drawChanges(topic, answer, chosen, ask, askAgain) {
  if (answer.changes.length === 0)
    return createEmptyState(
      "Nothing of this topic was compacted, retained or deleted yet.",
      h("p", {}, `The DAG ${nameDag("compact_topics")} and the command winnow compact compact what is due.`),
    );
  return [
    createTable({
      caption: `Changes of the log of ${topic}, newest first`,
      rows: answer.changes,
      rowClass: (row) => (row.change_id === chosen ? "is-tall is-selected" : "is-tall"),
      columns: [
        { key: "time", label: "When", heads: true, cell: (row) => createInstant(row.at_ms) },
        { key: "kind", label: "What", cell: (row) => KINDS[row.kind].what },
        { key: "change", label: "Plan", width: "is-name", cell: createChangeCell },
        {
          key: "partitions",
          label: "Partitions",
          cell: (row) => describePartitions(row.partitions, row.partitions_total),
        },
        {
          key: "back",
          label: "Would come back",
          align: "right",
          hint: "Into the log, less what the change wrote",
          cell: createReturnCell,
        },
        { key: "possible", label: "Possible", cell: createPossibleCell },
        { key: "undo", label: "", align: "right", cell: (row) => createUndoButton(topic, row, askAgain) },
      ],
    }),
    createMoreChanges(topic, answer, ask),
  ];
}

function createMoreChanges(topic, answer, ask) {
  if (!answer.has_more) return null;
  if (answer.changes.length < MANY_CHANGES)
    return createButton("Show older changes", { key: "more-changes", onPress: () => ask(MANY_CHANGES) });
  return h("p", { class: "quiet" }, `Older changes: winnow undo --list ${topic} --limit ${10 * MANY_CHANGES}`);
}

function createChangeCell(row) {
  if (row.kind === DELETION) return createCopyable(row.change_id, insertBreakPoints(row.change_id));
  const link = createLink(buildHash(["runs", row.change_id]), shortenId(row.change_id));
  return createCopyable(row.change_id, link);
}

function describePartitions(shown, total) {
  const left = total - Math.min(shown.length, MAXIMUM_PARTITIONS_SHOWN);
  const text = shown.slice(0, MAXIMUM_PARTITIONS_SHOWN).join(", ");
  return left ? `${text} and ${formatCount(left)} more` : text;
}

function namePartitions(shown, total) {
  return `${total === 1 ? "partition" : "partitions"} ${describePartitions(shown, total)}`;
}

function createReturnCell(row) {
  if (!row.undoable) return h("span", { class: "quiet" }, EMPTY_VALUE);
  // Until a run has taken them, the deleted records are in files that never left the log.
  if (row.files === 0) return h("span", {}, row.kind === DELETION ? "what was deleted" : "no record");
  return [
    h("div", {}, formatCountWithNoun(row.records, "record")),
    h("small", {}, `${formatCountWithNoun(row.files, "file")}, ${formatBytes(row.size_bytes)}`),
  ];
}

function createPossibleCell(row) {
  const isWhole = row.undone_total === row.partitions_total;
  if (isWhole && row.undone_total) return h("span", { class: "quiet" }, `undone by ${row.undone_by}`);
  return [
    h("div", {}, row.undoable ? createEnd(row) : h("span", { class: "quiet", "data-tip": row.reason }, "no")),
    row.needs_later.length
      ? h("small", { "data-tip": row.reason }, `with ${formatCountWithNoun(row.needs_later.length, "later run")}`)
      : null,
    row.undone_total
      ? h("small", {}, `undone in ${namePartitions(row.undone_partitions, row.undone_total)} by ${row.undone_by}`)
      : null,
  ];
}

/** Creates how long a change can still be undone. */
function createEnd(row) {
  if (row.until_ms === null)
    return h("span", { "data-tip": "It needs no file that waits for its deletion" }, "no limit");
  if (row.until_ms <= getServerTimeMs())
    return h(
      "span",
      { "data-tip": `Since ${formatInstant(row.until_ms)} a sweep may delete its files` },
      "until a sweep",
    );
  return createRemainingTime(row.until_ms);
}

function createUndoButton(topic, row, askAgain) {
  const later = row.needs_later.length;
  return createTopicChangeButton("Undo", topic, {
    key: `undo-${row.change_id}`,
    disabledReason: row.undoable ? "" : `It cannot be undone: ${row.reason}`,
    onPress: () =>
      openTopicChangeDialog({
        title: `Undo this ${KINDS[row.kind].noun} of ${topic}?`,
        body: createPreview(row),
        confirmLabel: later ? `Undo with ${formatCountWithNoun(later, "later run")}` : "Undo",
        conf: () => ({ action: "undo", topic, change_id: row.change_id, and_later: later > 0 }),
        toast: `Undo of a ${KINDS[row.kind].noun} of ${topic}`,
        ended: askAgain,
      }),
  });
}

function createPreview(row) {
  return [
    h("p", {}, `${describeReturn(row)} What was committed since stays in the log.`),
    row.needs_later.length
      ? [
          h("p", {}, "Later runs worked on its result, so they are undone in the same commit, the newest first:"),
          h(
            "ul",
            { class: "name-list is-scrolled", tabindex: "0", "aria-label": "Later runs that are undone too" },
            row.needs_later.map((id) => h("li", {}, h("code", { "data-tip": id }, shortenId(id)))),
          ),
        ]
      : null,
    h(
      "p",
      {},
      `${describePause(row)}, so that the next run does not do the same again. DAGs that wait for this topic are told.`,
    ),
    createDeadlineText(row.until_ms),
  ];
}

function describePause(row) {
  const undone = new Set(row.undone_partitions);
  const numbers = row.partitions.filter((number) => !undone.has(number));
  const left = row.partitions_total - row.undone_total;
  const [are, them] = left === 1 ? ["is", "it"] : ["are", "them"];
  return `${capitalize(namePartitions(numbers, left))} ${are} paused until somebody resumes ${them}`;
}

function createDeadlineText(untilMs) {
  if (untilMs === null) return null;
  const text =
    untilMs <= getServerTimeMs()
      ? `Possible until a sweep: since ${formatInstant(untilMs)} the next one deletes the files.`
      : `Possible until ${formatInstant(untilMs)}. Then a sweep may delete the files.`;
  return h("p", { class: "quiet" }, text);
}

function describeReturn(row) {
  if (row.files === 0)
    return row.kind === DELETION
      ? "The log starts where it did before: what was deleted can be read again, by one commit."
      : "No record comes back.";
  const files = `${formatCountWithNoun(row.files, "file")} (${formatBytes(row.size_bytes)})`;
  const back = `${formatCountWithNoun(row.records, "record")} in ${files} come back into the log in one commit`;
  // Retention and deletion write nothing in place of what they take.
  return row.kind === "compaction" || row.needs_later.length
    ? `${back}; what was written in their place leaves it, and its files stay until their grace has passed.`
    : `${back}. The log starts where it did before.`;
}
