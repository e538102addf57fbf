// The ingests tab of a topic: the calls of ingest, newest first, and taking one back.
// The list starts a process on the server, so it is not asked again by the page's own refresh.

import { createTopicChangeButton, openTopicChangeDialog } from "../../actions.js";
import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createCopyable, createEmptyState, createInstant, createSection } from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatCount, formatCountWithNoun } from "../../format.js";
import { createTable } from "../../table.js";

const FEW_CALLS = 50;
const MANY_CALLS = 500;
const MAXIMUM_PARTITIONS_SHOWN = 3;

/** Creates the ingests tab of ``topic``. */
export function createIngestsTab(topic) {
  const list = createAsyncPanel({ lines: 8 });
  let limit = 0;

  function ask(wanted) {
    limit = wanted;
    return list.load(
      (signal) => fetchJson(`topics/${encodePathPart(topic)}/ingests`, { limit }, signal),
      (answer) => drawCalls(topic, answer, ask),
    );
  }

  const element = createSection(
    "Ingest calls",
    {
      id: "ingests",
      note: "The newest call of its partitions can be undone while nothing of it was compacted, retained or deleted",
      tools: createButton("Ask again", { shape: "refresh", key: "ask-again", onPress: () => ask(limit || FEW_CALLS) }),
    },
    list.element,
  );
  const update = () => (limit ? null : ask(FEW_CALLS));
  return { element, update, stop: list.stop };
}

function drawCalls(topic, answer, ask) {
  if (answer.total === 0)
    return createEmptyState(
      "Nothing was ingested into this topic yet.",
      h("p", {}, `The DAG ${nameDag("ingest_topics")} and the command winnow ingest append records to it.`),
    );
  const left = answer.total - answer.calls.length;
  return [
    createTable({
      caption: `Ingest calls of ${topic}, newest first`,
      rows: answer.calls,
      rowClass: () => "is-tall",
      columns: [
        { key: "time", label: "As of", heads: true, cell: (row) => createInstant(row.as_of_ms) },
        { key: "id", label: "Ingest call", cell: (row) => createCopyable(row.ingest_id) },
        { key: "files", label: "Files", align: "right", cell: (row) => formatCount(row.files) },
        { key: "appended", label: "Appended", align: "right", cell: (row) => formatCount(row.records_appended) },
        {
          key: "skipped",
          label: "Skipped",
          align: "right",
          hint: "Records that were in the log already",
          cell: (row) => formatCount(row.records_skipped),
        },
        {
          key: "quarantined",
          label: "Quarantined",
          align: "right",
          hint: "Records without a key; winnow read --quarantined shows them",
          cell: (row) => (row.records_quarantined ? formatCount(row.records_quarantined) : EMPTY_VALUE),
        },
        ...(answer.calls.some((row) => row.records_erased)
          ? [
              {
                key: "erased",
                label: "Of erased keys",
                align: "right",
                hint: "Old copies of erased keys, which were left out",
                cell: (row) => (row.records_erased ? formatCount(row.records_erased) : EMPTY_VALUE),
              },
            ]
          : []),
        { key: "offsets", label: "Offsets", cell: createOffsets },
        { key: "undo", label: "", align: "right", cell: (row) => createUndoButton(topic, row) },
      ],
    }),
    left > 0 && answer.calls.length < MANY_CALLS
      ? createButton(`Show ${formatCountWithNoun(Math.min(left, MANY_CALLS - answer.calls.length), "older call")}`, {
          key: "more-calls",
          onPress: () => ask(MANY_CALLS),
        })
      : null,
    left > 0 && answer.calls.length >= MANY_CALLS
      ? h(
          "p",
          { class: "quiet" },
          `${formatCountWithNoun(left, "older call")}: winnow ingest list ${topic} --limit ${answer.total}`,
        )
      : null,
  ];
}

function createOffsets(row) {
  const parts = row.partitions.filter((each) => each.first_offset !== null);
  if (parts.length === 0) return h("span", { class: "quiet" }, "none");
  const more = parts.length - MAXIMUM_PARTITIONS_SHOWN + (row.partitions_total - row.partitions.length);
  return [
    parts
      .slice(0, MAXIMUM_PARTITIONS_SHOWN)
      .map((each) =>
        h(
          "div",
          { class: "unbroken" },
          `${each.partition}: ${formatCount(each.first_offset)} to ${formatCount(each.last_offset)}`,
        ),
      ),
    more > 0 ? h("small", {}, `and ${formatCountWithNoun(more, "more partition")}`) : null,
  ];
}

function createUndoButton(topic, row) {
  return createTopicChangeButton("Undo", topic, {
    key: `undo-${row.ingest_id}`,
    disabledReason: row.undoable ? "" : `It cannot be undone: ${row.reason}`,
    onPress: () =>
      openTopicChangeDialog({
        title: `Undo this ingest call of ${topic}?`,
        body: h(
          "p",
          {},
          `${formatCountWithNoun(row.records_appended, "record")} leave the log in one commit, and the same files can be ingested again. Its offsets are given again to what is ingested next. The files stay until their grace has passed.`,
        ),
        confirmLabel: "Undo",
        conf: () => ({ action: "undo_ingest", topic, ingest_id: row.ingest_id }),
        toast: `Undo of an ingest call of ${topic}`,
      }),
  });
}
