// The view of one topic: state, partitions, history, validation, configuration.

import { createChangeButton, createCompactButton } from "../actions.js";
import { encodePathPart, fetchAirflowJson, fetchJson, getServerTimeMs } from "../api.js";
import { createAsyncPanel } from "../async-panel.js";
import {
  createAge,
  createAirflowLink,
  createBreadcrumbs,
  createDeadline,
  createEmptyState,
  createFigure,
  createInstant,
  createLink,
  createRatioBar,
  createSection,
} from "../components.js";
import { h, insertBreakPoints, updateChildren } from "../dom.js";
import { describeSetting, formatBytes, formatCountWithNoun, splitWords } from "../format.js";
import { createLogLegend } from "../log-strip.js";
import { buildHash, setQuery } from "../router.js";
import { createRunBadge, createStateBadge } from "../state-badges.js";
import { createPager, createTable } from "../table.js";
import { createHistoryCharts } from "./history-charts.js";
import { createPartitionTable } from "./partition-table.js";
import { buildRunColumns } from "./runs.js";
import { createVerdictTable } from "./verdict-table.js";

const PARTITIONS_PER_PAGE = 20;
const CHARTED_RUNS = 40;
const RUNS_PER_PAGE = 10;
const VERDICTS_PER_PAGE = 10;

