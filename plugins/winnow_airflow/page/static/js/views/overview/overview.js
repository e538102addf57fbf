// The view "Overview": all topics summed up, what is wrong, what runs and what is next, deadlines, top runs, trends.

import { fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createBarChart } from "../../charts.js";
import {
  createAge,
  createDeadline,
  createEmptyState,
  createFigure,
  createLink,
  createRatioBar,
  createSection,
} from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { h, insertBreakPoints } from "../../dom.js";
import {
  EMPTY_VALUE,
  formatBytes,
  formatCount,
  formatCountWithNoun,
  formatDay,
  formatDuration,
  formatSeconds,
  formatShortDay,
  splitWords,
} from "../../format.js";
import { createIcon } from "../../icons.js";
import { buildHash } from "../../router.js";
import { createRunBadge } from "../../state-badges.js";
import { createTable } from "../../table.js";
import { createLakeTrends } from "../trends.js";
import { createDagSchedule } from "./dag-schedule.js";

const STALE_AFTER_MS = 3_600_000;

/** Creates the view. */
export function createOverviewView() {
  const panel = createAsyncPanel({ lines: 18 });
  const schedule = createDagSchedule();
  const trends = createLakeTrends();
  const rest = h("div", { class: "stack", hidden: true }, trends.element);
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen" }, "Overview"),
    h("div", { class: "stack" }, panel.element, rest),
  );

  function update(query) {
    schedule.update();
    panel
      .load(
        (signal) => fetchJson("overview", {}, signal),
        (answer) => drawOverview(answer, schedule.element),
      )
      .then((answer) => {
        if (!answer) return;
        rest.hidden = answer.totals.topics === 0;
        if (!rest.hidden) trends.update(query);
      });
  }

  const stop = () => {
    for (const each of [panel, schedule, trends]) each.stop();
  };
  return { element, update, title: "Overview", stop };
}

function drawOverview(answer, schedule) {
  if (answer.totals.topics === 0)
    return createEmptyState(
      "There is no topic yet.",
      h("p", {}, "Topics appear here once they were created or assessed."),
      h("p", {}, createLink(buildHash(["topics"]), "How to make the first one")),
    );
  return h(
    "div",
    { class: "stack" },
    createTotals(answer),
    h(
      "div",
      { class: "columns" },
      createSection("Needs attention", { id: "wrong" }, createProblemList(answer)),
      createSection("Running now", { id: "working" }, createWorkingList(answer)),
    ),
    h(
      "div",
      { class: "columns" },
      createSection("Next deadlines", { id: "next" }, createNextTable(answer)),
      createSection("Next DAG runs", { id: "schedule" }, schedule),
    ),
    createDeadlineSection(answer),
    h(
      "div",
      { class: "columns" },
      createSection(
        "Longest runs",
        { id: "longest", note: "30 days, from planning to publishing" },
        createRankedTable("Longest runs", answer.longest, "duration"),
      ),
      createSection(
        "Most expensive runs",
        { id: "dearest", note: "30 days, by the time of their Spark tasks" },
        createRankedTable("Most expensive runs", answer.dearest, "cost"),
      ),
    ),
  );
}

function createTotals({ totals }) {
  return h(
    "dl",
    { class: "figures is-totals" },
    createFigure("Topics", createLink(buildHash(["topics"]), formatCount(totals.topics))),
    createFigure("Partitions", formatCount(totals.partitions)),
    createFigure("Records", formatCount(totals.records)),
    createFigure("Live bytes", formatBytes(totals.size_bytes), formatCountWithNoun(totals.files, "file")),
    createFigure(
      "Reclaimable",
      describeReclaimable(totals),
      totals.topics_unestimated && totals.reclaimable_bytes !== null
        ? `not known yet of ${formatCountWithNoun(totals.topics_unestimated, "topic")}`
        : "if all were compacted now",
    ),
    createFigure("Waiting for the sweep", formatBytes(totals.waiting_bytes), "of replaced files"),
    createFigure("Saved so far", formatBytes(totals.saved_bytes), "by all runs"),
  );
}

/** Describes what is reclaimable: a lower bound while it is not known of every topic. */
function describeReclaimable(totals) {
  if (!totals.reclaimable_bytes && totals.topics_unestimated) return "not known yet";
  return `${totals.topics_unestimated ? "at least " : ""}${formatBytes(totals.reclaimable_bytes)}`;
}

