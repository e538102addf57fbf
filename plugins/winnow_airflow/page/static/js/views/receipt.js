// The receipt of a run: the conservation equation, and the plan against what came of it.

import { h } from "../dom.js";
import { bytes, count, deviation, NOTHING, seconds, words } from "../format.js";
import { empty, section } from "../parts.js";
import { isRunning } from "../states.js";
import { table } from "../table.js";
import { equation } from "./equation.js";

/** The sections of the receipt of a run, or why there is none. */
export function receipt(row) {
  const rows = row.receipt_partitions;
  if (rows.length === 0)
    return section(
      "Receipt",
      { id: "receipt" },
      empty(
        isRunning(row.status)
          ? "The receipt is written when the run is published."
          : "There is no receipt: nothing was published.",
      ),
    );
  return [
    section(
      "Where the records went",
      { id: "receipt", note: "Every record that came in is accounted for" },
      equation(rows),
    ),
    section(
      "Plan against actual",
      { id: "plan", note: "Estimated from manifests and earlier receipts before Spark began" },
      planTable(rows),
    ),
  ];
}

function planTable(rows) {
  const notes = (row) =>
    [
      row.headers_missing ? `${count(row.headers_missing)} without the header` : null,
      row.headers_malformed ? `${count(row.headers_malformed)} with a malformed header` : null,
      row.keys_elsewhere ? `${count(row.keys_elsewhere)} keys that the partitioner would put elsewhere now` : null,
    ].filter(Boolean);
  const most = Math.max(0.001, ...rows.map((row) => row.seconds ?? 0));
  return table({
    caption: "Plan against actual",
    rows,
    columns: [
      {
        key: "partition",
        label: "Partition",
        heads: true,
        align: "right",
        width: "is-tight",
        cell: (row) => row.partition,
      },
      { key: "reason", label: "Because", cell: (row) => (row.reason ? words(row.reason) : NOTHING) },
      {
        key: "range",
        label: "First dirty offset",
        align: "right",
        hint: "Before and after",
        cell: (row) => `${count(row.first_dirty_offset)} → ${count(row.next_first_dirty_offset)}`,
      },
      { key: "expected_kept", label: "Kept, planned", align: "right", cell: (row) => count(row.expected_records_kept) },
      {
        key: "kept",
        label: "actual",
        align: "right",
        cell: (row) => [count(row.records_kept), off(row.records_kept, row.expected_records_kept)],
      },
      { key: "expected_out", label: "Bytes, planned", align: "right", cell: (row) => bytes(row.expected_bytes_out) },
      {
        key: "out",
        label: "actual",
        align: "right",
        cell: (row) => [bytes(row.bytes_out), off(row.bytes_out, row.expected_bytes_out)],
      },
      {
        key: "seconds",
        label: "Time",
        align: "right",
        cell: (row) =>
          h(
            "span",
            { class: "time-bar", vars: { "--share": String((row.seconds ?? 0) / most) } },
            seconds(row.seconds),
          ),
      },
      {
        key: "notes",
        label: "Notes",
        cell: (row) => (notes(row).length ? notes(row).join("; ") : h("span", { class: "quiet" }, NOTHING)),
      },
    ],
  });
}

function off(actual, expected) {
  return expected === null ? null : h("small", { class: "off" }, deviation(actual, expected));
}
