// One run: what it promised, what it did, whether the numbers add up, and where to look next.

import { compactButton, changeButton } from "../actions.js";
import { get, part } from "../api.js";
import { h } from "../dom.js";
import { bytes, count, counted, deviation, NOTHING, percent, seconds, span, utc, words } from "../format.js";
import { dagRunPath } from "../following.js";
import { icon } from "../icons.js";
import { place } from "../loading.js";
import { airflowLink, callout, copyable, crumbs, dataDocs, documentLink, empty, figure, link, nextAttempt, section, since } from "../parts.js";
import { hashOf } from "../router.js";
import { hasFailed, isRunning, runBadge } from "../states.js";
import { table } from "../table.js";
import { equation } from "./equation.js";
import { verdictTable } from "./verdicts.js";

const MARKS_ASKED = 200;
const LOOK_AGAIN_MS = 5_000;

const ENDS = {
  invalid: {
    title: "Validation failed. Nothing was published.",
    safe: "Readers see the log as it was before this run. The new files are named by nothing and go with the sweep; no record is lost.",
    next: "The failing expectations below and the Data Docs say what does not add up. Mend the cause, a damaged segment say, then release the partitions: the next run takes them.",
  },
  broken: {
    title: "Validation could not be carried out. Nothing was published.",
    safe: "Readers see the log as it was before this run. Nothing speaks against the data: a check raised an error.",
    next: "The log of the task validate has the error. Once its cause is gone, the next run judges again.",
  },
  refused: {
    title: "The log moved on while this run worked. Nothing was published.",
    safe: "Readers see the log as it is now. The files of this run go with the sweep.",
    next: "Nothing by hand: the next run plans anew.",
  },
  unknown: {
    title: "The catalog did not say whether the commit was made.",
    safe: "Nothing is cleaned up before that is known: every file of this run stays, and readers see either the log before or the log after, whole.",
    next: "Nothing by hand: the next run looks for this plan in the table's history first. Is the catalog away? Bring it back.",
  },
};

/** The view of the run of the plan ``planId``. */
export function run(planId) {
  const body = place({ lines: 14 });
  const element = h("div", { class: "view" }, body.element);

  async function fetch(signal) {
    const found = await get(`runs/${part(planId)}`, {}, signal);
    const marks = hasFailed(found.status) ? await get(`topics/${part(found.topic)}/partitions`, { state: "uncleanable", size: MARKS_ASKED }, signal).catch(() => ({ partitions: [] })) : { partitions: [] };
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
    h("p", { class: "quiet facts" }, h("span", {}, "plan ", copyable(row.plan_id)), h("span", {}, "as of ", h("span", {}, utc(row.as_of_ms))), row.attempt ? h("span", {}, "attempt ", h("code", {}, row.attempt)) : null),
    outcome(row),
    figures(row),
    receipt(row),
    section("Verdicts", { id: "verdicts", note: "Great Expectations judges the staged files before anything is published" }, row.verdicts.length ? verdictTable(row.verdicts, { withRun: false, caption: "Verdicts of this run" }) : empty("Nothing was judged.")),
    section("Where to look", { id: "where" }, evidence(row)),
  ];
}

function links(row) {
  return [
    row.dag_run ? airflowLink(dagRunPath(row.dag_run.dag_id, row.dag_run.run_id), h("span", { class: "button" }, icon("external"), "DAG run and logs")) : null,
    row.data_docs ? h("a", { href: dataDocs(row.data_docs), target: "_blank", rel: "noopener", "data-leave": true, class: "button" }, icon("external"), "Data Docs") : null,
  ];
}

function outcome(row) {
  const end = ENDS[row.status];
  if (isRunning(row.status)) return callout("due", "At work.", row.message ? h("p", {}, row.message) : null, h("p", {}, "This page looks again every few seconds."));
  if (row.status === "void") return callout("paused", "Left unfinished; a newer plan took its place.", row.message ? h("p", {}, row.message) : null, h("p", {}, "Nothing was published, and its files go with the sweep. There is nothing to do."));
  if (!end) return row.message ? h("p", { class: "message" }, row.message) : null;
  const marked = row.marked.map((each) => each.partition);
  return callout(
    row.status === "refused" || row.status === "unknown" ? "overdue" : "uncleanable",
    end.title,
    row.message ? h("p", { class: "message" }, row.message) : null,
    h("dl", { class: "advice" }, h("dt", {}, "What is safe"), h("dd", {}, end.safe), h("dt", {}, "What to do next"), h("dd", {}, end.next)),
    marked.length
      ? h("p", { class: "row" }, changeButton("release", row.topic, marked, { label: `Release ${counted(marked.length, "partition")}`, kind: "solid", key: "release" }), compactButton(() => [row.topic], { kind: "" }))
      : h("p", { class: "quiet" }, `No partition of ${row.topic} is marked uncleanable now.`),
    marked.length ? h("ul", { class: "marks" }, row.marked.map((each) => h("li", {}, `${row.topic}-${each.partition} is marked uncleanable after ${counted(each.uncleanable.attempts, "failure")}; it is tried again `, nextAttempt(each.uncleanable.next_attempt_ms), "."))) : null,
  );
}

