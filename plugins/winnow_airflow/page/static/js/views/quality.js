// The view "Quality": open alerts, uncleanable partitions with reason and next attempt, failing expectations over time.

import { createChangeButton } from "../actions.js";
import { fetchJson } from "../api.js";
import { createAsyncPanel } from "../async-panel.js";
import { createBarChart, createSparkline } from "../charts.js";
import { createAge, createEmptyState, createLink, createNextAttempt, createSection } from "../components.js";
import { createDayChips } from "../day-chips.js";
import { h, insertBreakPoints } from "../dom.js";
import { formatCount, formatCountWithNoun, formatDay, formatShortDay, splitWords } from "../format.js";
import { createIcon } from "../icons.js";
import { buildHash, setQuery } from "../router.js";
import { createPager, createTable } from "../table.js";
import { stripReasonPrefix } from "./partition-table.js";

const DAYS = [7, 30, 90];
const PAGE_SIZE = 10;

/** Creates the view. */
export function createQualityView() {
  const alerts = createAsyncPanel({ lines: 3 });
  const marks = createAsyncPanel({ lines: 5 });
  const time = createAsyncPanel({ lines: 8 });
  const days = createDayChips(DAYS, "days");
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen" }, "Quality"),
    h(
      "div",
      { class: "stack" },
      createSection(
        "Open alerts",
        { id: "alerts", tools: createLink(buildHash(["alerts"]), "Handle alerts, and their history") },
        alerts.element,
      ),
      createSection(
        "Uncleanable partitions",
        {
          id: "uncleanable",
          note: "Skipped by compaction until the next attempt or a release; retention still applies",
        },
        marks.element,
      ),
      createSection("Validation over time", { id: "time", tools: days.element }, time.element),
    ),
  );

  function update(query) {
    const shown = days.show(query);
    alerts.load(
      (signal) => fetchJson("quality/alerts", { page: query.alerts, size: PAGE_SIZE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState("No alert is open.")
          : [createAlertTable(answer.alerts), describeRemaining(answer, "alerts", "alert")],
    );
    marks.load(
      (signal) => fetchJson("quality/uncleanable", { page: query.marks, size: PAGE_SIZE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState("No partition is marked uncleanable.")
          : [createUncleanableTable(answer.partitions), describeRemaining(answer, "marks", "partition")],
    );
    time.load((signal) => fetchJson("quality", { days: shown }, signal), drawVerdictHistory);
  }

  const stop = () => {
    for (const each of [alerts, marks, time]) each.stop();
  };
  return { element, update, title: "Quality", stop };
}

function describeRemaining(answer, key, noun) {
  return answer.total > PAGE_SIZE
    ? createPager(answer, ({ page }) => setQuery({ [key]: page === 1 ? null : page }), { noun, sizes: false })
    : null;
}

function createAlertTable(rows) {
  const shape = (kind) =>
    ["deadline_near", "validation_broken", "commit_unknown", "sweep_stuck", "run_late", "configuration_held"].includes(
      kind,
    )
      ? "overdue"
      : "uncleanable";
  return createTable({
    caption: "Open alerts",
    rows,
    columns: [
      {
        key: "kind",
        label: "Alert",
        heads: true,
        cell: (row) =>
          h(
            "span",
            { class: `badge is-${shape(row.kind)}` },
            createIcon(shape(row.kind)),
            h("span", {}, splitWords(row.kind)),
          ),
      },
      { key: "topic", label: "Topic partition", width: "is-name", cell: (row) => createTopicLink(row) },
      { key: "since", label: "Since", cell: (row) => createAge(row.since_ms) },
      {
        key: "message",
        label: "Message",
        width: "is-wide",
        cell: (row) => row.message ?? h("span", { class: "quiet" }, "no message"),
      },
    ],
  });
}

function createTopicLink(row) {
  if (!row.topic) return h("span", { class: "quiet" }, "all topics");
  return h(
    "a",
    { class: "row-link", href: buildHash(["topics", row.topic]) },
    insertBreakPoints(row.partition === null ? row.topic : `${row.topic}-${row.partition}`),
  );
}

function createUncleanableTable(rows) {
  return createTable({
    caption: "Uncleanable partitions",
    rows,
    columns: [
      { key: "partition", label: "Topic partition", heads: true, width: "is-name", cell: createTopicLink },
      {
        key: "reason",
        label: "Reason",
        width: "is-wide",
        cell: (row) => stripReasonPrefix(row.topic, row.partition, row.reason),
      },
      { key: "since", label: "Since", cell: (row) => createAge(row.since_ms) },
      { key: "attempts", label: "Attempts", align: "right", cell: (row) => formatCount(row.attempts) },
      { key: "next", label: "Next attempt", cell: (row) => createNextAttempt(row.next_attempt_ms) },
      {
        key: "run",
        label: "Run",
        cell: (row) =>
          row.plan_id
            ? createLink(buildHash(["runs", row.plan_id]), "Run")
            : h("span", { class: "quiet" }, formatCount(null)),
      },
      {
        key: "act",
        label: "",
        align: "right",
        width: "is-tight",
        cell: (row) => createChangeButton("release", row.topic, [row.partition], { kind: "small" }),
      },
    ],
  });
}

function drawVerdictHistory(answer) {
  const total = answer.series.reduce((sum, each) => sum + each.verdicts, 0);
  if (total === 0) return createEmptyState(`Nothing was validated in the last ${answer.days} days.`);
  const columns = answer.series.map((each) => ({
    key: `day-${each.day_ms}`,
    label: formatShortDay(each.day_ms),
    stacks: [
      [
        { kind: "passed", value: each.verdicts - each.failed - each.broken },
        { kind: "broken", value: each.broken },
        { kind: "failed", value: each.failed },
      ],
    ],
    description: `${formatDay(each.day_ms)}: ${formatCountWithNoun(each.verdicts, "validation")}, ${each.failed} failed, ${each.broken} broken`,
    tip: () =>
      h(
        "dl",
        { class: "tip-list" },
        h("dt", {}, formatDay(each.day_ms)),
        h("dd", {}, formatCountWithNoun(each.verdicts, "validation")),
        h("dt", {}, "Failed"),
        h("dd", {}, formatCount(each.failed)),
        h("dt", {}, "Broken"),
        h("dd", {}, formatCount(each.broken)),
      ),
  }));
  const most = Math.max(1, ...answer.expectations.flatMap((each) => each.by_day));
  return [
    createBarChart({
      title: `Validations per day, last ${answer.days} days`,
      columns,
      format: formatCount,
      legend: [
        ["passed", "Passed"],
        ["broken", "Broken"],
        ["failed", "Failed"],
      ],
    }),
    answer.expectations.length === 0
      ? createEmptyState("No expectation failed.")
      : createTable({
          caption: "Failing expectations",
          rows: answer.expectations,
          columns: [
            {
              key: "expectation",
              label: "Failing expectation",
              heads: true,
              width: "is-name",
              cell: (row) => h("code", {}, row.expectation),
            },
            { key: "failures", label: "Failures", align: "right", cell: (row) => formatCount(row.failures) },
            { key: "topics", label: "Topics", align: "right", cell: (row) => formatCount(row.topics) },
            { key: "last", label: "Last failure", cell: (row) => createAge(row.last_ms) },
            {
              key: "by_day",
              label: "Failures per day",
              width: "is-spark",
              cell: (row) =>
                createSparkline(row.by_day, most, `Failures of ${row.expectation} per day: ${row.by_day.join(", ")}`),
            },
          ],
        }),
  ];
}