/** Lists what is wrong, the worst first: {shape, text, href, detail}. */
function listProblems(answer) {
  const { partition_states: partitions, topic_states: topics, totals, runs_failed: failed } = answer;
  const found = [];
  const add = (count, shape, text, href, detail) => count > 0 && found.push({ shape, text, href, detail });
  add(
    answer.damaged_files,
    "uncleanable",
    formatCountWithNoun(answer.damaged_files, "damaged file"),
    buildHash(["alerts"]),
    "found by a scrub",
  );
  add(
    partitions.uncleanable,
    "uncleanable",
    formatCountWithNoun(partitions.uncleanable, "uncleanable partition"),
    buildHash(["topics"], { state: "uncleanable" }),
    `in ${formatCountWithNoun(topics.uncleanable, "topic")}`,
  );
  add(
    partitions.overdue,
    "overdue",
    `${formatCountWithNoun(partitions.overdue, "partition")} past the compaction deadline`,
    buildHash(["topics"], { state: "overdue" }),
    topics.overdue ? `${formatCountWithNoun(topics.overdue, "topic")} overdue` : "",
  );
  for (const [status, count] of Object.entries(failed))
    add(
      count,
      status === "refused" ? "overdue" : "uncleanable",
      `${formatCountWithNoun(count, "run")} ${splitWords(status)}`,
      buildHash(["runs"], { status }),
      "in the last 24 hours",
    );
  add(
    answer.alerts.total,
    "overdue",
    formatCountWithNoun(answer.alerts.total, "open alert"),
    buildHash(["alerts"]),
    describeAlerts(answer.alerts),
  );
  const isStale = totals.assessed_at_ms !== null && totals.assessed_at_ms < answer.now_ms - STALE_AFTER_MS;
  add(
    isStale ? 1 : 0,
    "overdue",
    "Topics were not checked lately",
    buildHash(["topics"]),
    h("span", {}, "the oldest figures are of ", createAge(totals.assessed_at_ms)),
  );
  return found;
}

function describeAlerts({ total, alerts }) {
  const kinds = [...new Set(alerts.map(({ kind }) => splitWords(kind)))];
  return kinds.length ? `${kinds.join(", ")}${total > alerts.length ? " …" : ""}` : "";
}

function createProblemList(answer) {
  const problems = listProblems(answer);
  if (problems.length === 0)
    return h(
      "p",
      { class: "all-well is-healthy" },
      createIcon("healthy"),
      h("span", {}, "Nothing needs attention."),
      answer.partition_states.due
        ? h(
            "span",
            { class: "quiet" },
            `${formatCountWithNoun(answer.partition_states.due, "partition")} due: the next run compacts them.`,
          )
        : null,
    );
  return h(
    "ul",
    { class: "problems" },
    problems.map(({ shape, text, href, detail }) =>
      h(
        "li",
        { class: `is-${shape}` },
        createIcon(shape),
        h("a", { href }, text),
        detail ? h("span", { class: "quiet" }, detail) : null,
      ),
    ),
  );
}

function createWorkingList({ working }) {
  if (working.total === 0) return h("p", { class: "quiet" }, "No topic is being compacted.");
  return [
    createTable({
      caption: "Runs at work",
      rows: working.runs,
      columns: [
        { key: "topic", label: "Topic", heads: true, width: "is-name", cell: (row) => createRunLink(row) },
        { key: "status", label: "Stage", cell: (row) => createRunBadge(row.status) },
        { key: "opened", label: "Planned", cell: (row) => createAge(row.opened_at_ms) },
        { key: "updated", label: "Last change", cell: (row) => createAge(row.updated_at_ms) },
      ],
    }),
    working.total > working.runs.length
      ? h("p", { class: "quiet" }, `and ${formatCountWithNoun(working.total - working.runs.length, "run")} more`)
      : null,
  ];
}

function createRunLink(row) {
  return h(
    "a",
    { class: "row-link", href: buildHash(["runs", row.plan_id]), "data-key": `run-${row.plan_id}` },
    insertBreakPoints(row.topic),
  );
}

