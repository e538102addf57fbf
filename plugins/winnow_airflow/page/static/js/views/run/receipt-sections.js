// The receipt of a run: the conservation equation, and planned beside actual values.

import { createEmptyState, createSection } from "../../components.js";
import { h } from "../../dom.js";
import {
  EMPTY_VALUE,
  formatBytes,
  formatCount,
  formatCountWithNoun,
  formatDeviation,
  formatSeconds,
  splitWords,
} from "../../format.js";
import { isRunning } from "../../state-badges.js";
import { createTable, PARTITION_COLUMN } from "../../table.js";
import { createConservationTable } from "./conservation-table.js";

/** Creates the sections of a run's receipt, or a message why there is none. */
export function createReceiptSections(row) {
  const rows = row.receipt_partitions;
  if (rows.length === 0)
    return createSection(
      "Receipt",
      { id: "receipt" },
      createEmptyState(
        isRunning(row.status)
          ? "The receipt is written when the run is published."
          : "Nothing was published, so there is no receipt.",
      ),
    );
  return [
    createSection(
      "Records by outcome",
      { id: "receipt", note: "Records in = kept + superseded + expired + keyless" },
      createConservationTable(rows),
    ),
    createSection(
      "Planned and actual",
      { id: "plan", note: "Planned values are estimates from the table's manifests and earlier receipts" },
      createPlanTable(rows),
    ),
  ];
}

function createPlanTable(rows) {
  const notes = (row) =>
    [
      row.headers_missing ? `${formatCount(row.headers_missing)} without the version header` : null,
      row.headers_malformed ? `${formatCount(row.headers_malformed)} with a malformed version header` : null,
      row.keys_elsewhere
        ? `${formatCountWithNoun(row.keys_elsewhere, "misplaced key")}: Kafka's default partitioner would now choose another partition`
        : null,
    ].filter(Boolean);
  const most = Math.max(0.001, ...rows.map((row) => row.seconds ?? 0));
  return createTable({
    caption: "Planned and actual",
    rows,
    columns: [
      PARTITION_COLUMN,
      { key: "reason", label: "Reason", cell: (row) => (row.reason ? splitWords(row.reason) : EMPTY_VALUE) },
      {
        key: "range",
        label: "First dirty offset",
        align: "right",
        hint: "Before and after",
        cell: (row) => `${formatCount(row.first_dirty_offset)} → ${formatCount(row.next_first_dirty_offset)}`,
      },
      {
        key: "expected_kept",
        label: "Kept, planned",
        align: "right",
        cell: (row) => formatCount(row.expected_records_kept),
      },
      {
        key: "kept",
        label: "actual",
        align: "right",
        cell: (row) => [
          formatCount(row.records_kept),
          formatDeviationCell(row.records_kept, row.expected_records_kept),
        ],
      },
      {
        key: "expected_out",
        label: "Bytes, planned",
        align: "right",
        cell: (row) => formatBytes(row.expected_bytes_out),
      },
      {
        key: "out",
        label: "actual",
        align: "right",
        cell: (row) => [formatBytes(row.bytes_out), formatDeviationCell(row.bytes_out, row.expected_bytes_out)],
      },
      {
        key: "seconds",
        label: "Task time",
        hint: "Run time of the Spark tasks of this partition",
        align: "right",
        cell: (row) =>
          h(
            "span",
            { class: "time-bar", vars: { "--share": String((row.seconds ?? 0) / most) } },
            formatSeconds(row.seconds),
          ),
      },
      {
        key: "notes",
        label: "Notes",
        cell: (row) => (notes(row).length ? notes(row).join("; ") : h("span", { class: "quiet" }, EMPTY_VALUE)),
      },
    ],
  });
}

function formatDeviationCell(actual, expected) {
  return expected === null ? null : h("small", { class: "off" }, formatDeviation(actual, expected));
}
