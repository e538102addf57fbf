// Verdicts of Great Expectations, with links to its Data Docs.

import { buildDataDocsUrl, createAge, createDocumentLink, createLink } from "../components.js";
import { h } from "../dom.js";
import { EMPTY_VALUE, formatCountWithNoun, shortenId } from "../format.js";
import { createIcon } from "../icons.js";
import { buildHash } from "../router.js";
import { createTable } from "../table.js";

function createOutcomeCell(row) {
  const [shape, word] = row.broken
    ? ["overdue", "broken"]
    : row.passed
      ? ["healthy", "passed"]
      : ["uncleanable", "failed"];
  const meaning = row.broken ? "A check raised an error, so the data was not validated" : null;
  return h("span", { class: `badge is-${shape}`, "data-tip": meaning }, createIcon(shape), h("span", {}, word));
}

function createFailureList(row) {
  if (row.failures.length === 0)
    return h(
      "span",
      { class: "quiet" },
      row.expectations ? `none: ${formatCountWithNoun(row.expectations, "expectation")} met` : "none",
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

/** Creates a table of verdicts; ``withRun`` adds the run if they are of several runs. */
export function createVerdictTable(rows, { withRun = true, caption = "Validation results" } = {}) {
  return createTable({
    caption,
    rows,
    rowClass: (row) => (row.failures.length ? "is-tall" : ""),
    columns: [
      { key: "verdict", label: "Result", heads: true, cell: createOutcomeCell },
      { key: "checked", label: "Validated", cell: (row) => createAge(row.checked_at_ms) },
      { key: "failures", label: "Failing expectations", width: "is-wide", cell: createFailureList },
      ...(withRun
        ? [
            {
              key: "run",
              label: "Run",
              cell: (row) =>
                createLink(
                  buildHash(["runs", row.plan_id]),
                  h("code", { "data-tip": row.plan_id }, shortenId(row.plan_id)),
                ),
            },
          ]
        : [{ key: "attempt", label: "Attempt", cell: (row) => h("code", {}, row.attempt) }]),
      {
        key: "docs",
        label: "Data Docs",
        cell: (row) =>
          row.data_docs
            ? createDocumentLink(buildDataDocsUrl(row.data_docs), "Data Docs")
            : h("span", { class: "quiet" }, EMPTY_VALUE),
      },
    ],
  });
}
