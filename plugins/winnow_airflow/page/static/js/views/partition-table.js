// The partitions of a topic: log, state with its reason, deadline, size, and actions.

import { createChangeButton } from "../actions.js";
import { createAge, createDeadline, createLink, createNextAttempt, createRatioBar } from "../components.js";
import { h } from "../dom.js";
import { capitalize, formatBytes, formatCountWithNoun } from "../format.js";
import { createLogStrip } from "../log-strip.js";
import { buildHash } from "../router.js";
import { createStateBadge } from "../state-badges.js";
import { createTable, PARTITION_COLUMN } from "../table.js";

/** Creates the table of a topic's partitions. */
export function createPartitionTable(topic, rows) {
  return createTable({
    caption: `Partitions of ${topic}`,
    rows,
    rowClass: () => "is-tall",
    columns: [
      PARTITION_COLUMN,
      { key: "state", label: "State", width: "is-state", cell: (row) => createStateCell(topic, row) },
      { key: "log", label: "Log", width: "is-log", hint: "Each log is drawn to its own scale", cell: createLogStrip },
      { key: "ratio", label: "Dirty ratio", cell: (row) => createRatioBar(row.dirty_ratio, row.threshold) },
      { key: "deadline", label: "Deadline", cell: (row) => createDeadline(row.deadline_ms) },
      { key: "reclaimable", label: "Reclaimable", align: "right", cell: (row) => formatBytes(row.reclaimable_bytes) },
      { key: "size", label: "Size", align: "right", cell: (row) => formatBytes(row.size_bytes) },
      { key: "act", label: "", align: "right", width: "is-tight", cell: (row) => createActions(topic, row) },
    ],
  });
}

function createStateCell(topic, row) {
  return h(
    "div",
    { class: "why" },
    createStateBadge(row.state),
    row.uncleanable
      ? h(
          "p",
          {},
          stripReasonPrefix(topic, row.partition, row.uncleanable.reason),
          ". Marked ",
          createAge(row.uncleanable.since_ms),
          `, ${formatCountWithNoun(row.uncleanable.attempts, "attempt")} failed, next attempt `,
          createNextAttempt(row.uncleanable.next_attempt_ms),
          row.uncleanable.plan_id
            ? [". ", createLink(buildHash(["runs", row.uncleanable.plan_id]), "See the run")]
            : null,
        )
      : null,
    row.paused ? h("p", {}, "Paused ", createAge(row.paused.since_ms), ` by ${row.paused.by.join(", ")}`) : null,
    !row.uncleanable && !row.paused ? h("p", {}, capitalize(row.reason_text)) : null,
  );
}

/** Removes the partition's own name from each part of a reason. */
export function stripReasonPrefix(topic, partition, reason) {
  return reason.replaceAll(`${topic}-${partition}: `, "");
}

function createActions(topic, row) {
  const some = { kind: "small" };
  return h(
    "div",
    { class: "row-actions" },
    row.uncleanable ? createChangeButton("release", topic, [row.partition], some) : null,
    row.paused
      ? createChangeButton("resume", topic, [row.partition], { ...some, names: row.paused.by })
      : createChangeButton("pause", topic, [row.partition], some),
  );
}
