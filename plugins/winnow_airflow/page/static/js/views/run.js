// One run: what it promised, what it did, whether the numbers add up, and where to look next.

import { get, part } from "../api.js";
import { h } from "../dom.js";
import { dagRunPath } from "../following.js";
import { bytes, count, NOTHING, percent, seconds, span, utc } from "../format.js";
import { icon } from "../icons.js";
import { place } from "../loading.js";
import {
  airflowLink,
  copyable,
  crumbs,
  dataDocs,
  documentLink,
  empty,
  figure,
  link,
  section,
  since,
} from "../parts.js";
import { hashOf } from "../router.js";
import { hasFailed, isRunning, runBadge } from "../states.js";
import { outcome } from "./outcome.js";
import { receipt } from "./receipt.js";
import { verdictTable } from "./verdicts.js";

const MARKS_ASKED = 200;
const LOOK_AGAIN_MS = 5_000;

/** The view of the run of the plan ``planId``. */
export function run(planId) {
  const body = place({ lines: 14 });
  const element = h("div", { class: "view" }, body.element);

  async function fetch(signal) {
    const found = await get(`runs/${part(planId)}`, {}, signal);
    const marks = hasFailed(found.status)
      ? await get(`topics/${part(found.topic)}/partitions`, { state: "uncleanable", size: MARKS_ASKED }, signal).catch(
          () => ({ partitions: [] }),
        )
      : { partitions: [] };
    return { ...found, marked: marks.partitions.filter((row) => row.uncleanable) };
  }

  let timer = 0;
  async function update() {
    clearTimeout(timer);
    const found = await body.load(fetch, draw);
    if (found && isRunning(found.status) && element.isConnected) timer = setTimeout(update, LOOK_AGAIN_MS);
  }

  const stop = () => {
    clearTimeout(timer);
    body.stop();
  };
  return { element, update, title: "Run", stop };
}

function draw(row) {
  return [
    crumbs(link(hashOf(["topics"]), "Topics"), link(hashOf(["topics", row.topic]), row.topic), "Run"),
    h(
      "div",
      { class: "title-row" },
      h("h1", {}, `Compaction of ${row.topic} `, runBadge(row.status)),
      h("div", { class: "row" }, links(row)),
    ),
    h(
      "p",
      { class: "quiet facts" },
      h("span", {}, "plan ", copyable(row.plan_id)),
      h("span", {}, "as of ", h("span", {}, utc(row.as_of_ms))),
      row.attempt ? h("span", {}, "attempt ", h("code", {}, row.attempt)) : null,
    ),
    outcome(row),
    figures(row),
    receipt(row),
    section(
      "Verdicts",
      { id: "verdicts", note: "Great Expectations judges the staged files before anything is published" },
      row.verdicts.length
        ? verdictTable(row.verdicts, { withRun: false, caption: "Verdicts of this run" })
        : empty("Nothing was judged."),
    ),
    section("Where to look", { id: "where" }, evidence(row)),
  ];
}

function links(row) {
  return [
    row.dag_run
      ? airflowLink(
          dagRunPath(row.dag_run.dag_id, row.dag_run.run_id),
          h("span", { class: "button" }, icon("external"), "DAG run and logs"),
        )
      : null,
    row.data_docs
      ? h(
          "a",
          { href: dataDocs(row.data_docs), target: "_blank", rel: "noopener", "data-leave": true, class: "button" },
          icon("external"),
          "Data Docs",
        )
      : null,
  ];
}

function figures(row) {
  const totals = row.totals;
  const removed = totals ? totals.records_superseded + totals.tombstones_expired : null;
  const saved = totals ? totals.bytes_in - totals.bytes_out : null;
  return h(
    "dl",
    { class: "figures" },
    figure(
      "Records removed",
      count(removed),
      totals?.records_in ? `${percent(removed / totals.records_in)} of ${count(totals.records_in)}` : null,
    ),
    figure(
      "Bytes reclaimed",
      bytes(saved),
      totals ? `${bytes(totals.bytes_in)} became ${bytes(totals.bytes_out)}` : null,
    ),
    totals?.records_retired
      ? figure("Left by retention", count(totals.records_retired), bytes(totals.bytes_retired))
      : null,
    figure(
      isRunning(row.status) ? "Since" : "From plan to end",
      isRunning(row.status)
        ? since(row.opened_at_ms)
        : span((row.finished_at_ms ?? row.updated_at_ms) - row.opened_at_ms),
      totals ? `${seconds(totals.seconds)} of it Spark's work` : null,
    ),
    figure("Finished", since(row.finished_at_ms ?? (isRunning(row.status) ? null : row.updated_at_ms))),
    figure(
      "Table snapshot",
      row.snapshot_id ? h("code", {}, row.snapshot_id) : NOTHING,
      row.table ? row.table.name : null,
    ),
  );
}

function evidence(row) {
  return h(
    "dl",
    { class: "evidence" },
    h("dt", {}, "DAG run"),
    h(
      "dd",
      {},
      row.dag_run
        ? [
            airflowLink(dagRunPath(row.dag_run.dag_id, row.dag_run.run_id), row.dag_run.run_id),
            h("span", { class: "quiet" }, ` of ${row.dag_run.dag_id}; its tasks have the logs`),
          ]
        : (row.holder ?? NOTHING),
    ),
    h("dt", {}, "Data Docs"),
    h("dd", {}, row.data_docs ? documentLink(dataDocs(row.data_docs), "Great Expectations' report") : NOTHING),
    h("dt", {}, "Table"),
    h("dd", {}, row.table ? [h("code", {}, row.table.name), " ", copyable(row.table.location)] : NOTHING),
    h("dt", {}, "Snapshot"),
    h("dd", {}, row.snapshot_id ? copyable(row.snapshot_id) : "none was made"),
    h("dt", {}, "Opened"),
    h("dd", {}, utc(row.opened_at_ms)),
    h("dt", {}, row.finished_at_ms ? "Finished" : "Updated"),
    h("dd", {}, utc(row.finished_at_ms ?? row.updated_at_ms)),
    h("dt", {}, "In a shell"),
    h("dd", {}, copyable(`winnow receipts ${row.topic}`)),
  );
}
