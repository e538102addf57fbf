// The partitions of a topic: each with its log, why it is or is not worth compacting, and what may be done.

import { changeButton } from "../actions.js";
import { h } from "../dom.js";
import { bytes, capital } from "../format.js";
import { logStrip } from "../logstrip.js";
import { due, link, nextAttempt, ratioBar, since } from "../parts.js";
import { hashOf } from "../router.js";
import { stateBadge } from "../states.js";
import { table } from "../table.js";

/** A table of partitions of ``topic``. */
export function partitionTable(topic, rows) {
  return table({
    caption: `Partitions of ${topic}`,
    rows,
    rowClass: () => "is-tall",
    columns: [
      {
        key: "partition",
        label: "Partition",
        heads: true,
        align: "right",
        width: "is-tight",
        cell: (row) => row.partition,
      },
      { key: "state", label: "State", width: "is-state", cell: (row) => state(topic, row) },
      { key: "log", label: "Log", width: "is-log", hint: "Scaled to each partition's own log", cell: logStrip },
      { key: "ratio", label: "Dirty ratio", cell: (row) => ratioBar(row.dirty_ratio, row.threshold) },
      { key: "deadline", label: "Deadline", cell: (row) => due(row.deadline_ms) },
      { key: "reclaimable", label: "Reclaimable", align: "right", cell: (row) => bytes(row.reclaimable_bytes) },
      { key: "size", label: "Size", align: "right", cell: (row) => bytes(row.size_bytes) },
      { key: "act", label: "", align: "right", width: "is-tight", cell: (row) => actions(topic, row) },
    ],
  });
}

function state(topic, row) {
  return h(
    "div",
    { class: "why" },
    stateBadge(row.state),
    row.uncleanable
      ? h(
          "p",
          {},
          h(
            "span",
            { class: "clamp", "data-tip": row.uncleanable.reason },
            ownReason(topic, row.partition, row.uncleanable.reason),
          ),
          "Since ",
          since(row.uncleanable.since_ms),
          `, attempt ${row.uncleanable.attempts}, tried again `,
          nextAttempt(row.uncleanable.next_attempt_ms),
          row.uncleanable.plan_id ? [". ", link(hashOf(["runs", row.uncleanable.plan_id]), "Its run")] : null,
        )
      : null,
    row.paused ? h("p", {}, "Paused ", since(row.paused.since_ms), ` by ${row.paused.by.join(", ")}`) : null,
    !row.uncleanable && !row.paused ? h("p", {}, capital(row.reason_text)) : null,
  );
}

/** Why a partition is marked, without its own name before each part. */
export function ownReason(topic, partition, reason) {
  return reason.replaceAll(`${topic}-${partition}: `, "");
}

function actions(topic, row) {
  const some = { kind: "small" };
  return h(
    "div",
    { class: "row-actions" },
    row.uncleanable ? changeButton("release", topic, [row.partition], some) : null,
    row.paused
      ? changeButton("resume", topic, [row.partition], { ...some, names: row.paused.by })
      : changeButton("pause", topic, [row.partition], some),
  );
}
