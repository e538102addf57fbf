// A toast per triggered DAG run, which shows its state until it ends and links to it.

import { encodePathPart, fetchAirflowJson } from "./api.js";
import { createAirflowLink } from "./components.js";
import { announceToScreenReader, h, updateChildren } from "./dom.js";
import { createIcon } from "./icons.js";
import { createDagRunBadge } from "./state-badges.js";

const MINIMUM_POLL_MS = 1_500;
const MAXIMUM_POLL_MS = 10_000;
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
  document.getElementById("toasts").prepend(box);
  return { box, text };
}

/** Builds the path of a DAG run in Airflow's UI. */
export function buildDagRunPath(dagId, runId) {
  return `dags/${encodePathPart(dagId)}/runs/${encodePathPart(runId)}`;
}

/** Polls a DAG run until it ends, then calls ``onEnd(state)``. Dismissing the toast does not stop the polling. */
export function pollDagRun(title, run, onEnd) {
  const { text } = showToast(title);
  const show = (state, note = "") =>
    updateChildren(
      text,
      createDagRunBadge(state),
      createAirflowLink(buildDagRunPath(run.dag_id, run.dag_run_id), "Open the DAG run"),
      note ? h("p", { class: "quiet" }, note) : null,
    );
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
      show(state, state === "failed" ? "See the logs of its failed tasks." : "");
    } catch (error) {
      show(state, `${error.message} Retrying.`);
    }
    if (ENDED.includes(state)) return onEnd(state);
    wait = Math.min(MAXIMUM_POLL_MS, wait * 1.3);
    return setTimeout(poll, wait);
  };
  setTimeout(poll, wait);
}
