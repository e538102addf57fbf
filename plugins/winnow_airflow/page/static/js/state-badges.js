// States of topics and partitions, and statuses of runs, each with one word, one colour and one shape.

import { h } from "./dom.js";
import { splitWords } from "./format.js";
import { createIcon } from "./icons.js";

/** All states of topics and partitions, the worst first. */
export const STATES = ["uncleanable", "overdue", "due", "paused", "healthy"];

const STATE_MEANINGS = {
  uncleanable: "Compaction failed; retried later, or by the next run after a release",
  overdue: "The compaction deadline has passed",
  due: "The next run compacts it",
  paused: "Compaction is paused until somebody resumes it",
  healthy: "Nothing to compact",
};

const RUN_STATES = {
  planned: ["running", "Planned; the Spark application has not started"],
  compacting: ["running", "Spark is writing the new data files"],
  staged: ["running", "The new data files are written, not validated yet"],
  validated: ["running", "Validation passed; not committed yet"],
  publishing: ["running", "Committing a new snapshot of the table"],
  published: ["healthy", "Committed: readers see the compacted log"],
  invalid: ["uncleanable", "Validation failed; nothing was published"],
  broken: ["uncleanable", "A check raised an error; nothing was published"],
  spark_failed: ["uncleanable", "Spark failed; nothing was published"],
  refused: ["overdue", "Refused: the log changed after planning; nothing was published"],
  unknown: ["unknown", "The catalog did not answer, so the commit may or may not exist"],
  void: ["void", "Void: closed before it published anything"],
};

/** All statuses of runs. */
export const RUN_STATUSES = Object.keys(RUN_STATES);

const DAG_RUN_SHAPES = { queued: "running", running: "running", success: "healthy", failed: "uncleanable" };

function createBadge(shape, word, meaning) {
  return h("span", { class: `badge is-${shape}`, "data-tip": meaning }, createIcon(shape), h("span", {}, word));
}

/** Creates the badge of a topic's or partition's state. */
export function createStateBadge(state) {
  return createBadge(state, state, STATE_MEANINGS[state]);
}

/** Creates the badge of a run's status. */
export function createRunBadge(status) {
  const [shape, meaning] = RUN_STATES[status] ?? ["unknown", ""];
  return createBadge(shape, splitWords(status), meaning);
}

/** Creates the badge of an Airflow DAG run's state. */
export function createDagRunBadge(state) {
  return createBadge(DAG_RUN_SHAPES[state] ?? "unknown", state, null);
}

/** Checks whether a run is in progress. */
export function isRunning(status) {
  return RUN_STATES[status]?.[0] === "running";
}

/** Checks whether a run ended without a result. */
export function hasFailed(status) {
  return ["invalid", "broken", "spark_failed", "refused", "unknown"].includes(status);
}

export { STATE_MEANINGS };
