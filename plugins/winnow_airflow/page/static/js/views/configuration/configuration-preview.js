// What a change of configuration does: what it removes for good, and the next run with the old and the new values.

import { createCallout } from "../../components.js";
import { h } from "../../dom.js";
import { formatBytes, formatCount } from "../../format.js";
import { createTable } from "../../table.js";

const FIGURES = [
  ["Partitions due", (found) => `${formatCount(found.eligible_total)} of ${formatCount(found.partitions_total)}`],
  ["Records to read", (found) => formatCount(found.totals.records)],
  ["Bytes to read", (found) => formatBytes(found.totals.bytes_to_read)],
  ["Records kept, at least", (found) => formatCount(found.totals.at_least_records_kept)],
  ["Records kept, at most", (found) => formatCount(found.totals.at_most_records_kept)],
  ["Records to quarantine", (found) => formatCount(found.totals.records_to_quarantine)],
  ["Records removed by retention", (found) => formatCount(found.totals.records_retired)],
  ["Bytes removed by retention", (found) => formatBytes(found.totals.bytes_retired)],
];

/** Creates the preview of a change, as the server answers it. */
export function createPreview(answer) {
  if (answer.error) return createCallout("uncleanable", answer.error);
  const rows = FIGURES.map(([label, read]) => [label, read(answer.before), read(answer.after)]);
  return [
    answer.takes_second_person
      ? createCallout(
          "paused",
          "This takes a second person.",
          h("p", {}, "Nothing is changed until another user approves it in Airflow, under Required Actions."),
        )
      : null,
    answer.notices.length
      ? answer.notices.map((each) => createCallout("overdue", each))
      : h("p", { class: "quiet" }, "Nothing is removed by this change alone."),
    createTable({
      caption: "A run of now, before and after the change",
      rows,
      rowClass: ([, before, after]) => (before === after ? "is-dim" : ""),
      columns: [
        { key: "figure", label: "A run of now", heads: true, cell: ([label]) => label },
        { key: "before", label: "With the present values", align: "right", cell: ([, before]) => before },
        { key: "after", label: "After the change", align: "right", cell: ([, , after]) => after },
      ],
    }),
  ];
}
