// What was triggered is followed until it ends: a toast per DAG run, with a link to it.

import { getAirflow, part } from "./api.js";
import { announce, h, replace } from "./dom.js";
import { icon } from "./icons.js";
import { airflowLink } from "./parts.js";
import { dagRunBadge } from "./states.js";

const FIRST_MS = 1_500;
const SLOWEST_MS = 10_000;
const ENDED = ["success", "failed"];

function toast(title) {
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
      icon("close"),
    ),
  );
  document.getElementById("toasts").prepend(box);
  return { box, text };
}

/** The path of a DAG run in Airflow's UI. */
export function dagRunPath(dagId, runId) {
  return `dags/${part(dagId)}/runs/${part(runId)}`;
}

/** Follow a DAG run until it ends; ``ended(state)`` then. Dismissing the toast does not stop the following. */
export function followDagRun(title, run, ended) {
  const { text } = toast(title);
  const show = (state, note = "") =>
    replace(
      text,
      dagRunBadge(state),
      airflowLink(dagRunPath(run.dag_id, run.dag_run_id), "Open the DAG run"),
      note ? h("p", { class: "quiet" }, note) : null,
    );
  show(run.state);
  announce(`${title}: ${run.state}.`);
  let wait = FIRST_MS;
  let state = run.state;
  const look = async () => {
    try {
      const found = await getAirflow(`dags/${part(run.dag_id)}/dagRuns/${part(run.dag_run_id)}`);
      if (found.state !== state) announce(`${title}: ${found.state}.`);
      state = found.state;
      show(state, state === "failed" ? "Its red tasks have the cause." : "");
    } catch (error) {
      show(state, `${error.message} Still looking.`);
    }
    if (ENDED.includes(state)) return ended(state);
    wait = Math.min(SLOWEST_MS, wait * 1.3);
    return setTimeout(look, wait);
  };
  setTimeout(look, wait);
}
