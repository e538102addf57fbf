// Quality: open alerts, failing expectations over time, uncleanable partitions with reason and next attempt.

import { changeButton } from "../actions.js";
import { get } from "../api.js";
import { breakable, h } from "../dom.js";
import { count, counted, day, shortDay, words } from "../format.js";
import { icon } from "../icons.js";
import { place } from "../loading.js";
import { empty, link, nextAttempt, section, since } from "../parts.js";
import { barPlot, sparkBars } from "../plots.js";
import { hashOf, setQuery } from "../router.js";
import { pager, table } from "../table.js";
import { ownReason } from "./partitions.js";

const DAYS = [7, 30, 90];
const SIZE = 10;

/** The view of quality. */
export function quality() {
  const alerts = place({ lines: 3 });
  const marks = place({ lines: 5 });
  const time = place({ lines: 8 });
  const days = h("div", { class: "chips", role: "group", "aria-label": "Days shown" });
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen" }, "Quality"),
    h(
      "div",
      { class: "stack" },
      section("Open alerts", { id: "alerts" }, alerts.element),
      section(
        "Uncleanable partitions",
        { id: "uncleanable", note: "Left alone until the next attempt, or until they are released; retention goes on" },
        marks.element,
      ),
      section("Validation over time", { id: "time", tools: days }, time.element),
    ),
  );

  function update(query) {
    const shown = DAYS.includes(Number(query.days)) ? Number(query.days) : 30;
    days.replaceChildren(
      ...DAYS.map((each) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "aria-pressed": String(each === shown),
            "data-key": `days-${each}`,
            on: { click: () => setQuery({ days: each === 30 ? null : each }) },
          },
          `${each} days`,
        ),
      ),
    );
    alerts.load(
      (signal) => get("quality/alerts", { page: query.alerts, size: SIZE }, signal),
      (answer) =>
        answer.total === 0 ? empty("No alert is open.") : [alertTable(answer.alerts), more(answer, "alerts", "alert")],
    );
    marks.load(
      (signal) => get("quality/uncleanable", { page: query.marks, size: SIZE }, signal),
      (answer) =>
        answer.total === 0
          ? empty("Every partition can be cleaned.")
          : [markTable(answer.partitions), more(answer, "marks", "partition")],
    );
    time.load((signal) => get("quality", { days: shown }, signal), drawTime);
  }

  const stop = () => {
    for (const each of [alerts, marks, time]) each.stop();
  };
  return { element, update, title: "Quality", stop };
}

function more(answer, key, noun) {
  return answer.total > SIZE
    ? pager(answer, ({ page }) => setQuery({ [key]: page === 1 ? null : page }), { noun, sizes: false })
    : null;
}

function alertTable(rows) {
  const shape = (kind) =>
    ["deadline_near", "validation_broken", "commit_unknown", "sweep_stuck"].includes(kind) ? "overdue" : "uncleanable";
  return table({
    caption: "Open alerts",
    rows,
    columns: [
      {
        key: "kind",
        label: "Alert",
        heads: true,
        cell: (row) =>
          h("span", { class: `badge is-${shape(row.kind)}` }, icon(shape(row.kind)), h("span", {}, words(row.kind))),
      },
      { key: "topic", label: "Topic partition", width: "is-name", cell: (row) => topicLink(row) },
      { key: "since", label: "Since", cell: (row) => since(row.since_ms) },
      {
        key: "message",
        label: "What happened",
        width: "is-wide",
        cell: (row) => row.message ?? h("span", { class: "quiet" }, "no message was kept"),
      },
    ],
  });
}

function topicLink(row) {
  if (!row.topic) return h("span", { class: "quiet" }, "all topics");
  return h(
    "a",
    { class: "row-link", href: hashOf(["topics", row.topic]) },
    breakable(row.partition === null ? row.topic : `${row.topic}-${row.partition}`),
  );
}

function markTable(rows) {
  return table({
    caption: "Uncleanable partitions",
    rows,
    columns: [
      { key: "partition", label: "Topic partition", heads: true, width: "is-name", cell: topicLink },
      {
        key: "reason",
        label: "Reason",
        width: "is-wide",
        cell: (row) => ownReason(row.topic, row.partition, row.reason),
      },
      { key: "since", label: "Since", cell: (row) => since(row.since_ms) },
      { key: "attempts", label: "Attempts", align: "right", cell: (row) => count(row.attempts) },
      { key: "next", label: "Next attempt", cell: (row) => nextAttempt(row.next_attempt_ms) },
      {
        key: "run",
        label: "Run",
        cell: (row) =>
          row.plan_id ? link(hashOf(["runs", row.plan_id]), "Run") : h("span", { class: "quiet" }, count(null)),
      },
      {
        key: "act",
        label: "",
        align: "right",
        width: "is-tight",
        cell: (row) => changeButton("release", row.topic, [row.partition], { kind: "small" }),
      },
    ],
  });
}

function drawTime(answer) {
  const total = answer.series.reduce((sum, each) => sum + each.verdicts, 0);
  if (total === 0) return empty(`Nothing was validated in the last ${answer.days} days.`);
  const columns = answer.series.map((each) => ({
    key: `day-${each.day_ms}`,
    label: shortDay(each.day_ms),
    stacks: [
      [
        { kind: "passed", value: each.verdicts - each.failed - each.broken },
        { kind: "broken", value: each.broken },
        { kind: "failed", value: each.failed },
      ],
    ],
    said: `${day(each.day_ms)}: ${counted(each.verdicts, "verdict")}, ${each.failed} failed, ${each.broken} broken`,
    tip: () =>
      h(
        "dl",
        { class: "tip-list" },
        h("dt", {}, day(each.day_ms)),
        h("dd", {}, counted(each.verdicts, "verdict")),
        h("dt", {}, "Failed"),
        h("dd", {}, count(each.failed)),
        h("dt", {}, "Broken"),
        h("dd", {}, count(each.broken)),
      ),
  }));
  const most = Math.max(1, ...answer.expectations.flatMap((each) => each.by_day));
  return [
    barPlot({
      title: `Verdicts per day, the last ${answer.days} days`,
      columns,
      format: count,
      legend: [
        ["passed", "Passed"],
        ["broken", "Broken"],
        ["failed", "Failed"],
      ],
    }),
    answer.expectations.length === 0
      ? empty("No expectation failed.")
      : table({
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
            { key: "failures", label: "Failures", align: "right", cell: (row) => count(row.failures) },
            { key: "topics", label: "Topics", align: "right", cell: (row) => count(row.topics) },
            { key: "last", label: "Last", cell: (row) => since(row.last_ms) },
            {
              key: "by_day",
              label: "By day",
              width: "is-spark",
              cell: (row) =>
                sparkBars(row.by_day, most, `Failures of ${row.expectation} by day: ${row.by_day.join(", ")}`),
            },
          ],
        }),
  ];
}
