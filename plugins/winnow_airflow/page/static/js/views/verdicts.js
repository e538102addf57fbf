// What Great Expectations said, with links to its Data Docs.

import { h } from "../dom.js";
import { counted, NOTHING, shortId } from "../format.js";
import { icon } from "../icons.js";
import { dataDocs, documentLink, link, since } from "../parts.js";
import { hashOf } from "../router.js";
import { table } from "../table.js";

function outcome(row) {
  const [shape, word] = row.broken
    ? ["overdue", "broken"]
    : row.passed
      ? ["healthy", "passed"]
      : ["uncleanable", "failed"];
  const meaning = row.broken ? "A check raised an error: nothing is known about the data" : null;
  return h("span", { class: `badge is-${shape}`, "data-tip": meaning }, icon(shape), h("span", {}, word));
}

function failures(row) {
  if (row.failures.length === 0)
    return h(
      "span",
      { class: "quiet" },
      row.expectations ? `none: ${counted(row.expectations, "expectation")} held` : "none",
    );
  return h(
    "ul",
    { class: "failures" },
    row.failures.map((each) =>
      h(
        "li",
        {},
        h("span", { class: `severity is-${each.severity}` }, each.severity),
        h("code", {}, each.expectation),
        each.partition === null ? null : h("span", { class: "quiet" }, ` partition ${each.partition}`),
        each.detail ? h("p", { class: "quiet" }, each.detail) : null,
      ),
    ),
  );
}

/** A table of verdicts; ``withRun`` when they are of several runs. */
export function verdictTable(rows, { withRun = true, caption = "Quality verdicts" } = {}) {
  return table({
    caption,
    rows,
    rowClass: (row) => (row.failures.length ? "is-tall" : ""),
    columns: [
      { key: "verdict", label: "Verdict", heads: true, cell: outcome },
      { key: "checked", label: "Checked", cell: (row) => since(row.checked_at_ms) },
      { key: "failures", label: "Failing expectations", width: "is-wide", cell: failures },
      ...(withRun
        ? [
            {
              key: "run",
              label: "Run",
              cell: (row) =>
                link(hashOf(["runs", row.plan_id]), h("code", { "data-tip": row.plan_id }, shortId(row.plan_id))),
            },
          ]
        : [{ key: "attempt", label: "Attempt", cell: (row) => h("code", {}, row.attempt) }]),
      {
        key: "docs",
        label: "Data Docs",
        cell: (row) =>
          row.data_docs ? documentLink(dataDocs(row.data_docs), "Data Docs") : h("span", { class: "quiet" }, NOTHING),
      },
    ],
  });
}
