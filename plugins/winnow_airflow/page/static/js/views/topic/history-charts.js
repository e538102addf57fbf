// Charts of a topic's runs: bytes before and after, and records by outcome.

import { createBarChart } from "../../charts.js";
import { h } from "../../dom.js";
import { formatBytes, formatCount, formatShortCount, formatShortDay } from "../../format.js";
import { buildHash } from "../../router.js";
import { hasFailed } from "../../state-badges.js";
import { formatInstant, formatShortInstant } from "../../time-zone.js";

const DAY_MS = 86_400_000;
const TIME_LABEL_ROOM_PX = 96;

const RECORDS = [
  ["records_kept", "kept", "Kept"],
  ["records_superseded", "superseded", "Superseded"],
  ["tombstones_expired", "expired", "Expired tombstones"],
  ["records_keyless", "keyless", "Keyless"],
];

/** Creates two charts of the same runs, the newest at the right. */
export function createHistoryCharts(newestFirst) {
  const rows = newestFirst.filter((row) => row.totals || hasFailed(row.status)).reverse();
  const isWithinDays = rows.length > 1 && rows.at(-1).updated_at_ms - rows[0].updated_at_ms < rows.length * DAY_MS;
  const labelTime = isWithinDays ? formatShortInstant : formatShortDay;
  const labelRoom = isWithinDays ? TIME_LABEL_ROOM_PX : undefined;
  const column = (row, stacks, values) => ({
    key: `plot-${row.plan_id}-${values.length}`,
    label: labelTime(row.updated_at_ms),
    stacks: row.totals ? stacks : [[]],
    mark: !row.totals,
    href: buildHash(["runs", row.plan_id]),
    description: `${formatInstant(row.updated_at_ms)}, ${row.status}. ${values.map(([name, value]) => `${name} ${value}`).join(", ")}`,
    tip: () => createValueList(row, values),
  });
  const bytesOf = (row) => [
    ["Before", formatBytes(row.totals?.bytes_in)],
    ["After", formatBytes(row.totals?.bytes_out)],
  ];
  const recordsOf = (row) => [
    ["In", formatCount(row.totals?.records_in)],
    ...RECORDS.map(([name, , label]) => [label, formatCount(row.totals?.[name])]),
  ];
  return h(
    "div",
    { class: "plots" },
    createBarChart({
      title: "Bytes before and after",
      labelRoom,
      format: formatBytes,
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
    createBarChart({
      title: "Records by outcome",
      labelRoom,
      format: formatShortCount,
      legend: RECORDS.map(([, kind, label]) => [kind, label]),
      columns: rows.map((row) =>
        column(row, [RECORDS.map(([name, kind]) => ({ kind, value: row.totals?.[name] ?? 0 }))], recordsOf(row)),
      ),
    }),
  );
}

function createValueList(row, values) {
  return h(
    "dl",
    { class: "tip-list" },
    h("dt", {}, formatInstant(row.updated_at_ms)),
    h("dd", {}, row.status),
    row.totals ? values.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]) : null,
  );
}
