// The conservation equation of a receipt: in = kept + superseded + expired tombstones + keyless.

import { h, s } from "../../dom.js";
import { formatCount } from "../../format.js";
import { createIcon } from "../../icons.js";

const TERMS = [
  ["records_in", "Records in", null],
  ["records_kept", "kept", "="],
  ["records_superseded", "superseded", "+"],
  ["tombstones_expired", "expired tombstones", "+"],
  ["records_keyless", "keyless, quarantined", "+"],
];

/** Creates a table with the equation per partition, and the sum if there are several. */
export function createConservationTable(rows) {
  const sum = {
    partition: null,
    balanced: rows.every((row) => row.balanced),
    ...Object.fromEntries(TERMS.map(([name]) => [name, rows.reduce((total, row) => total + row[name], 0)])),
  };
  return h(
    "div",
    { class: "table-scroll", role: "region", "aria-label": "Conservation equation", tabindex: "0" },
    h(
      "table",
      { class: "equation" },
      h(
        "caption",
        { class: "unseen" },
        "Records in equal records kept, superseded, expired and keyless, per partition",
      ),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col", class: "right" }, "Partition"),
          TERMS.map(([name, label, sign]) => [
            sign ? h("th", { class: "sign", "aria-hidden": "true" }) : null,
            h("th", { scope: "col", class: `right term-${name}` }, label),
          ]),
          h("th", { scope: "col" }, h("span", { class: "unseen" }, "Balance")),
          h("th", { scope: "col", class: "is-shares" }, h("span", { class: "unseen" }, "Shares")),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => createPartitionRow(row, row.partition)),
      ),
      rows.length > 1 ? h("tfoot", {}, createPartitionRow(sum, "all")) : null,
    ),
  );
}

function createPartitionRow(row, name) {
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "right" }, name),
    TERMS.map(([key, , sign]) => [
      sign ? h("td", { class: "sign", "aria-hidden": "true" }, sign) : null,
      h("td", { class: `right term-${key}${row[key] ? "" : " is-zero"}` }, formatCount(row[key])),
    ]),
    h(
      "td",
      {},
      row.balanced
        ? h("span", { class: "badge is-healthy" }, createIcon("healthy"), h("span", {}, "balanced"))
        : h("span", { class: "badge is-uncleanable" }, createIcon("uncleanable"), h("span", {}, "does not add up")),
    ),
    h("td", { class: "is-shares" }, createShareBar(row)),
  );
}

const KINDS = [
  ["records_kept", "kept"],
  ["records_superseded", "superseded"],
  ["tombstones_expired", "expired"],
  ["records_keyless", "keyless"],
];

/** Creates a bar of the right-hand side; it is full if the equation holds. */
function createShareBar(row) {
  if (!row.records_in) return null;
  let left = 0;
  return s(
    "svg",
    { class: "share-bar", "aria-hidden": "true" },
    s("rect", { class: "bar-ground", width: "100%", height: "100%" }),
    KINDS.map(([name, kind]) => {
      const x = left;
      const width = (100 * row[name]) / row.records_in;
      left += width;
      return width ? s("rect", { class: `bar-${kind}`, x: `${x}%`, width: `${width}%`, height: "100%" }) : null;
    }),
  );
}
