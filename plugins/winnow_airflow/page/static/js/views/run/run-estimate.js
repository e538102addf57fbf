// What a run would do, as the server explains it: figures of the whole topic and one row per partition.

import { createFigure } from "../../components.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount, formatCountWithNoun, splitWords } from "../../format.js";
import { createTable, PARTITION_COLUMN } from "../../table.js";

const BASES = {
  manifest: "the manifests",
  partition: "its earlier runs",
  topic: "other partitions' runs",
  unknown: "no run yet",
};

/** Formats a range of counts; one number if both are the same. */
function formatRange(low, high) {
  return low === high ? formatCount(low) : `${formatCount(low)} to ${formatCount(high)}`;
}

/** Creates the figures of an explanation. */
export function createEstimateFigures(found) {
  const { totals } = found;
  // Some partitions had a run and others none: what is known of those is a lower bound of all.
  const about = totals.estimated_partitions < found.eligible_total ? "at least" : "≈";
  return h(
    "dl",
    { class: "figures" },
    createFigure(
      "A run would take",
      formatCountWithNoun(found.eligible_total, "partition"),
      `of ${formatCount(found.partitions_total)}`,
    ),
    createFigure("It would read", formatBytes(totals.bytes_to_read), formatCountWithNoun(totals.records, "record")),
    createFigure(
      "It would keep",
      totals.expected_records_kept === null ? EMPTY_VALUE : `${about} ${formatCount(totals.expected_records_kept)}`,
      `${formatRange(totals.at_least_records_kept, totals.at_most_records_kept)} for certain`,
    ),
    createFigure(
      "It would free",
      totals.reclaimed_bytes === null ? EMPTY_VALUE : `${about} ${formatBytes(totals.reclaimed_bytes)}`,
      totals.reclaimed_bytes === null ? "unknown before the first run" : "estimated from earlier runs",
    ),
    createFigure(
      "Retention would remove",
      formatCountWithNoun(totals.records_retired, "record"),
      totals.records_retired ? `${formatBytes(totals.bytes_retired)}, for good` : null,
    ),
    totals.records_to_quarantine
      ? createFigure("To the quarantine", formatCountWithNoun(totals.records_to_quarantine, "record"), "without a key")
      : null,
  );
}

/** Creates the table of an explanation's partitions. */
export function createEstimateTable(found) {
  return createTable({
    caption: `What a run of ${found.topic} would do, per partition`,
    rows: found.partitions,
    rowClass: (row) => (row.eligible ? "" : "is-dim"),
    columns: [
      PARTITION_COLUMN,
      {
        key: "decision",
        label: "Decision",
        width: "is-wide",
        cell: (row) => [row.eligible ? "compacted: " : "left alone: ", row.reason_text],
      },
      { key: "records", label: "Records", align: "right", cell: (row) => formatOf(row, formatCount(row.records)) },
      { key: "read", label: "To read", align: "right", cell: (row) => formatOf(row, formatBytes(row.bytes_to_read)) },
      {
        key: "kept",
        label: "Kept",
        align: "right",
        hint: "Estimated; below it the bounds that the manifests prove",
        cell: (row) =>
          formatOf(row, [
            row.expected_records_kept === null ? "unknown" : `≈ ${formatCount(row.expected_records_kept)}`,
            h("small", {}, ` ${formatRange(row.at_least_records_kept, row.at_most_records_kept)}`),
          ]),
      },
      { key: "basis", label: "Known from", cell: (row) => formatOf(row, BASES[row.basis]) },
      {
        key: "retired",
        label: "Retention",
        align: "right",
        cell: (row) => (row.records_retired ? formatCountWithNoun(row.records_retired, "record") : EMPTY_VALUE),
      },
      {
        key: "memory",
        label: "Memory",
        hint: "Memory for picking winners, of the task's budget",
        cell: (row) =>
          formatOf(row, [
            splitWords(row.memory),
            h("small", {}, ` ${formatBytes(row.at_most_winners_bytes)} of ${formatBytes(row.memory_budget_bytes)}`),
          ]),
      },
    ],
  });
}

function formatOf(row, value) {
  return row.eligible ? value : EMPTY_VALUE;
}
