// When the next scheduled run of a DAG is due, and whether something holds it up.

import { getServerTimeMs } from "../api.js";

/** A scheduled run that is due for longer than this does not just wait for the scheduler's next turn. */
const STUCK_AFTER_MS = 120_000;

/** Finds the next run of a DAG, as Airflow describes it: {state, atMs}; state paused, unscheduled, ahead, due or late. */
export function findNextRun(dag) {
  if (dag.is_paused) return { state: "paused" };
  if (!dag.next_dagrun_run_after) return { state: "unscheduled" };
  const atMs = Date.parse(dag.next_dagrun_run_after);
  const lateMs = getServerTimeMs() - atMs;
  return { state: lateMs < 0 ? "ahead" : lateMs < STUCK_AFTER_MS ? "due" : "late", atMs };
}