function createNextTable(answer) {
  const due = answer.topic_states.due;
  const note = due
    ? h(
        "p",
        { class: "quiet after-table" },
        createLink(buildHash(["topics"], { state: "due" }), formatCountWithNoun(due, "topic")),
        ` due now: the next run of ${nameDag("compact_topics")} takes them.`,
      )
    : null;
  if (answer.next.length === 0) return [h("p", { class: "quiet" }, "No topic has a compaction deadline."), note];
  return [
    createTable({
      caption: "Topics with the nearest compaction deadlines",
      rows: answer.next,
      columns: [
        {
          key: "topic",
          label: "Topic",
          heads: true,
          width: "is-name",
          cell: (row) =>
            h("a", { class: "row-link", href: buildHash(["topics", row.topic]) }, insertBreakPoints(row.topic)),
        },
        { key: "deadline", label: "Deadline", cell: (row) => createDeadline(row.deadline_ms) },
        { key: "ratio", label: "Dirty ratio", cell: (row) => createRatioBar(row.dirty_ratio, row.threshold) },
      ],
    }),
    note,
  ];
}

function createDeadlineSection({ deadlines }) {
  const total = deadlines.kept + deadlines.missed;
  const note = `30 days in UTC; missed once ${formatDuration(deadlines.grace_ms)} have passed after it`;
  if (total === 0)
    return createSection(
      "Compaction deadlines",
      { id: "deadlines", note },
      h(
        "p",
        { class: "quiet" },
        "No deadline was kept or missed. Topics have deadlines if max.compaction.lag.ms is set.",
      ),
    );
  return createSection(
    "Compaction deadlines",
    { id: "deadlines", note },
    createBarChart({
      title: `${formatCount(deadlines.kept)} kept, ${formatCount(deadlines.missed)} missed`,
      format: formatCount,
      legend: [
        ["passed", "Kept"],
        ["failed", "Missed"],
      ],
      columns: deadlines.days.map((day) => ({
        key: `deadlines-${day.day_ms}`,
        label: formatShortDay(day.day_ms),
        stacks: [
          [
            { kind: "failed", value: day.missed },
            { kind: "passed", value: day.kept },
          ],
        ],
        description: `${formatDay(day.day_ms)}: ${day.kept} kept, ${day.missed} missed`,
        tip: () =>
          h(
            "dl",
            { class: "tip-list" },
            h("dt", {}, `${formatDay(day.day_ms)} UTC`),
            h("dd", {}),
            h("dt", {}, "Kept"),
            h("dd", {}, formatCount(day.kept)),
            h("dt", {}, "Missed"),
            h("dd", {}, formatCount(day.missed)),
          ),
      })),
    }),
    deadlines.missed_latest.length ? createMissedTable(deadlines.missed_latest) : null,
  );
}

function createMissedTable(rows) {
  return createTable({
    caption: "Missed deadlines",
    rows,
    columns: [
      {
        key: "partition",
        label: "Partition",
        heads: true,
        width: "is-name",
        cell: (row) =>
          h(
            "a",
            { class: "row-link", href: buildHash(["topics", row.topic]) },
            insertBreakPoints(`${row.topic}-${row.partition}`),
          ),
      },
      { key: "deadline", label: "Deadline", cell: (row) => createAge(row.deadline_ms) },
      {
        key: "settled",
        label: "Compacted",
        cell: (row) =>
          row.settled_at_ms === null
            ? h("span", { class: "late" }, "not yet")
            : `${formatDuration(row.settled_at_ms - row.deadline_ms)} late`,
      },
    ],
  });
}

function createRankedTable(caption, rows, figure) {
  if (rows.length === 0) return h("p", { class: "quiet" }, "Nothing was published in this time.");
  const columns = {
    duration: {
      key: "duration",
      label: "Took",
      align: "right",
      cell: (row) => (row.duration_ms === null ? EMPTY_VALUE : formatDuration(row.duration_ms)),
    },
    cost: {
      key: "cost",
      label: rows.some((row) => row.cpu_seconds !== null) ? "CPU time" : "Task time",
      align: "right",
      cell: (row) => formatSeconds(row.cpu_seconds ?? row.task_seconds),
    },
  };
  return createTable({
    caption,
    rows,
    columns: [
      {
        key: "topic",
        label: "Topic",
        heads: true,
        width: "is-name",
        cell: (row) => [
          createRunLink(row),
          row.runs > 1
            ? h("small", { class: "quiet" }, ` and ${formatCountWithNoun(row.runs - 1, "more topic")}`)
            : null,
        ],
      },
      columns[figure],
      { key: "bytes", label: "Bytes read", align: "right", cell: (row) => formatBytes(row.bytes_in) },
      { key: "saved", label: "Saved", align: "right", cell: (row) => formatBytes(row.bytes_saved) },
      { key: "finished", label: "Published", cell: (row) => createAge(row.finished_at_ms) },
    ],
  });
}
