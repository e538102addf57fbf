// What came of a DAG run that somebody triggered: the sentences that its tasks left in Airflow, read with the user's rights.

import { encodePathPart, fetchAirflowJson } from "./api.js";
import { createLink } from "./components.js";
import { h } from "./dom.js";
import { formatCountWithNoun } from "./format.js";
import { createIcon } from "./icons.js";
import { buildHash } from "./router.js";

const OUTCOME_KEY = "outcome";
const MAXIMUM_TASKS_READ = 20;
const KINDS = { done: "healthy", idle: "void", left: "running", failed: "uncleanable", waiting: "running" };

/** Builds the path of a DAG run in Airflow's UI. */
export function buildDagRunPath(dagId, runId) {
  return `dags/${encodePathPart(dagId)}/runs/${encodePathPart(runId)}`;
}

/** Gets {outcomes, further}: what came of topics, and of how many more there is no sentence. */
export async function fetchOutcome(dagId, runId, signal) {
  const instances = `dags/${encodePathPart(dagId)}/dagRuns/${encodePathPart(runId)}/taskInstances`;
  const { xcom_entries: entries, total_entries: total } = await fetchAirflowJson(
    `${instances}/~/xcomEntries?xcom_key=${OUTCOME_KEY}&limit=${MAXIMUM_TASKS_READ}`,
    signal,
  );
  const values = await Promise.all(
    entries.map(async ({ task_id: task, map_index: index }) => {
      const query = index >= 0 ? `?map_index=${index}` : "";
      const path = `${instances}/${encodePathPart(task)}/xcomEntries/${OUTCOME_KEY}${query}`;
      const { value } = await fetchAirflowJson(path, signal);
      return typeof value === "string" ? JSON.parse(value) : value;
    }),
  );
  return {
    outcomes: values.flatMap((each) => each.outcomes),
    further: values.reduce((sum, each) => sum + each.further, 0) + Math.max(0, total - entries.length),
  };
}

/** Creates the list of what came of topics; at most ``maximum`` of them. Null if nothing is known. */
export function createOutcomeList({ outcomes, further }, maximum = Number.POSITIVE_INFINITY) {
  if (outcomes.length === 0) return null;
  const shown = outcomes.slice(0, maximum);
  const rest = further + outcomes.length - shown.length;
  return h(
    "ul",
    { class: "outcomes" },
    shown.map((each) =>
      h(
        "li",
        { class: `is-${KINDS[each.kind] ?? "void"}` },
        createIcon(KINDS[each.kind] ?? "void"),
        h(
          "span",
          {},
          each.topic ? [createLink(buildHash(["topics", each.topic]), each.topic), ": "] : null,
          each.text,
          each.plan_id ? [" ", createLink(buildHash(["runs", each.plan_id]), "Open the run")] : null,
        ),
      ),
    ),
    rest ? h("li", { class: "quiet" }, `and of ${formatCountWithNoun(rest, "more topic")}`) : null,
  );
}
