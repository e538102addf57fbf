// Lists of runs: all, those of a DAG, or those of one DAG run.

import { buildApiUrl, fetchJson } from "../api.js";
import { createAsyncPanel } from "../async-panel.js";
import { createAge, createAirflowLink, createEmptyState, createLink } from "../components.js";
import { nameDag } from "../dag-ids.js";
import { buildDagRunPath, createOutcomeList, fetchOutcome } from "../dag-run-outcome.js";
import { h, insertBreakPoints } from "../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount, formatSeconds, shortenId } from "../format.js";
import { createIcon } from "../icons.js";
import { buildHash, setQuery } from "../router.js";
import { createSearchField } from "../search.js";
import { createRunBadge, RUN_STATUSES } from "../state-badges.js";
import { createPager, createTable } from "../table.js";

const DEFAULT_PAGE_SIZE = 50;

/** Builds the columns of a table of runs; ``withTopic`` and ``withDagRun`` add a column if the runs differ in it. */
export function buildRunColumns({ withTopic = true, withDagRun = true } = {}) {
  const of = (row, name) => (row.totals ? row.totals[name] : null);
  const removed = (row) => (row.totals ? row.totals.records_superseded + row.totals.tombstones_expired : null);
  return [
    {
      key: "run",
      label: "Run",
      heads: true,
      width: "is-name",
      cell: (row) =>
        h(
          "a",
          { class: "row-link", href: buildHash(["runs", row.plan_id]), "data-key": `run-${row.plan_id}` },
          withTopic ? insertBreakPoints(row.topic) : h("code", { "data-tip": row.plan_id }, shortenId(row.plan_id)),
        ),
    },
    { key: "status", label: "Status", cell: (row) => createRunBadge(row.status) },
    { key: "updated", label: "Updated", cell: (row) => createAge(row.updated_at_ms) },
    { key: "in", label: "Records in", align: "right", cell: (row) => formatCount(of(row, "records_in")) },
    {
      key: "removed",
      label: "Removed",
      align: "right",
      hint: "Superseded records and expired tombstones",
      cell: (row) => formatCount(removed(row)),
    },
    { key: "before", label: "Bytes before", align: "right", cell: (row) => formatBytes(of(row, "bytes_in")) },
    { key: "after", label: "Bytes after", align: "right", cell: (row) => formatBytes(of(row, "bytes_out")) },
    {
      key: "seconds",
      label: "Task time",
      align: "right",
      hint: "Run time of all Spark tasks",
      cell: (row) => formatSeconds(of(row, "seconds")),
    },
    ...(withDagRun ? [{ key: "dag_run", label: "DAG run", width: "is-run", cell: createDagRunCell }] : []),
  ];
}

function createDagRunCell(row) {
  if (!row.dag_run)
    return h(
      "span",
      { class: "quiet", "data-tip": row.holder ? `Started from the command line by ${row.holder}` : null },
      row.holder ? "command line" : EMPTY_VALUE,
    );
  return h(
    "span",
    { class: "clip" },
    createAirflowLink(buildDagRunPath(row.dag_run.dag_id, row.dag_run.run_id), row.dag_run.run_id),
  );
}

/** Creates the view of a list of runs; ``dagId`` and ``dagRunId`` narrow it to Airflow's current DAG or DAG run. */
export function createRunsView({ dagId = "", dagRunId = "" } = {}) {
  const list = createAsyncPanel({ lines: 12 });
  const search = createSearchField("Search topics of runs");
  const status = h(
    "select",
    {
      "aria-label": "Status",
      "data-key": "status",
      on: { change: () => setQuery({ status: status.value || null, page: null }) },
    },
    h("option", { value: "" }, "Any status"),
    RUN_STATUSES.map((each) => h("option", { value: each }, each)),
  );
  const file = h("a", { class: "button ghost", "data-key": "csv", download: true }, createIcon("download"), "CSV");
  const heading = dagRunId ? "Compactions of this DAG run" : dagId ? `Compactions by ${dagId}` : "Runs";
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: dagId ? "small-title" : "unseen" }, heading),
    dagRunId ? null : h("div", { class: "toolbar" }, search.element, status, h("div", { class: "toolbar-end" }, file)),
    list.element,
  );

  function update(query) {
    search.show(query.search ?? "");
    status.value = query.status ?? "";
    const filters = { search: query.search, status: query.status, dag_id: dagId, dag_run_id: dagRunId };
    file.href = buildApiUrl("runs.csv", filters);
    const asked = {
      ...filters,
      page: query.page,
      size: Number(query.size) || DEFAULT_PAGE_SIZE,
    };
    list.load(
      (signal) =>
        Promise.all([
          fetchJson("runs", asked, signal),
          // Only what somebody triggered leaves one; a role that may not read XComs sees none.
          dagRunId ? fetchOutcome(dagId, dagRunId, signal).catch(() => null) : null,
        ]),
      ([answer, known]) => {
        const outcome = known && createOutcomeList(known);
        if (answer.total === 0) return outcome ?? createNoRuns(query, dagId, dagRunId);
        return [
          outcome,
          createTable({ caption: heading, columns: buildRunColumns({ withDagRun: !dagRunId }), rows: answer.runs }),
          createPager(
            answer,
            ({ page, size }) => setQuery({ page: page === 1 ? null : page, ...(size ? { size } : {}) }),
            {
              noun: "run",
            },
          ),
        ];
      },
    );
  }

  return { element, update, title: heading, focusSearch: dagRunId ? null : search.focus, stop: list.stop };
}

function createNoRuns(query, dagId, dagRunId) {
  if (query.search || query.status)
    return createEmptyState(
      "No run matches.",
      h(
        "p",
        {},
        h(
          "button",
          {
            type: "button",
            class: "button",
            on: { click: () => setQuery({ search: null, status: null, page: null }) },
          },
          "Show all runs",
        ),
      ),
    );
  if (dagRunId)
    return createEmptyState(
      "This DAG run compacted nothing.",
      h("p", {}, "No topic was due, or its task plan has not run yet."),
      h("p", {}, createLink(buildHash(["topics"]), "See the topics")),
    );
  if (dagId)
    return createEmptyState(
      `${dagId} has compacted nothing.`,
      h(
        "p",
        {},
        `Only the DAGs ${["compact_topics", "compact_now", "backfill_topics"].map(nameDag).join(", ")} compact topics.`,
      ),
      h("p", {}, createLink(buildHash(["topics"]), "See the topics")),
    );
  return createEmptyState(
    "Nothing has been compacted yet.",
    h(
      "p",
      {},
      `The DAG ${nameDag("compact_topics")} compacts the topics that are due, every 15 minutes unless the DAG is paused.`,
    ),
    h("p", {}, createAirflowLink(`dags/${nameDag("compact_topics")}`, "Open the DAG")),
  );
}
