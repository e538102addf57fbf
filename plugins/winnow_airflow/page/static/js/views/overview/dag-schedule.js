// When Airflow runs Winnow's DAGs next, and which of them run now, as far as the user may see that.

import { encodePathPart, fetchAirflowJson, getServerTimeMs } from "../../api.js";
import { createAirflowLink, createInstant } from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { buildDagRunPath } from "../../dag-run-outcome.js";
import { h, updateChildren } from "../../dom.js";
import { formatCount, formatDeadline } from "../../format.js";
import { createDagRunBadge } from "../../state-badges.js";
import { createTable } from "../../table.js";
import { findNextRun } from "../next-run.js";

const TAG = "winnow";
const MAXIMUM_RUNS = 50;

/** Creates the table; ``update()`` asks Airflow again. */
export function createDagSchedule() {
  const element = h("div", { "aria-busy": "true" }, h("p", { class: "quiet" }, "…"));
  let asked = null;

  async function update() {
    asked?.abort();
    asked = new AbortController();
    const { signal } = asked;
    try {
      const { dags } = await fetchAirflowJson(
        `dags?tags=${encodeURIComponent(nameDag(TAG))}&limit=100&order_by=dag_id`,
        signal,
      );
      const active = await listActiveRuns(signal);
      updateChildren(element, createScheduleTable(dags, active));
    } catch (error) {
      if (error.name === "AbortError") return;
      updateChildren(
        element,
        h("p", { class: "quiet", "data-tip": error.message }, "Airflow did not tell its schedule."),
      );
    }
    element.setAttribute("aria-busy", "false");
  }

  return { element, update, stop: () => asked?.abort() };
}

/** Lists DAG runs that run or wait, by DAG; empty if the user may not see runs. */
async function listActiveRuns(signal) {
  const path = `dags/~/dagRuns?state=running&state=queued&limit=${MAXIMUM_RUNS}&order_by=-run_after`;
  const answer = await fetchAirflowJson(path, signal).catch((error) => {
    if (error.name === "AbortError") throw error;
    return { dag_runs: [] };
  });
  return Map.groupBy
    ? Map.groupBy(answer.dag_runs, (run) => run.dag_id)
    : answer.dag_runs.reduce((found, run) => found.set(run.dag_id, [...(found.get(run.dag_id) ?? []), run]), new Map());
}

function createScheduleTable(dags, active) {
  const scheduled = dags.filter((dag) => dag.next_dagrun_run_after || active.has(dag.dag_id));
  if (scheduled.length === 0) return h("p", { class: "quiet" }, "No DAG of Winnow has a schedule.");
  return createTable({
    caption: "Scheduled DAGs of Winnow",
    rows: scheduled.sort((one, other) => findNextMs(one) - findNextMs(other)),
    columns: [
      {
        key: "dag",
        label: "DAG",
        heads: true,
        width: "is-name",
        cell: (dag) => createAirflowLink(`dags/${encodePathPart(dag.dag_id)}`, dag.dag_id),
      },
      { key: "now", label: "Now", cell: (dag) => createActiveRuns(active.get(dag.dag_id) ?? []) },
      { key: "next", label: "Next run", cell: createNextRun },
      {
        key: "schedule",
        label: "Schedule",
        cell: (dag) => h("span", { class: "quiet" }, dag.timetable_description || dag.timetable_summary || "by hand"),
      },
    ],
  });
}

function findNextMs(dag) {
  return findNextRun(dag).atMs ?? Number.MAX_SAFE_INTEGER;
}

function createActiveRuns(runs) {
  if (runs.length === 0) return h("span", { class: "quiet" }, "idle");
  const [newest] = runs;
  return h(
    "span",
    { class: "run-cell" },
    createAirflowLink(buildDagRunPath(newest.dag_id, newest.dag_run_id), createDagRunBadge(newest.state)),
    runs.length > 1 ? h("span", { class: "quiet" }, `and ${formatCount(runs.length - 1)} more`) : null,
  );
}

function createNextRun(dag) {
  const { state, atMs } = findNextRun(dag);
  if (state === "paused") return h("span", { class: "quiet" }, "the DAG is paused");
  if (state === "unscheduled") return h("span", { class: "quiet" }, "not scheduled");
  if (state === "ahead") return createInstant(atMs);
  if (state === "due") return "any moment";
  return h(
    "span",
    { class: "late", "data-tip": "The scheduler does not run, or an earlier run of this DAG has not ended" },
    formatDeadline(atMs, getServerTimeMs()).replace("overdue", "late"),
  );
}
