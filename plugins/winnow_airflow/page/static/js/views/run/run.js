// The view of one run: outcome, figures, receipt, verdicts, links.

import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import {
  buildDataDocsUrl,
  createAge,
  createAirflowLink,
  createBreadcrumbs,
  createCopyable,
  createDocumentLink,
  createEmptyState,
  createFigure,
  createLink,
  createSection,
} from "../../components.js";
import { buildDagRunPath } from "../../dag-run-outcome.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount, formatDuration, formatPercent, formatSeconds } from "../../format.js";
import { createIcon } from "../../icons.js";
import { buildHash } from "../../router.js";
import { createRunBadge, hasFailed, isRunning } from "../../state-badges.js";
import { formatInstant } from "../../time-zone.js";
import { createVerdictTable } from "../verdict-table.js";
import { createReceiptSections } from "./receipt-sections.js";
import { createRunOutcome } from "./run-outcome.js";
import { createRunProgress } from "./run-progress.js";
import { explainRunWait } from "./run-waits.js";

const MAXIMUM_MARKS = 200;
const REFRESH_INTERVAL_MS = 5_000;

/** Creates the view of the run of the plan ``planId``. */
export function createRunView(planId) {
  const body = createAsyncPanel({ lines: 14 });
  const element = h("div", { class: "view" }, body.element);

  async function fetch(signal) {
    const path = `runs/${encodePathPart(planId)}`;
    const [found, progress] = await Promise.all([
      fetchJson(path, {}, signal),
      fetchJson(`${path}/progress`, {}, signal),
    ]);
    const wait = isRunning(found.status) ? await explainRunWait(found, progress, signal) : "";
    const marks = hasFailed(found.status)
      ? await fetchJson(
          `topics/${encodePathPart(found.topic)}/partitions`,
          { state: "uncleanable", size: MAXIMUM_MARKS },
          signal,
        ).catch(() => ({ partitions: [] }))
      : { partitions: [] };
    return { ...found, progress, wait, marked: marks.partitions.filter((row) => row.uncleanable) };
  }

  let timer = 0;
  async function update() {
    clearTimeout(timer);
    const found = await body.load(fetch, (row) => drawRun(row, update));
    if (found && isRunning(found.status) && element.isConnected) timer = setTimeout(update, REFRESH_INTERVAL_MS);
  }

  const stop = () => {
    clearTimeout(timer);
    body.stop();
  };
  return { element, update, title: "Run", stop };
}

function drawRun(row, refresh) {
  return [
    createBreadcrumbs(
      createLink(buildHash(["topics"]), "Topics"),
      createLink(buildHash(["topics", row.topic]), row.topic),
      "Run",
    ),
    h(
      "div",
      { class: "title-row" },
      h("h1", {}, `Compaction of ${row.topic} `, createRunBadge(row.status)),
      h("div", { class: "row" }, createLinks(row)),
    ),
    h(
      "p",
      { class: "quiet facts" },
      h("span", {}, "plan ", createCopyable(row.plan_id)),
      h("span", {}, "as of ", h("span", {}, formatInstant(row.as_of_ms))),
      row.attempt ? h("span", {}, "attempt ", h("code", {}, row.attempt)) : null,
    ),
    createRunOutcome(row),
    isRunning(row.status) && row.progress.stages.length ? null : createFigures(row),
    createRunProgress(row, row.progress, row.wait, refresh),
    createReceiptSections(row),
    createSection(
      "Validation results",
      { id: "verdicts", note: "Great Expectations validates the new data files before the commit" },
      row.verdicts.length
        ? createVerdictTable(row.verdicts, { withRun: false, caption: "Validation results of this run" })
        : createEmptyState(isRunning(row.status) ? "Not validated yet." : "Nothing was validated."),
    ),
    createSection("Links and details", { id: "where" }, createEvidence(row)),
  ];
}

