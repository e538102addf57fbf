// Trends of one topic or of all: size, dirty ratio, ingest rate, time to deadline, bytes saved, work of the runs.

import { encodePathPart, fetchJson } from "../api.js";
import { createAsyncPanel } from "../async-panel.js";
import { createBarChart } from "../charts.js";
import { createEmptyState, createSection } from "../components.js";
import { createDayChips } from "../day-chips.js";
import { h } from "../dom.js";
import {
  formatBytes,
  formatCount,
  formatCountWithNoun,
  formatDay,
  formatDuration,
  formatPercent,
  formatSeconds,
  formatShortCount,
  formatShortDay,
} from "../format.js";
import { createLineChart } from "../line-chart.js";

const DAYS = [7, 30, 90, 365];
const DAY_MS = 86_400_000;
const MAXIMUM_BARS = 45;
const TIME_UNITS_MS = [60_000, 3_600_000, DAY_MS];
const TIME_UNITS_S = [60, 3_600];
const INGESTED = "Records ingested a day";

/** Creates the tab "Trends" of the topic ``name``. */
export function createTrendsTab(name) {
  const trends = createTrendsSection("Trends", { path: `topics/${encodePathPart(name)}/trends`, noun: "topic" });
  return { element: h("div", { class: "stack" }, trends.element), update: trends.update, stop: trends.stop };
}

/** Creates the section with the trends of all topics together. */
export function createLakeTrends() {
  return createTrendsSection("Trends of all topics", { path: "trends", noun: "lake" });
}

function createTrendsSection(title, { path, noun }) {
  const panel = createAsyncPanel({ lines: 10 });
  const days = createDayChips(DAYS, "trend-days");
  const element = createSection(
    title,
    { id: "trends", note: "Days are days in UTC", tools: days.element },
    panel.element,
  );

  function update(query) {
    const shown = days.show(query);
    return panel.load(
      (signal) => fetchJson(path, { days: shown }, signal),
      (answer) => drawTrends(answer, noun),
    );
  }

  return { element, update, stop: panel.stop };
}

function drawTrends(answer, noun) {
  if (answer.samples.length === 0)
    return createEmptyState(
      "Nothing has been recorded yet.",
      h("p", {}, "Each check, ingest and run records how large and how dirty the log is, once an hour."),
    );
  // What was before the first sample is not known, and no zero.
  const sinceMs = Math.max(answer.since_ms, Math.min(answer.samples[0].at_ms, answer.now_ms - DAY_MS));
  const line = (key, title, read, more) =>
    createLineChart({
      key: `trend-${key}`,
      title,
      points: answer.samples.map((sample) => ({ ms: sample.at_ms, value: read(sample) })),
      sinceMs,
      untilMs: answer.now_ms,
      ...more,
    });
  const periods = joinDays(answer.days.filter((day) => day.day_ms + DAY_MS > answer.samples[0].at_ms));
  return h(
    "div",
    { class: "plots" },
    line("size", "Size", (sample) => sample.size_bytes, { format: formatBytes, base: 1024 }),
    line(
      "dirty",
      noun === "lake" ? "Dirty ratio of all bytes" : "Dirty ratio, of the dirtiest partition",
      (s) => s.dirty_ratio,
      {
        format: formatPercent,
        ceiling: 1,
      },
    ),
    answer.days.some((day) => day.records_appended !== null)
      ? createDayChart("appended", INGESTED, periods, formatShortCount, [["kept", "", (day) => day.appended]])
      : createUnknownChart(INGESTED, "Not known yet: it takes two samples, and one is taken every hour."),
    answer.samples.some((sample) => sample.deadline_ms !== null)
      ? line("deadline", "Time to the nearest compaction deadline", readTimeToDeadline, {
          format: formatTimeLeft,
          units: TIME_UNITS_MS,
        })
      : null,
    createDayChart(
      "saved",
      "Bytes saved a day",
      periods,
      formatBytes,
      [["after", "", (day) => Math.max(0, day.bytes_saved)]],
      { base: 1024 },
    ),
    createDayChart(
      "moved",
      "Bytes moved a day",
      periods,
      formatBytes,
      [
        ["before", "Read", (day) => day.bytes_read],
        ["after", "Written", (day) => day.bytes_written],
      ],
      { base: 1024 },
    ),
    createTimeChart(periods),
  );
}

function createUnknownChart(title, why) {
  return h(
    "figure",
    { class: "plot" },
    h("figcaption", {}, h("span", { class: "plot-title" }, title)),
    h("p", { class: "quiet" }, why),
  );
}

/** Creates the chart of what the runs cost: CPU seconds where the runs measured them, else the time of their tasks. */
function createTimeChart(periods) {
  const measured = periods.some((day) => day.cpu_seconds > 0);
  return createDayChart(
    "cpu",
    measured ? "CPU time of Spark tasks a day" : "Run time of Spark tasks a day",
    periods,
    formatSeconds,
    [["after", "", (day) => (measured ? day.cpu_seconds : day.task_seconds)]],
    { units: TIME_UNITS_S },
  );
}

function createDayChart(key, title, periods, format, kinds, { base = 10, units } = {}) {
  return createBarChart({
    title: periods.some((day) => day.days > 1) ? title.replace(/a day$/, `in ${periods[0].days} days each`) : title,
    format,
    base,
    units,
    legend: kinds.length > 1 ? kinds.map(([kind, label]) => [kind, label]) : [],
    columns: periods.map((day) => {
      const values = kinds.map(([, label, read]) => `${label} ${format(read(day))}`.trim());
      const runs = formatCountWithNoun(day.runs, "run");
      return {
        key: `${key}-${day.day_ms}`,
        label: formatShortDay(day.day_ms),
        stacks: [kinds.map(([kind, , read]) => ({ kind, value: read(day) }))],
        description: `${formatDay(day.day_ms)}: ${values.join(", ")}; ${runs}`,
        tip: () =>
          h(
            "dl",
            { class: "tip-list" },
            h("dt", {}, `${formatDay(day.day_ms)} UTC`),
            h("dd", {}, key === "appended" ? formatCount(day.appended) : runs),
            key === "appended"
              ? null
              : kinds.map(([, label, read]) => [
                  h("dt", {}, label || title.replace(/ a day$/, "")),
                  h("dd", {}, format(read(day))),
                ]),
          ),
      };
    }),
  });
}

/** Joins days so that a chart has few enough bars to be read. */
function joinDays(days) {
  const size = Math.ceil(days.length / MAXIMUM_BARS);
  const periods = [];
  for (let end = days.length; end > 0; end -= size) {
    const some = days.slice(Math.max(0, end - size), end);
    const sum = (name) => some.reduce((total, day) => total + day[name], 0);
    const names = ["runs", "bytes_read", "bytes_written", "bytes_saved", "task_seconds", "cpu_seconds"];
    periods.unshift({
      day_ms: some[0].day_ms,
      days: size,
      appended: sum("records_appended"),
      ...Object.fromEntries(names.map((name) => [name, sum(name)])),
    });
  }
  return periods;
}

function readTimeToDeadline(sample) {
  return sample.deadline_ms === null ? null : sample.deadline_ms - sample.at_ms;
}

function formatTimeLeft(ms) {
  if (ms === 0) return "0";
  return ms < 0 ? `−${formatDuration(-ms)}` : formatDuration(ms);
}
