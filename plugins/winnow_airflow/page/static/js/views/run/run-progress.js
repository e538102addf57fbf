// How far a run is: its stages as a time line, the progress of its Spark application, what it waits for, and Cancel.

import { getServerTimeMs } from "../../api.js";
import {
  createAge,
  createAirflowLink,
  createButton,
  createCopyable,
  createFigure,
  createSection,
} from "../../components.js";
import { buildDagRunPath } from "../../dag-run-outcome.js";
import { h } from "../../dom.js";
import {
  EMPTY_VALUE,
  formatBytes,
  formatCount,
  formatCountWithNoun,
  formatDuration,
  formatPercent,
} from "../../format.js";
import { createIcon } from "../../icons.js";
import { isRunning } from "../../state-badges.js";
import { formatInstant } from "../../time-zone.js";
import { openCancelDialog } from "./run-cancel.js";

const STAGE_NAMES = {
  plan: "Plan",
  wait: "Wait for a slot",
  spark: "Spark",
  validate: "Validate",
  publish: "Publish",
};
const STAGE_SHAPES = {
  done: "healthy",
  running: "running",
  failed: "uncleanable",
  stopped: "void",
  pending: "pending",
};
const STAGE_WORDS = {
  done: "done",
  running: "in progress",
  failed: "failed",
  stopped: "ended here",
  pending: "not begun",
};

/** Without a message from the submitting process for this long, it has probably ended. */
const MAXIMUM_SILENCE_MS = 120_000;

/** Creates the section; none for a run of an older Winnow. ``wait``: what the run waits for, empty if unknown. */
export function createRunProgress(row, progress, wait, refresh) {
  if (!progress || progress.stages.length === 0) return null;
  const isActive = isRunning(row.status);
  return createSection(
    "Progress",
    {
      id: "progress",
      note: isActive ? "Refreshes every 5 seconds" : null,
      tools: isActive ? createCancelButton(row, progress, refresh) : null,
    },
    createStageLine(progress.stages),
    isActive && wait ? h("p", { class: "wait-reason" }, createIcon("due"), wait) : null,
    progress.job ? createJob(progress, isActive) : null,
  );
}

function createStageLine(stages) {
  return h(
    "ol",
    { class: "stages" },
    stages.map((stage) =>
      h(
        "li",
        { class: `stage is-${STAGE_SHAPES[stage.state]}`, "data-stage": stage.name, "data-state": stage.state },
        h("span", { class: "stage-name" }, createIcon(STAGE_SHAPES[stage.state]), STAGE_NAMES[stage.name]),
        h(
          "span",
          {
            class: "quiet",
            "data-tip": stage.started_at_ms === null ? null : `Began ${formatInstant(stage.started_at_ms)}`,
          },
          stage.started_at_ms === null
            ? STAGE_WORDS[stage.state]
            : formatDuration((stage.ended_at_ms ?? getServerTimeMs()) - stage.started_at_ms),
          h("span", { class: "unseen" }, `, ${STAGE_WORDS[stage.state]}`),
        ),
      ),
    ),
  );
}

function createJob({ job, own, topics }, isActive) {
  const isAtWork = isActive && job.ended_at_ms === null;
  const counted = job.partitions_done + job.partitions_failed;
  const share = job.bytes_total ? Math.min(1, job.bytes_read / job.bytes_total) : counted / Math.max(1, job.partitions);
  const until = job.ended_at_ms ?? job.updated_at_ms;
  const seconds = job.started_at_ms === null ? 0 : (until - job.started_at_ms) / 1_000;
  const rate = seconds > 0 && job.bytes_read > 0 ? job.bytes_read / seconds : null;
  const leftMs = isAtWork && rate ? ((job.bytes_total - job.bytes_read) / rate) * 1_000 : null;
  const isShared = topics.length > 1;
  return [
    h(
      "div",
      {
        class: "job-bar",
        role: "progressbar",
        "aria-label": "Bytes that Spark has read",
        "aria-valuenow": Math.round(share * 100),
        "aria-valuemin": 0,
        "aria-valuemax": 100,
      },
      h("span", { vars: { "--share": String(share) } }),
    ),
    h(
      "dl",
      { class: "figures" },
      createFigure(
        "Partitions done",
        `${formatCount(counted)} of ${formatCount(job.partitions)}`,
        describeShare(own, isShared, job.partitions_failed),
      ),
      createFigure("Read", formatBytes(job.bytes_read), `${formatPercent(share)} of ${formatBytes(job.bytes_total)}`),
      createFigure("Written", formatBytes(job.bytes_written)),
      createFigure("Rate", rate === null ? EMPTY_VALUE : `${formatBytes(rate)}/s`, "read, on average"),
      isAtWork
        ? createFigure("Time left", leftMs === null ? EMPTY_VALUE : formatDuration(leftMs), "at this rate")
        : createFigure("Spark took", formatDuration(until - job.submitted_at_ms), "with its start"),
      isAtWork ? createFigure("Reported", createAge(job.updated_at_ms), describeSilence(job)) : null,
    ),
    isShared
      ? h(
          "p",
          { class: "quiet job-note" },
          `One Spark application compacts ${formatCountWithNoun(topics.length, "topic")}; the figures are those of all.`,
        )
      : null,
    createPlaces(job),
  ];
}

