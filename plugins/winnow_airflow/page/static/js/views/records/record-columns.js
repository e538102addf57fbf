// Columns that tables of records share.

import { h } from "../../dom.js";
import { formatCount } from "../../format.js";

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
