// The runs of a topic as plots: bytes before and after, and what became of the records.

import { h } from "../dom.js";
import { bytes, count, shortDay, utc } from "../format.js";
import { barPlot } from "../plots.js";
import { hashOf } from "../router.js";
import { hasFailed } from "../states.js";

const RECORDS = [
  ["records_kept", "kept", "Kept"],
  ["records_superseded", "superseded", "Superseded"],
  ["tombstones_expired", "expired", "Expired tombstones"],
  ["records_keyless", "keyless", "Keyless"],
];

/** Two plots over the same runs, the newest at the right. */
export function historyPlots(newestFirst) {
  const rows = newestFirst.filter((row) => row.totals || hasFailed(row.status)).reverse();
  const column = (row, stacks, values) => ({
    key: `plot-${row.plan_id}-${values.length}`,
    label: shortDay(row.updated_at_ms),
    stacks: row.totals ? stacks : [[]],
    mark: !row.totals,
    href: hashOf(["runs", row.plan_id]),
    said: `${utc(row.updated_at_ms)}, ${row.status}. ${values.map(([name, value]) => `${name} ${value}`).join(", ")}`,
    tip: () => list(row, values),
  });
  const bytesOf = (row) => [
    ["Before", bytes(row.totals?.bytes_in)],
    ["After", bytes(row.totals?.bytes_out)],
  ];
  const recordsOf = (row) => [
    ["In", count(row.totals?.records_in)],
    ...RECORDS.map(([name, , label]) => [label, count(row.totals?.[name])]),
  ];
  return h(
    "div",
    { class: "plots" },
    barPlot({
      title: "Bytes before and after",
      format: bytes,
      base: 1024,
      legend: [
        ["before", "Before"],
        ["after", "After"],
      ],
      columns: rows.map((row) =>
        column(
          row,
          [
            [{ kind: "before", value: row.totals?.bytes_in ?? 0 }],
            [{ kind: "after", value: row.totals?.bytes_out ?? 0 }],
          ],
          bytesOf(row),
        ),
      ),
    }),
    barPlot({
      title: "What became of the records",
      format: short,
      legend: RECORDS.map(([, kind, label]) => [kind, label]),
      columns: rows.map((row) =>
        column(row, [RECORDS.map(([name, kind]) => ({ kind, value: row.totals?.[name] ?? 0 }))], recordsOf(row)),
      ),
    }),
  );
}

function short(value) {
  const steps = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  const [unit, letter] = steps.find(([least]) => value >= least) ?? [1, ""];
  return `${Number((value / unit).toFixed(1))}${letter ? `\u202f${letter}` : ""}`;
}

function list(row, values) {
  return h(
    "dl",
    { class: "tip-list" },
    h("dt", {}, utc(row.updated_at_ms)),
    h("dd", {}, row.status),
    row.totals ? values.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]) : null,
  );
}
