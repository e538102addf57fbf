// The answer to "why is this record here": a sentence, the picture of who won, the versions with values, the runs.

import { createEmptyState, createInstant, createLink } from "../../components.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatCount, shortenId } from "../../format.js";
import { buildHash } from "../../router.js";
import { createTable } from "../../table.js";
import { formatInstant } from "../../time-zone.js";
import { createBytesPreview } from "./record-bytes.js";
import { buildOffsetColumn } from "./record-columns.js";
import { chooseShown } from "./record-decoded.js";
import { createRemovedContent } from "./record-removed.js";
import { createWhyPicture, describeVersion } from "./why-picture.js";

/** Creates the content of an answer of ``records/why`` or ``records/key``; ``open(partition, offset)`` shows a version. */
export function createWhyContent(answer, format, open) {
  const { why, versions } = answer;
  const values = new Map(versions.map((each) => [each.offset, each]));
  const rows = why.records.length ? why.records : versions.map((each) => ({ ...each, section: "clean" }));
  return h(
    "div",
    { class: "answer" },
    h("p", { class: "message" }, why.sentence),
    answer.found_without_spaces
      ? h("p", { class: "quiet" }, "Found without the white space that was typed outside of strings.")
      : null,
    createWhyPicture(why),
    rows.length
      ? createTable({
          caption: "Versions of the key, newest first",
          rows: [...rows].reverse(),
          columns: buildVersionColumns(why, values, format, open),
        })
      : createEmptyState("There is no version of this key in the log."),
    answer.removed ? createRemovedContent(answer.removed, format) : null,
    why.runs.length ? createRunTable(why) : null,
  );
}

function buildVersionColumns(why, values, format, open) {
  return [
    buildOffsetColumn("version", open),
    {
      key: "timestamp",
      label: "Timestamp",
      width: "is-tight",
      cell: (row) =>
        row.timestamp_ms === null ? EMPTY_VALUE : h("span", { class: "unbroken" }, formatInstant(row.timestamp_ms)),
    },
    {
      key: "outcome",
      label: "Outcome",
      width: "is-tight",
      cell: (row) => h("span", { class: "unbroken" }, describeVersion(row, why)),
    },
    {
      key: "value",
      label: "Value",
      width: "is-wide",
      cell: (row) =>
        row.tombstone
          ? h("span", { class: "quiet" }, "tombstone")
          : values.has(row.offset)
            ? createValue(values.get(row.offset), format)
            : h("span", { class: "quiet" }, "press the offset to see it"),
    },
  ];
}

function createValue(row, format) {
  const chosen = chooseShown(row, "value", format, "tombstone");
  return createBytesPreview(chosen.shown, chosen.format, { absent: chosen.absent });
}

function createRunTable(why) {
  return createTable({
    caption: why.present ? "Runs that covered it" : "Runs that may have removed it",
    rows: [...why.runs].reverse().slice(0, 20),
    columns: [
      {
        key: "plan",
        label: why.present ? "Runs that covered it" : "Runs that may have removed it",
        heads: true,
        cell: (run) =>
          run.plan_id
            ? createLink(buildHash(["runs", run.plan_id]), h("code", {}, shortenId(run.plan_id).slice(0, 12)))
            : EMPTY_VALUE,
      },
      { key: "finished", label: "Finished", cell: (run) => createInstant(run.finished_at_ms) },
      { key: "upto", label: "Up to offset", align: "right", cell: (run) => formatCount(run.next_first_dirty_offset) },
      { key: "superseded", label: "Superseded", align: "right", cell: (run) => formatCount(run.records_superseded) },
      {
        key: "expired",
        label: "Expired tombstones",
        align: "right",
        cell: (run) => formatCount(run.tombstones_expired),
      },
      { key: "retired", label: "Retired", align: "right", cell: (run) => formatCount(run.records_retired) },
    ],
  });
}
