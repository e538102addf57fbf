// What a run in Airflow waits for at present: other DAG runs, a slot of a pool and who has it, or the scheduler.

import { encodePathPart, fetchAirflowJson } from "../../api.js";

const TASKS = { wait: "compact", spark: "compact", validate: "validate", publish: "publish" };
const MAXIMUM_NAMED_RUNS = 3;

/** Says what the run waits for; empty if it waits for nothing, or the user may not see it. */
export async function explainRunWait(row, progress, signal) {
  const stage = progress?.stages.find((each) => each.state === "running");
  if (!row.dag_run || !stage || !(stage.name in TASKS)) return "";
  return explainStageWait(row.dag_run, stage, progress.job, signal).catch((error) => {
    if (error.name === "AbortError") throw error;
    return "";
  });
}

async function explainStageWait({ dag_id: dagId, run_id: runId }, stage, job, signal) {
  const run = `dags/${encodePathPart(dagId)}/dagRuns/${encodePathPart(runId)}`;
  const { state } = await fetchAirflowJson(run, signal);
  if (state === "queued") return "Waiting for other runs of this DAG to end, or for the scheduler.";
  if (state === "success" || state === "failed")
    return `The DAG run has ended (${state}) without this run: the next one that takes the topic closes it.`;
  const query = "state=scheduled&state=queued&state=up_for_retry&limit=500";
  const { task_instances: tasks } = await fetchAirflowJson(`${run}/taskInstances?${query}`, signal);
  const isOwn = (task) =>
    task.task_id.endsWith(`.${TASKS[stage.name]}`) &&
    (stage.name === "wait" || !job || job.run_id !== runId || task.map_index === job.map_index);
  const own = tasks.find(isOwn);
  if (!own) return "";
  if (own.state === "up_for_retry")
    return `Try ${own.try_number} failed; Airflow tries ${own.task_display_name} again soon.`;
  return explainPool(own, signal);
}

async function explainPool(task, signal) {
  const pool = await fetchAirflowJson(`pools/${encodePathPart(task.pool)}`, signal);
  if (pool.open_slots > 0) return `Waiting for the scheduler to start ${task.task_display_name}.`;
  const path = `dags/~/dagRuns/~/taskInstances?pool=${encodePathPart(task.pool)}&state=running&limit=50`;
  const { task_instances: users } = await fetchAirflowJson(path, signal);
  const names = [...new Set(users.map((each) => `${each.dag_id} ${each.dag_run_id}`))];
  const shown = names.slice(0, MAXIMUM_NAMED_RUNS).join(", ");
  const more = names.length > MAXIMUM_NAMED_RUNS ? ` and ${names.length - MAXIMUM_NAMED_RUNS} more` : "";
  const by = names.length ? ` by ${shown}${more}` : "";
  return `Waiting for a slot of the pool ${pool.name}: ${pool.occupied_slots} of ${pool.slots} are in use${by}.`;
}