function createLinks(row) {
  return [
    row.dag_run
      ? createAirflowLink(
          buildDagRunPath(row.dag_run.dag_id, row.dag_run.run_id),
          h("span", { class: "button" }, createIcon("external"), "DAG run and logs"),
        )
      : null,
    row.data_docs
      ? h(
          "a",
          {
            href: buildDataDocsUrl(row.data_docs),
            target: "_blank",
            rel: "noopener",
            "data-leave": true,
            class: "button",
          },
          createIcon("external"),
          "Data Docs",
        )
      : null,
    row.status === "published" ? createUndoLink(row) : null,
  ];
}

/** Creates the link to where this run can be undone; only there the log is asked whether it can. */
function createUndoLink(row) {
  return h(
    "a",
    {
      href: buildHash(["topics", row.topic, "undo"], { change: row.plan_id }),
      class: "button",
      "data-key": "undo",
      "data-tip": "Possible while the files that this run replaced are there",
    },
    "Undo…",
  );
}

function createFigures(row) {
  const totals = row.totals;
  const removed = totals ? totals.records_superseded + totals.tombstones_expired : null;
  const saved = totals ? totals.bytes_in - totals.bytes_out : null;
  return h(
    "dl",
    { class: "figures" },
    createFigure(
      "Records removed",
      formatCount(removed),
      totals?.records_in ? `${formatPercent(removed / totals.records_in)} of ${formatCount(totals.records_in)}` : null,
    ),
    createFigure(
      "Bytes reclaimed",
      formatBytes(saved),
      totals ? `${formatBytes(totals.bytes_in)} before, ${formatBytes(totals.bytes_out)} after` : null,
    ),
    totals?.records_retired
      ? createFigure("Removed by retention", formatCount(totals.records_retired), formatBytes(totals.bytes_retired))
      : null,
    createFigure(
      isRunning(row.status) ? "Started" : "Duration",
      isRunning(row.status)
        ? createAge(row.opened_at_ms)
        : formatDuration((row.finished_at_ms ?? row.updated_at_ms) - row.opened_at_ms),
      totals ? `${formatSeconds(totals.seconds)} of Spark task time` : null,
    ),
    createFigure("Finished", createAge(row.finished_at_ms ?? (isRunning(row.status) ? null : row.updated_at_ms))),
    createFigure(
      "Iceberg snapshot",
      row.snapshot_id ? h("code", {}, row.snapshot_id) : EMPTY_VALUE,
      row.table ? row.table.name : null,
    ),
  );
}

function createEvidence(row) {
  return h(
    "dl",
    { class: "evidence" },
    h("dt", {}, "DAG run"),
    h(
      "dd",
      {},
      row.dag_run
        ? [
            createAirflowLink(buildDagRunPath(row.dag_run.dag_id, row.dag_run.run_id), row.dag_run.run_id),
            h("span", { class: "quiet" }, ` of ${row.dag_run.dag_id}`),
          ]
        : (row.holder ?? EMPTY_VALUE),
    ),
    h("dt", {}, "Data Docs"),
    h(
      "dd",
      {},
      row.data_docs
        ? createDocumentLink(buildDataDocsUrl(row.data_docs), "Great Expectations' validation result")
        : EMPTY_VALUE,
    ),
    h("dt", {}, "Iceberg table"),
    h("dd", {}, row.table ? [h("code", {}, row.table.name), " ", createCopyable(row.table.location)] : EMPTY_VALUE),
    h("dt", {}, "Snapshot"),
    h("dd", {}, row.snapshot_id ? createCopyable(row.snapshot_id) : "none"),
    h("dt", {}, "Planned"),
    h("dd", {}, formatInstant(row.opened_at_ms)),
    h("dt", {}, row.finished_at_ms ? "Finished" : "Updated"),
    h("dd", {}, formatInstant(row.finished_at_ms ?? row.updated_at_ms)),
    h("dt", {}, "Command line"),
    h("dd", {}, createCopyable(`winnow receipts ${row.topic}`)),
  );
}
