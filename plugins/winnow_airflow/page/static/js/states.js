// States of topics and partitions, and statuses of runs: one word, one colour, one shape.

import { h } from "./dom.js";
import { words } from "./format.js";
import { icon } from "./icons.js";

/** In the order of severity. */
export const STATES = ["uncleanable", "overdue", "due", "paused", "healthy"];

const MEANING = {
  uncleanable: "Something failed; the next attempt waits, or a release",
  overdue: "Its compaction deadline has passed",
  due: "The next run compacts it",
  paused: "Somebody paused it",
  healthy: "Nothing to do",
};

const RUNS = {
  planned: ["running", "Planned; Spark has not begun"],
  compacting: ["running", "Spark writes the new files"],
  staged: ["running", "New files are written and not judged yet"],
  validated: ["running", "Judged good and not published yet"],
  publishing: ["running", "The commit is being made"],
  published: ["healthy", "Readers see the result"],
  invalid: ["uncleanable", "Validation failed; nothing was published"],
  broken: ["uncleanable", "A check raised an error; nothing was published"],
  refused: ["overdue", "The log moved on; nothing was published"],
  unknown: ["unknown", "Whether the commit was made is not known yet"],
  void: ["void", "Left unfinished; a newer plan took its place"],
};

/** Every status a run may have. */
export const RUN_STATUSES = Object.keys(RUNS);

const DAG_RUNS = { queued: "running", running: "running", success: "healthy", failed: "uncleanable" };

function mark(shape, word, meaning) {
  return h("span", { class: `badge is-${shape}`, "data-tip": meaning }, icon(shape), h("span", {}, word));
}

/** The state of a topic or a partition. */
export function stateBadge(state) {
  return mark(state, state, MEANING[state]);
}

/** The status of a run. */
export function runBadge(status) {
  const [shape, meaning] = RUNS[status] ?? ["unknown", ""];
  return mark(shape, words(status), meaning);
}

/** The state of one of Airflow's DAG runs. */
export function dagRunBadge(state) {
  return mark(DAG_RUNS[state] ?? "unknown", state, null);
}

/** Whether a run is still at work. */
export function isRunning(status) {
  return RUNS[status]?.[0] === "running";
}

/** Whether a run ended without a result. */
export function hasFailed(status) {
  return ["invalid", "broken", "refused", "unknown"].includes(status);
}

export { MEANING };