function figures(row) {
  const totals = row.totals;
  const removed = totals ? totals.records_superseded + totals.tombstones_expired : null;
  const saved = totals ? totals.bytes_in - totals.bytes_out : null;
  return h(
    "dl",
    { class: "figures" },
    figure("Records removed", count(removed), totals && totals.records_in ? `${percent(removed / totals.records_in)} of ${count(totals.records_in)}` : null),
    figure("Bytes reclaimed", bytes(saved), totals ? `${bytes(totals.bytes_in)} became ${bytes(totals.bytes_out)}` : null),
    totals?.records_retired ? figure("Left by retention", count(totals.records_retired), bytes(totals.bytes_retired)) : null,
    figure(isRunning(row.status) ? "Since" : "From plan to end", isRunning(row.status) ? since(row.opened_at_ms) : span((row.finished_at_ms ?? row.updated_at_ms) - row.opened_at_ms), totals ? `${seconds(totals.seconds)} of it Spark's work` : null),
    figure("Finished", since(row.finished_at_ms ?? (isRunning(row.status) ? null : row.updated_at_ms))),
    figure("Table snapshot", row.snapshot_id ? h("code", {}, row.snapshot_id) : NOTHING, row.table ? row.table.name : null),
  );
}

function receipt(row) {
  const rows = row.receipt_partitions;
  if (rows.length === 0)
    return section("Receipt", { id: "receipt" }, empty(isRunning(row.status) ? "The receipt is written when the run is published." : "There is no receipt: nothing was published."));
  return [
    section("Where the records went", { id: "receipt", note: "Every record that came in is accounted for" }, equation(rows)),
    section("Plan against actual", { id: "plan", note: "Estimated from manifests and earlier receipts before Spark began" }, planTable(rows)),
  ];
}

function planTable(rows) {
  const notes = (row) =>
    [
      row.headers_missing ? `${count(row.headers_missing)} without the header` : null,
      row.headers_malformed ? `${count(row.headers_malformed)} with a malformed header` : null,
      row.keys_elsewhere ? `${count(row.keys_elsewhere)} keys that the partitioner would put elsewhere now` : null,
    ].filter(Boolean);
  const most = Math.max(0.001, ...rows.map((row) => row.seconds ?? 0));
  return table({
    caption: "Plan against actual",
    rows,
    columns: [
      { key: "partition", label: "Partition", heads: true, align: "right", width: "is-tight", cell: (row) => row.partition },
      { key: "reason", label: "Because", cell: (row) => (row.reason ? words(row.reason) : NOTHING) },
      { key: "range", label: "First dirty offset", align: "right", hint: "Before and after", cell: (row) => `${count(row.first_dirty_offset)} → ${count(row.next_first_dirty_offset)}` },
      { key: "expected_kept", label: "Kept, planned", align: "right", cell: (row) => count(row.expected_records_kept) },
      { key: "kept", label: "actual", align: "right", cell: (row) => [count(row.records_kept), off(row.records_kept, row.expected_records_kept)] },
      { key: "expected_out", label: "Bytes, planned", align: "right", cell: (row) => bytes(row.expected_bytes_out) },
      { key: "out", label: "actual", align: "right", cell: (row) => [bytes(row.bytes_out), off(row.bytes_out, row.expected_bytes_out)] },
      { key: "seconds", label: "Time", align: "right", cell: (row) => h("span", { class: "time-bar", vars: { "--share": String((row.seconds ?? 0) / most) } }, seconds(row.seconds)) },
      { key: "notes", label: "Notes", cell: (row) => (notes(row).length ? notes(row).join("; ") : h("span", { class: "quiet" }, NOTHING)) },
    ],
  });
}

function off(actual, expected) {
  return expected === null ? null : h("small", { class: "off" }, deviation(actual, expected));
}

function evidence(row) {
  return h(
    "dl",
    { class: "evidence" },
    h("dt", {}, "DAG run"),
    h("dd", {}, row.dag_run ? [airflowLink(dagRunPath(row.dag_run.dag_id, row.dag_run.run_id), row.dag_run.run_id), h("span", { class: "quiet" }, ` of ${row.dag_run.dag_id}; its tasks have the logs`)] : (row.holder ?? NOTHING)),
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
    h("dd", {}, copyable(`winnow history ${row.topic}`)),
  );
}
