// The tab "Table": the files of a topic's table, what waits to be deleted, and when it was last swept and scrubbed.

import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createBarChart } from "../../charts.js";
import { createAge, createEmptyState, createFigure, createSection } from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount, formatCountWithNoun, formatPercent } from "../../format.js";

/** Creates the tab for the topic ``name``. */
export function createTableHealthTab(name) {
  const panel = createAsyncPanel({ lines: 8 });
  const element = h("div", { class: "stack" }, panel.element);
  const update = () =>
    panel.load(
      (signal) => fetchJson(`topics/${encodePathPart(name)}/health`, {}, signal),
      (answer) => drawHealth(answer, name),
    );
  return { element, update, stop: panel.stop };
}

function drawHealth(answer, name) {
  const { health, sweep, scrub } = answer;
  if (!health)
    return createEmptyState(
      "Nothing is known of the table's files yet.",
      h("p", {}, "The next check, ingest or run records it."),
    );
  return h(
    "div",
    { class: "stack" },
    createSection(
      "Files",
      { id: "files", note: h("span", {}, "As of ", createAge(health.recorded_at_ms)) },
      h(
        "dl",
        { class: "figures" },
        createFigure("Data files", formatCount(health.files), formatBytes(health.size_bytes)),
        createFigure("Average size", formatBytes(health.files ? health.size_bytes / health.files : null)),
        createFigure("Largest file", formatBytes(health.largest_bytes)),
        createFigure("segment.bytes", formatBytes(health.segment_bytes)),
        createFigure("Small files", ...describeSmallFiles(health)),
      ),
      createSizeCharts(health),
    ),
    createSection(
      "Metadata",
      { id: "metadata" },
      h(
        "dl",
        { class: "figures" },
        createFigure("Manifests", formatCount(health.manifests)),
        createFigure(
          "Snapshots",
          formatCount(health.snapshots),
          health.oldest_snapshot_ms ? h("span", {}, "oldest ", createAge(health.oldest_snapshot_ms)) : null,
        ),
        createFigure("Earlier metadata files", formatCount(health.metadata_files)),
      ),
    ),
    createSection(
      "Waiting for deletion",
      { id: "waiting", note: "Files that no reader of the newest snapshot needs" },
      h("dl", { class: "figures" }, createWaitingFigures(health, sweep)),
    ),
    createSection(
      "Maintenance",
      { id: "maintenance" },
      h("dl", { class: "figures" }, createSweepFigures(sweep, name), createScrubFigures(scrub)),
    ),
  );
}

function describeSmallFiles(health) {
  if (!health.files) return [EMPTY_VALUE];
  const share = formatPercent(health.small_files / health.files);
  return [
    `${formatCount(health.small_files)} (${share})`,
    `below half of segment.bytes, ${formatBytes(health.small_bytes)}`,
  ];
}

function createSizeCharts(health) {
  const labels = buildClassLabels(health.file_sizes);
  const chart = (title, name, format, base) =>
    createBarChart({
      title,
      format,
      base,
      labelRoom: 60,
      columns: health.file_sizes.map((each, index) => ({
        key: `${name}-${index}`,
        label: labels[index],
        stacks: [[{ kind: "after", value: each[name] }]],
        description: `${labels[index]}: ${formatCountWithNoun(each.files, "file")}, ${formatBytes(each.size_bytes)}`,
        tip: () =>
          h(
            "dl",
            { class: "tip-list" },
            h("dt", {}, labels[index]),
            h("dd", {}, formatCountWithNoun(each.files, "file")),
            h("dt", {}, "Bytes"),
            h("dd", {}, formatBytes(each.size_bytes)),
          ),
      })),
    });
  return h(
    "div",
    { class: "plots" },
    chart("Files by size", "files", formatCount, 10),
    chart("Bytes by size of file", "size_bytes", formatBytes, 1024),
  );
}

function formatLimit(bytes) {
  return formatBytes(bytes).replace(/\.0+(?=\D)/, "");
}

function buildClassLabels(classes) {
  return classes.map((each, index) =>
    each.below_bytes === null
      ? `> ${formatLimit(classes[index - 1].below_bytes)}`
      : `≤ ${formatLimit(each.below_bytes)}`,
  );
}

function createWaitingFigures(health, sweep) {
  const oldest = health.oldest_retired_ms ? h("span", {}, "oldest ", createAge(health.oldest_retired_ms)) : null;
  return [
    createFigure(
      "Retired",
      formatBytes(health.retired_bytes),
      h("span", {}, formatCountWithNoun(health.retired_files, "file"), oldest ? [", ", oldest] : null),
    ),
    createFigure(
      "Being deleted",
      formatBytes(health.condemned_bytes),
      formatCountWithNoun(health.condemned_files, "file"),
    ),
    createFigure(
      h("span", { "data-tip": "Files of runs and ingests that died; the next sweeps delete them" }, "Orphaned"),
      sweep ? formatBytes(sweep.orphaned_bytes) : "not known",
      sweep
        ? h("span", {}, formatCountWithNoun(sweep.orphaned_files, "file"), " left by the last sweep")
        : "no sweep yet",
    ),
  ];
}

function createSweepFigures(sweep, name) {
  if (!sweep) return createFigure("Last sweep", "never", `${nameDag("sweep_topics")}, or: winnow sweep ${name}`);
  return [
    createFigure("Last sweep", createAge(sweep.swept_at_ms)),
    createFigure("It deleted", formatBytes(sweep.bytes_deleted), formatCountWithNoun(sweep.files_deleted, "file")),
    createFigure("It expired", formatCountWithNoun(sweep.snapshots_expired, "snapshot")),
    sweep.unnamed_files
      ? createFigure("Nothing names", formatCountWithNoun(sweep.unnamed_files, "file"), `winnow sweep ${name} --json`)
      : null,
  ];
}

function createScrubFigures(scrub) {
  if (!scrub) return createFigure("Last scrub", "never", "no file was read in full yet");
  return [
    createFigure("Last scrub", createAge(scrub.last_checked_ms), formatCountWithNoun(scrub.files, "file")),
    createFigure("Oldest check", createAge(scrub.oldest_checked_ms)),
    createFigure(
      "Damaged files",
      scrub.findings ? h("span", { class: "late" }, formatCount(scrub.findings)) : "none",
      scrub.findings ? "see the alert segment_damaged" : null,
    ),
  ];
}
