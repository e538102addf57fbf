// Cancelling a compaction: the Airflow task that submitted its Spark application is failed, with the user's own rights.

import { changeAirflow, encodePathPart } from "../../api.js";
import { openDialog } from "../../dialog.js";
import { h } from "../../dom.js";
import { formatCountWithNoun } from "../../format.js";
import { createReasonField } from "../../reason-field.js";

/** Opens the dialog that names every topic whose compaction ends with this one. */
export function openCancelDialog({ job, topics }, refresh) {
  const reason = createReasonField("Becomes the note of the task in Airflow.");
  const isMapped = job.map_index !== null && job.map_index >= 0;
  const task = isMapped ? `${job.task_id} [${job.map_index}]` : job.task_id;
  openDialog({
    title: `Cancel the compaction of ${formatCountWithNoun(topics.length, "topic")}?`,
    body: [
      h(
        "p",
        {},
        `Fails the task ${task} of the DAG run ${job.run_id}, which stops its Spark application. Airflow does not try it again.`,
      ),
      topics.length > 1 ? h("p", {}, "The application compacts all of these, so all of them end:") : null,
      h(
        "ul",
        { class: "name-list is-scrolled", tabindex: "0", "aria-label": "Topics whose compaction ends" },
        topics.map((name) => h("li", {}, name)),
      ),
      h(
        "p",
        {},
        "Nothing was published, so readers see no change and no record is lost. What Spark has written so far is left behind in the tables' folders; nobody reads it, and the next sweep deletes it. The topics are free again when the DAG run has ended, and the next run compacts what is due.",
      ),
      reason.elements,
    ],
    confirmLabel: "Cancel the compaction",
    dismissLabel: "Keep it running",
    confirm: async () => {
      await changeAirflow(buildTaskInstancePath(job), {
        new_state: "failed",
        note: `Cancelled on Winnow's page: ${reason.read()}`,
      });
      refresh();
    },
  });
}

function buildTaskInstancePath(job) {
  const run = `dags/${encodePathPart(job.dag_id)}/dagRuns/${encodePathPart(job.run_id)}`;
  const path = `${run}/taskInstances/${encodePathPart(job.task_id)}`;
  return job.map_index === null || job.map_index < 0 ? path : `${path}/${job.map_index}`;
}
