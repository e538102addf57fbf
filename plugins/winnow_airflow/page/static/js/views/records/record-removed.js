// Records of a key that runs removed, found in the files that these runs took out of the log.

import { createInstant, createLink } from "../../components.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount, formatCountWithNoun, shortenId } from "../../format.js";
import { buildHash } from "../../router.js";
import { createTable, PARTITION_COLUMN } from "../../table.js";
import { formatInstant } from "../../time-zone.js";
import { createBytesPreview } from "./record-bytes.js";
import { chooseShown } from "./record-decoded.js";

/** Creates the content of the part ``removed`` of an answer of ``records/key``. */
export function createRemovedContent(removed, format) {
  const { records, total } = removed;
  const searched = `${formatCountWithNoun(removed.files, "file")} (${formatBytes(removed.size_bytes)}) that runs took out of the log, and that no sweep has deleted,`;
  const was = removed.files === 1 ? "was" : "were";
  const left = [
    removed.unread_files ? `${formatCountWithNoun(removed.unread_files, "older file")} too many for one look` : "",
    removed.damaged_files ? `${formatCountWithNoun(removed.damaged_files, "file")} that cannot be read` : "",
  ].filter(Boolean);
  return [
    records.length
      ? createTable({
          caption: "Removed versions of the key, newest first",
          rows: [...records].reverse(),
          columns: buildRemovedColumns(format),
        })
      : null,
    h(
      "p",
      { class: "quiet" },
      removed.files
        ? `${searched} ${was} searched for removed versions: `
        : "There is no file left that a run took out of the log: ",
      total === 0
        ? "none found."
        : `${formatCount(total)} found${total > records.length ? `, the newest ${formatCount(records.length)} are shown` : ""}.`,
      left.length ? ` Not searched: ${left.join("; ")}.` : "",
    ),
  ];
}

function buildRemovedColumns(format) {
  return [
    PARTITION_COLUMN,
    {
      key: "offset",
      label: "Removed offset",
      align: "right",
      width: "is-tight",
      cell: (row) => formatCount(row.offset),
    },
    {
      key: "timestamp",
      label: "Timestamp",
      width: "is-tight",
      cell: (row) =>
        row.timestamp_ms === null ? EMPTY_VALUE : h("span", { class: "unbroken" }, formatInstant(row.timestamp_ms)),
    },
    {
      key: "state",
      label: "State",
      width: "is-tight",
      cell: (row) =>
        h(
          "span",
          { class: "unbroken" },
          "removed by run ",
          createLink(buildHash(["runs", row.plan_id]), h("code", {}, shortenId(row.plan_id).slice(0, 12))),
          " of ",
          createInstant(row.removed_at_ms),
          row.is_certain ? "" : " or later",
        ),
    },
    {
      key: "value",
      label: "Value",
      width: "is-wide",
      cell: (row) => {
        const chosen = chooseShown(row, "value", format, "tombstone");
        return createBytesPreview(chosen.shown, chosen.format, { absent: chosen.absent });
      },
    },
  ];
}
