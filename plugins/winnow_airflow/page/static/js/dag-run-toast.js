// A toast per triggered DAG run, which shows its state until it ends and links to it.

import { encodePathPart, fetchAirflowJson } from "./api.js";
import { createAirflowLink } from "./components.js";
import { buildDagRunPath, createOutcomeList, fetchOutcome } from "./dag-run-outcome.js";
import { announceToScreenReader, h, updateChildren } from "./dom.js";
import { createIcon } from "./icons.js";
import { createDagRunBadge } from "./state-badges.js";

const MINIMUM_POLL_MS = 1_500;
const MAXIMUM_POLL_MS = 10_000;
const MAXIMUM_OUTCOMES_SHOWN = 5;
const ENDED = ["success", "failed"];

function showToast(title) {
  const text = h("div", { class: "toast-text" });
  const box = h(
    "div",
    { class: "toast" },
    h("div", { class: "toast-title" }, title),
    text,
    h(
      "button",
      {
        type: "button",
        class: "button ghost small toast-close",
        "aria-label": "Dismiss",
        on: { click: () => box.remove() },
      },
      createIcon("close"),
    ),
  );
  // What has succeeded makes room, so that toasts do not pile up over what one wants to press next.
  for (const done of document.querySelectorAll(".toast[data-state='success']")) done.remove();
  document.getElementById("toasts").prepend(box);
  return { box, text };
}

/** Says what a DAG run waits for while none of its tasks is running; empty if it waits for nothing. */
async function explainWait(run, state) {
  const path = `dags/${encodePathPart(run.dag_id)}/dagRuns/${encodePathPart(run.dag_run_id)}/taskInstances`;
  if (state === "queued") return "Waiting for other runs of this DAG to end, or for the scheduler.";
  const query = "state=scheduled&state=queued&state=running&limit=100";
  const { task_instances: tasks } = await fetchAirflowJson(`${path}?${query}`);
  if (tasks.length === 0) return await findSecondPersonWait(run);
  if (tasks.some((task) => task.state === "running")) return "";
  const names = [...new Set(tasks.map((task) => task.pool))];
  const pools = await Promise.all(names.map((name) => fetchAirflowJson(`pools/${encodePathPart(name)}`)));
  const full = pools.find((pool) => pool.open_slots <= 0);
  if (full) return `Waiting for a slot of the pool ${full.name}: ${full.occupied_slots} of ${full.slots} are in use.`;
  return `Waiting for the scheduler to start ${tasks[0].task_display_name}.`;
}

/** Says that a DAG run waits for another user's approval, with the way there; empty if it does not. */
async function findSecondPersonWait(run) {
  const path = `dags/${encodePathPart(run.dag_id)}/dagRuns/${encodePathPart(run.dag_run_id)}/hitlDetails`;
  const { hitl_details: asked } = await fetchAirflowJson(`${path}?response_received=false&limit=1`);
  if (asked.length === 0) return "";
  const task = encodePathPart(asked[0].task_instance.task_id);
  const place = `${buildDagRunPath(run.dag_id, run.dag_run_id)}/tasks/${task}/required_actions`;
  return [
    "Waits for a second person, who approves it in Airflow. ",
    createAirflowLink(place, "Open the required action"),
  ];
}

/** Polls a DAG run until it ends, then calls ``onEnd(state)``. Dismissing the toast does not stop the polling. */
export function pollDagRun(title, run, onEnd) {
  const { box, text } = showToast(title);
  const show = (state, note = "", outcome = null) => {
    box.dataset.state = state;
    updateChildren(
      text,
      createDagRunBadge(state),
      createAirflowLink(buildDagRunPath(run.dag_id, run.dag_run_id), "Open the DAG run"),
      outcome,
      note ? h("p", { class: "quiet" }, note) : null,
    );
  };
  show(run.state);
  announceToScreenReader(`${title}: ${run.state}.`);
  let wait = MINIMUM_POLL_MS;
  let state = run.state;
  const poll = async () => {
    try {
      const found = await fetchAirflowJson(
        `dags/${encodePathPart(run.dag_id)}/dagRuns/${encodePathPart(run.dag_run_id)}`,
      );
      if (found.state !== state) announceToScreenReader(`${title}: ${found.state}.`);
      state = found.state;
      const isWaiting = !ENDED.includes(state);
      // Without the right to see tasks or pools there is just the state.
      const reason = isWaiting ? await explainWait(run, state).catch(() => "") : "";
      // A role that may not read XComs sees the state alone.
      const outcome = isWaiting ? null : await fetchOutcome(run.dag_id, run.dag_run_id).catch(() => null);
      const list = outcome && createOutcomeList(outcome, MAXIMUM_OUTCOMES_SHOWN);
      show(state, state === "failed" && !list ? "See the logs of its failed tasks." : reason, list);
      if (list) announceToScreenReader(`${title}: ${outcome.outcomes[0].text}`);
    } catch (error) {
      show(state, `${error.message} Retrying.`);
    }
    if (ENDED.includes(state)) return onEnd(state);
    wait = Math.min(MAXIMUM_POLL_MS, wait * 1.3);
    return setTimeout(poll, wait);
  };
  setTimeout(poll, wait);
}