/** Creates the view of the topic ``name``. */
export function createTopicView(name) {
  const path = `topics/${encodePathPart(name)}`;
  const head = createAsyncPanel({ lines: 4 });
  const partitions = createAsyncPanel({ lines: 8 });
  const history = createAsyncPanel({ lines: 6 });
  const list = createAsyncPanel({ lines: 6 });
  const configuration = createAsyncPanel({ lines: 6 });
  const quality = createAsyncPanel({ lines: 4 });
  const next = h("span", { class: "quiet", "aria-busy": "true" }, "…");
  const rest = h(
    "div",
    { class: "stack" },
    createSection("Partitions", { tools: createLogLegend(), id: "partitions" }, partitions.element),
    createSection("History", { id: "history", note: `The last ${CHARTED_RUNS} runs` }, history.element, list.element),
    createSection(
      "Quality",
      { id: "quality", note: "Great Expectations validates the new data files of each run before the commit" },
      quality.element,
    ),
    createSection("Configuration", { id: "configuration" }, configuration.element),
  );
  const element = h(
    "div",
    { class: "view" },
    createBreadcrumbs(createLink(buildHash(["topics"]), "Topics"), name),
    head.element,
    rest,
  );
  let onlyDiffering = true;

  function update(query) {
    const pageOf = (key) => Number(query[key]) || 1;
    const pages =
      (key) =>
      ({ page }) =>
        setQuery({ [key]: page === 1 ? null : page });
    head
      .load(
        (signal) => fetchJson(path, {}, signal),
        (answer) => createHeader(answer, next),
      )
      .then((answer) => {
        if (!answer) rest.hidden = head.element.querySelector(".figures") === null;
        else {
          rest.hidden = false;
          configuration.load(async () => answer.configuration, drawConfiguration);
        }
      });
    partitions.load(
      (signal) => fetchJson(`${path}/partitions`, { page: pageOf("partitions"), size: PARTITIONS_PER_PAGE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState("No partition has been assessed yet.")
          : [
              createPartitionTable(name, answer.partitions),
              answer.total > PARTITIONS_PER_PAGE
                ? createPager(answer, pages("partitions"), { noun: "partition", sizes: false })
                : null,
            ],
    );
    history.load(
      (signal) => fetchJson(`${path}/runs`, { page: 1, size: CHARTED_RUNS }, signal),
      (answer) => (answer.runs.some((run) => run.totals) ? createHistoryCharts(answer.runs) : []),
    );
    list.load(
      (signal) => fetchJson(`${path}/runs`, { page: pageOf("runs"), size: RUNS_PER_PAGE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState(
              "This topic has not been compacted yet.",
              h(
                "p",
                {},
                "The DAG compact_topics compacts it when it is due. “Compact now” triggers a DAG run at once.",
              ),
            )
          : [
              createTable({
                caption: `Runs of ${name}`,
                columns: buildRunColumns({ withTopic: false }),
                rows: answer.runs,
              }),
              answer.total > RUNS_PER_PAGE ? createPager(answer, pages("runs"), { noun: "run", sizes: false }) : null,
            ],
    );
    quality.load(
      (signal) => fetchJson(`${path}/verdicts`, { page: pageOf("verdicts"), size: VERDICTS_PER_PAGE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState("This topic has not been validated yet.")
          : [
              createVerdictTable(answer.verdicts, { caption: `Validation results of ${name}` }),
              answer.total > VERDICTS_PER_PAGE
                ? createPager(answer, pages("verdicts"), { noun: "validation", sizes: false })
                : null,
            ],
    );
    loadNextRun(next);
  }

  function drawConfiguration(entries) {
    const differing = entries.filter((entry) => !entry.is_default);
    const rows = onlyDiffering ? differing : entries;
    const toggleDiffering = (event) => {
      onlyDiffering = event.target.checked;
      configuration.load(async () => entries, drawConfiguration);
    };
    return [
      h(
        "label",
        { class: "toggle" },
        h("input", {
          type: "checkbox",
          checked: onlyDiffering,
          "data-key": "differing",
          on: { change: toggleDiffering },
        }),
        `Only keys that differ from the default (${differing.length} of ${entries.length})`,
      ),
      rows.length === 0
        ? createEmptyState("Every key has its default.")
        : createTable({
            caption: `Configuration of ${name}`,
            rows,
            rowClass: (row) => (row.is_default ? "is-dim" : ""),
            columns: [
              {
                key: "name",
                label: "Key",
                heads: true,
                width: "is-name",
                cell: (row) => h("code", {}, insertBreakPoints(row.name)),
              },
              {
                key: "value",
                label: "Value",
                cell: (row) =>
                  h(
                    "span",
                    { class: row.value.length < 24 ? "is-short" : "" },
                    h("code", { class: "value" }, row.value),
                    h("small", {}, " ", describeSetting(row.name, row.value)),
                  ),
              },
              {
                key: "source",
                label: "Source",
                cell: (row) => h("span", { class: row.source.length < 24 ? "is-short" : "" }, row.source),
              },
              { key: "sentence", label: "Effect", width: "is-wide", cell: (row) => row.sentence },
            ],
          }),
    ];
  }

  const places = [head, partitions, history, list, configuration, quality];
  const stop = () => {
    for (const each of places) each.stop();
  };
  return { element, update, title: name, stop };
}

function createHeader(row, next) {
  const marked = row.partition_states.uncleanable;
  const paused = row.partition_states.paused;
  return [
    h(
      "div",
      { class: "title-row" },
      h("h1", {}, row.topic, " ", createStateBadge(row.state)),
      h(
        "div",
        { class: "row" },
        marked ? createChangeButton("release", row.topic, [], { key: "release-all", label: "Release all" }) : null,
        paused ? createChangeButton("resume", row.topic, [], { key: "resume-all", label: "Resume all" }) : null,
        createChangeButton("pause", row.topic, [], {
          key: "pause-all",
          label: "Pause all",
          disabledReason: paused === row.partitions ? "Every partition is paused already" : "",
        }),
        createCompactButton(() => [row.topic]),
      ),
    ),
    h(
      "p",
      { class: "quiet facts" },
      h("span", {}, formatCountWithNoun(row.partitions, "partition")),
      h("span", {}, "cleanup.policy ", h("code", {}, row.policy)),
      h("span", {}, "strategy ", h("code", {}, row.strategy)),
      h("span", {}, "assessed ", createAge(row.assessed_at_ms)),
      h("span", {}, "table ", h("code", { "data-tip": row.table.location }, row.table.name)),
    ),
    h(
      "dl",
      { class: "figures" },
      createFigure("Dirty ratio", createRatioBar(row.dirty_ratio, row.threshold)),
      createFigure("Compaction deadline", createDeadline(row.deadline_ms)),
      createFigure(
        "Reclaimable",
        formatBytes(row.reclaimable_bytes),
        row.retired_bytes ? `and ${formatBytes(row.retired_bytes)} of replaced files, not swept yet` : null,
      ),
      createFigure("Size", formatBytes(row.size_bytes)),
      createFigure(
        "Last run",
        row.last_run
          ? createLink(buildHash(["runs", row.last_run.plan_id]), createRunBadge(row.last_run.status))
          : "none",
        row.last_run ? createAge(row.last_run.updated_at_ms) : null,
      ),
      createFigure("Next DAG run", next),
      createFigure("Failing expectations", String(row.failing_expectations_7d), "in 7 days"),
      createFigure("Last scrub", ...describeLastScrub(row.scrub)),
      row.ingest_lag ? createFigure("Behind Kafka", ...describeIngestLag(row.ingest_lag)) : null,
    ),
  ];
}

/** Describes how far the log was behind its Kafka topic, and how old the look at the brokers is. */
function describeIngestLag(lag) {
  const looked = h("span", {}, "asked ", createAge(lag.looked_at_ms));
  if (lag.records_behind === 0) return ["nothing missing", looked];
  return [
    formatCountWithNoun(lag.records_behind, "offset"),
    h("span", {}, "since ", createInstant(lag.complete_until_ms), ", ", looked),
  ];
}

/** Describes the last and the oldest full check by a scrub; damage takes precedence. */
function describeLastScrub(scrub) {
  if (!scrub) return ["never"];
  if (scrub.findings)
    return [`${formatCountWithNoun(scrub.findings, "damaged file")}`, "see the alert segment_damaged"];
  return [createAge(scrub.last_checked_ms), h("span", {}, "oldest check ", createAge(scrub.oldest_checked_ms))];
}

async function loadNextRun(element) {
  drawNextRun(element, await fetchAirflowJson("dags/compact_topics").catch((error) => error));
  element.setAttribute("aria-busy", "false");
}

function drawNextRun(element, dag) {
  if (dag instanceof Error)
    return updateChildren(element, h("span", { class: "quiet", "data-tip": dag.message }, "unknown"));
  if (dag.is_paused)
    return updateChildren(element, createAirflowLink("dags/compact_topics", "none: the DAG is paused"));
  const at = dag.next_dagrun_run_after ? Date.parse(dag.next_dagrun_run_after) : null;
  if (at === null) return updateChildren(element, h("span", { class: "quiet" }, splitWords("not scheduled")));
  const text =
    at <= getServerTimeMs()
      ? h("span", { "data-tip": "Due now; Airflow's scheduler starts it" }, "now")
      : createInstant(at);
  return updateChildren(element, text);
}
