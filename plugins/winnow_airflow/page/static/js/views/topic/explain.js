// The explain tab of a topic: what a run would do now, and which deadlines will be missed.
// Each answer starts a process on the server, so nothing is asked again by the page's own refresh.

import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createDeadline, createEmptyState, createInstant, createSection } from "../../components.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCountWithNoun, formatDuration } from "../../format.js";
import { createTable, PARTITION_COLUMN } from "../../table.js";
import { formatInstant } from "../../time-zone.js";
import { createEstimateFigures, createEstimateTable } from "../run/run-estimate.js";

const OUTLOOKS = {
  overdue: "overdue",
  blocked: "blocked: it is paused or uncleanable",
  not_ingested: "waits for ingest: its records are still at the brokers",
  late: "will be late, even in the best case",
  in_time: "in time",
  unknown: "unknown: no run has shown the pace yet",
};

/** Creates the explain tab of ``topic``. */
export function createExplainTab(topic) {
  const path = `topics/${encodePathPart(topic)}`;
  const estimate = createAsyncPanel({ lines: 8 });
  const forecast = createAsyncPanel({ lines: 6 });
  let isAsked = false;
  let closesActive = false;

  const askEstimate = () =>
    estimate.load(
      (signal) => fetchJson(`${path}/explain`, closesActive ? { closes_active: "true" } : {}, signal),
      (found) =>
        h(
          "div",
          { class: "answer" },
          h(
            "p",
            { class: "quiet" },
            `As of ${formatInstant(found.as_of_ms)}, from manifests and earlier runs; no record was read.`,
          ),
          createEstimateFigures(found),
          createEstimateTable(found),
          found.partitions_total > found.partitions.length
            ? h(
                "p",
                { class: "quiet" },
                `${formatCountWithNoun(found.partitions_total - found.partitions.length, "more partition")}.`,
              )
            : null,
        ),
    );
  const askForecast = () => forecast.load((signal) => fetchJson(`${path}/forecast`, {}, signal), drawForecast);
  // One after the other: few processes read the log at a time.
  const askAll = () => askEstimate().then(askForecast);

  const toggle = h(
    "label",
    { class: "toggle", "data-tip": "Minimum lag and dirty ratio still decide" },
    h("input", {
      type: "checkbox",
      "data-key": "closes-active",
      on: {
        change: (event) => {
          closesActive = event.target.checked;
          askEstimate();
        },
      },
    }),
    "with active segments closed",
  );
  const element = h(
    "div",
    { class: "stack" },
    createSection(
      "What a run would do now",
      {
        id: "explain",
        tools: h(
          "div",
          { class: "row" },
          toggle,
          createButton("Ask again", { shape: "refresh", key: "ask-again", onPress: askAll }),
        ),
      },
      estimate.element,
    ),
    createSection(
      "Forecast of deadlines",
      { id: "forecast", note: "At the pace of recent runs, if everything due is compacted without a pause" },
      forecast.element,
    ),
  );

  function update() {
    if (isAsked) return null;
    isAsked = true;
    return askAll();
  }

  const stop = () => {
    estimate.stop();
    forecast.stop();
  };
  return { element, update, stop };
}

function drawForecast(found) {
  if (found.prospects.length === 0)
    return createEmptyState(
      "No partition has a deadline.",
      h("p", {}, "max.compaction.lag.ms is not set, or nothing is dirty."),
    );
  const pace =
    found.bytes_per_second === null
      ? "unknown"
      : `${formatBytes(Math.round(found.bytes_per_second))} per second and task`;
  return [
    h("p", { class: "quiet" }, `Pace ${pace}, ${formatCountWithNoun(found.parallelism, "task")} at a time.`),
    createTable({
      caption: `Forecast of the deadlines of ${found.topic}`,
      rows: found.prospects,
      columns: [
        PARTITION_COLUMN,
        { key: "deadline", label: "Deadline", cell: (row) => createDeadline(row.deadline_ms) },
        {
          key: "outlook",
          label: "Outlook",
          cell: (row) => h("span", { class: isBad(row) ? "late" : "" }, OUTLOOKS[row.outlook]),
        },
        { key: "size", label: "To read", align: "right", cell: (row) => formatBytes(row.size_bytes) },
        { key: "done", label: "Done at the earliest", cell: (row) => createInstant(row.done_at_ms) },
        {
          key: "late",
          label: "Late by",
          align: "right",
          cell: (row) => (row.late_by_ms ? formatDuration(row.late_by_ms) : EMPTY_VALUE),
        },
      ],
    }),
  ];
}

function isBad(row) {
  return row.outlook !== "in_time" && row.outlook !== "unknown";
}
