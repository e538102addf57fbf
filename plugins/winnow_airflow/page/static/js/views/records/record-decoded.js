// Decoded records: which form of a key or value is shown, and the columns of a table of them.

import { h } from "../../dom.js";
import { createBytesPreview } from "./record-bytes.js";

/** The format in which records are asked for as JSON, where their topic has formats. */
export const DECODED_FORMAT = ["decoded", "Decoded"];

const FIELD_COLUMNS = 8;

/** Chooses what is shown of ``side`` of a record, "key" or "value": what was decoded, else the bytes, else why not. */
export function chooseShown(row, side, format, absent) {
  const { decoded } = row;
  if (!decoded) return { shown: row[side], format, absent };
  if (decoded[side]) return { shown: decoded[side], format: "json", absent };
  return { shown: row[side], format: "text", absent: decoded[`has_${side}`] ? "hidden" : absent };
}

/** Builds the columns of decoded records: the key, each of the first fields of the values, what has no fields, errors. */
export function buildDecodedColumns(rows) {
  const names = [...new Set(rows.flatMap((row) => listFields(row).map((field) => field.name)))];
  const columns = [{ key: "key", label: "Key", width: "is-bytes", cell: (row) => createSide(row, "key", "no key") }];
  for (const name of names.slice(0, FIELD_COLUMNS))
    columns.push({ key: `field-${name}`, label: name, cell: (row) => createField(row, name) });
  if (rows.some((row) => listFields(row).length === 0))
    columns.push({
      key: "value",
      label: "Value",
      width: "is-bytes",
      cell: (row) => (listFields(row).length ? "" : createSide(row, "value", "tombstone")),
    });
  if (names.length > FIELD_COLUMNS)
    columns.push({
      key: "more",
      label: `${names.length - FIELD_COLUMNS} more`,
      width: "is-tight",
      hint: "Press an offset to see all fields",
      cell: (row) => listFields(row).filter((field) => names.indexOf(field.name) >= FIELD_COLUMNS).length || "",
    });
  if (rows.some((row) => row.decoded.error))
    columns.push({ key: "error", label: "Error", width: "is-wide", cell: (row) => row.decoded.error ?? "" });
  return columns;
}

function listFields(row) {
  return row.decoded.value?.fields ?? [];
}

function createField(row, name) {
  const field = listFields(row).find((each) => each.name === name);
  return field ? h("code", { class: "bytes-preview" }, field.text) : "";
}

function createSide(row, side, absent) {
  const chosen = chooseShown(row, side, "text", absent);
  return createBytesPreview(chosen.shown, chosen.format, { absent: chosen.absent });
}