function describeShare(own, isShared, failed) {
  const parts = [];
  if (isShared && own) parts.push(`of this topic ${own.partitions_done + own.partitions_failed} of ${own.partitions}`);
  if (failed) parts.push(`${formatCount(failed)} failed`);
  return parts.join("; ");
}

function describeSilence(job) {
  return getServerTimeMs() - job.updated_at_ms > MAXIMUM_SILENCE_MS
    ? "no news: the submitting process may have ended"
    : null;
}

function createPlaces(job) {
  const task = buildTaskPath(job);
  const web = job.ui_url && /^https?:\/\//.test(job.ui_url) ? job.ui_url : null;
  const rows = [
    task
      ? ["Airflow task", createAirflowLink(task, describeTask(job))]
      : ["Submitted by", h("span", {}, h("code", {}, job.holder), " from a shell")],
    ["Spark application", job.application_id ? createCopyable(job.application_id) : "not started yet"],
    [
      "Spark UI",
      web
        ? h("a", { href: web, target: "_blank", rel: "noopener noreferrer", "data-leave": true }, web)
        : h("span", { class: "quiet" }, "off: set spark.ui.enabled in spark.conf to have one while it runs"),
    ],
    [
      "Event log",
      job.event_log
        ? createCopyable(job.event_log)
        : h("span", { class: "quiet" }, "none: set spark.eventLog.enabled in spark.conf to keep one"),
    ],
    [
      "Driver log",
      job.driver_log
        ? createCopyable(job.driver_log)
        : task
          ? createAirflowLink(`${task}?try_number=${job.try_number}`, `log of the Airflow task, try ${job.try_number}`)
          : "the output of the command in its shell",
    ],
  ];
  return h(
    "dl",
    { class: "evidence places" },
    rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** Builds the path of the Airflow task that submitted a Spark application; null if a shell did. */
export function buildTaskPath(job) {
  if (!job.dag_id) return null;
  const path = `${buildDagRunPath(job.dag_id, job.run_id)}/tasks/${encodeURIComponent(job.task_id)}`;
  return job.map_index === null || job.map_index < 0 ? path : `${path}/mapped/${job.map_index}`;
}

/** Names the Airflow task that submitted a Spark application. */
export function describeTask(job) {
  return job.map_index === null || job.map_index < 0 ? job.task_id : `${job.task_id} [${job.map_index}]`;
}

function createCancelButton(row, progress, refresh) {
  const { job } = progress;
  const isAtWork = job !== null && job.ended_at_ms === null && row.status === "compacting";
  const reason = explainNoCancel(row, progress, isAtWork);
  return createButton("Cancel", {
    shape: "close",
    kind: "small",
    key: "cancel-run",
    name: `Cancel the compaction of ${row.topic}`,
    disabledReason: reason,
    onPress: () => openCancelDialog(progress, refresh),
  });
}

function explainNoCancel(row, { job, may_cancel: mayCancel }, isAtWork) {
  if (!row.dag_run) return `Started from a shell: press Ctrl+C there. ${describeProcess(row.holder)}`;
  if (!isAtWork)
    return "Spark is not at work on it now. To stop it all the same, mark the DAG run as failed in Airflow.";
  if (!job.dag_id) return "Another process took it over from a shell: press Ctrl+C there.";
  return mayCancel ? "" : `You have read access only: your Airflow role may not change tasks of ${job.dag_id}.`;
}

/** Says which process of which host a shell's name in leases is: ``host:pid:nonce@boot``. */
function describeProcess(holder) {
  const [host, pid] = (holder ?? "").split(":");
  return host && pid ? `It is process ${pid} on ${host}.` : "";
}
