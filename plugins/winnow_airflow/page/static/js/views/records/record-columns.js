// Columns that tables of records share.

import { h } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount } from "../../format.js";
import { formatInstant } from "../../time-zone.js";
import { createBytesPreview } from "./record-bytes.js";
import { buildDecodedColumns } from "./record-decoded.js";

/** Builds the column with the offset of a record, which opens it; ``key`` begins the keys of its buttons. */
export function buildOffsetColumn(key, open) {
  return {
    key: "offset",
    label: "Offset",
    heads: true,
    align: "right",
    width: "is-tight",
    cell: (row) =>
      h(
        "button",
        {
          type: "button",
          class: "button ghost small is-link",
          "data-key": `${key}-${row.offset}`,
          "data-tip": "Show this record in full",
          on: { click: () => open(row.partition, row.offset) },
        },
        formatCount(row.offset),
      ),
  };
}

/** Builds the columns of a table of records; ``key`` begins the keys of the buttons that open one. */
export function buildRecordColumns(records, format, openRecord, key = "record") {
  const place = [
    buildOffsetColumn(key, openRecord),
    {
      key: "timestamp",
      label: "Timestamp",
      width: "is-tight",
      cell: (row) =>
        row.timestamp_ms === null
          ? EMPTY_VALUE
          : h("span", { class: "unbroken", "data-tip": row.timestamp_type }, formatInstant(row.timestamp_ms)),
    },
  ];
  if (records[0]?.decoded) return [...place, ...buildDecodedColumns(records)];
  return [
    ...place,
    {
      key: "key",
      label: "Key",
      width: "is-bytes",
      cell: (row) => createBytesPreview(row.key, format, { absent: "no key" }),
    },
    {
      key: "value",
      label: "Value",
      width: "is-bytes",
      cell: (row) => createBytesPreview(row.value, format, { absent: "tombstone" }),
    },
    {
      key: "headers",
      label: "Headers",
      align: "right",
      width: "is-tight",
      cell: (row) => (row.headers_total ? formatCount(row.headers_total) : EMPTY_VALUE),
    },
    {
      key: "size",
      label: "Size",
      align: "right",
      width: "is-tight",
      hint: "Key and value together",
      cell: (row) => formatBytes((row.key?.size_bytes ?? 0) + (row.value?.size_bytes ?? 0)),
    },
  ];
}
