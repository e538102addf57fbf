// A drawing of a partition's log: clean, cleanable, uncleanable, active, and the offsets between them.

import { h, s } from "./dom.js";
import { EMPTY_VALUE, formatCount } from "./format.js";
import { attachTooltip } from "./tooltip.js";

const SECTIONS = [
  ["clean", "Clean", "compacted already, below the first dirty offset"],
  ["cleanable", "Cleanable", "dirty and old enough, so the next compaction covers it"],
  ["young", "Not cleanable yet", "younger than min.compaction.lag.ms, or in a segment that is not closed yet"],
  ["active", "Active", "the active segment, which is never compacted"],
];
const MINIMUM_SHARE_PERCENT = 0.8;
/** Nearer to an end of the drawing, the label of the first dirty offset would overlap the label of that end. */
const MINIMUM_LABEL_DISTANCE_PERCENT = 32;
const PER_CENT = 10_000n;

function computeBounds(row) {
  const end = BigInt(row.log_end_offset);
  const active = row.active_offset === null ? end : BigInt(row.active_offset);
  const dirty = BigInt(row.first_dirty_offset);
  const uncleanable = BigInt(row.first_uncleanable_offset);
  const edges = [BigInt(row.log_start_offset), dirty, uncleanable, active, end];
  // Recorded offsets may be out of order; an edge is never drawn before the previous one.
  for (let index = 1; index < edges.length; index += 1)
    if (edges[index] < edges[index - 1]) edges[index] = edges[index - 1];
  return edges;
}

/** Computes the width of each section in per cent; a section that is not empty stays visible. */
function computeShares(edges) {
  const whole = edges[4] - edges[0];
  if (whole <= 0n) return [0, 0, 0, 0];
  const raw = SECTIONS.map((_, index) => Number(((edges[index + 1] - edges[index]) * PER_CENT) / whole) / 100);
  const shown = raw.map((share, index) =>
    edges[index + 1] > edges[index] ? Math.max(share, MINIMUM_SHARE_PERCENT) : 0,
  );
  const sum = shown.reduce((total, share) => total + share, 0);
  return shown.map((share) => (share * 100) / sum);
}

function listOffsets(row) {
  return [
    ["Log start offset", row.log_start_offset],
    ["First dirty offset", row.first_dirty_offset],
    ["Cleanable up to (exclusive)", row.first_uncleanable_offset],
    ["Active segment starts at", row.active_offset],
    ["Log end offset", row.log_end_offset],
  ];
}

/** Creates the drawing of one partition, scaled to its own log; hover and focus show the offsets. */
export function createLogStrip(row) {
  const edges = computeBounds(row);
  const widths = computeShares(edges);
  const description = `Log of partition ${row.partition}. ${listOffsets(row)
    .map(([name, value]) => `${name} ${value === null ? "none" : formatCount(value)}`)
    .join(", ")}.`;
  let left = 0;
  const sections = SECTIONS.map(([name], index) => {
    const x = left;
    left += widths[index];
    return widths[index]
      ? s("rect", { class: `log-${name}`, x: `${x}%`, y: 4, width: `${widths[index]}%`, height: 12 })
      : null;
  });
  const isEmpty = edges[4] === edges[0];
  const drawing = s(
    "svg",
    { class: "log-strip", role: "img", tabindex: "0", "aria-label": description, "data-key": `log-${row.partition}` },
    s("rect", { class: "log-ground", x: 0, y: 4, width: "100%", height: 12 }),
    sections,
    isEmpty ? null : s("line", { class: "log-dirty", x1: `${widths[0]}%`, x2: `${widths[0]}%`, y1: 0, y2: 20 }),
  );
  return h(
    "div",
    { class: "log" },
    attachTooltip(drawing, () => createOffsetList(row)),
    h(
      "div",
      { class: "log-ends", "aria-hidden": "true" },
      h("span", {}, formatCount(row.log_start_offset)),
      isEmpty ? h("span", {}, "empty") : null,
      widths[0] > MINIMUM_LABEL_DISTANCE_PERCENT && widths[0] < 100 - MINIMUM_LABEL_DISTANCE_PERCENT
        ? h(
            "span",
            { class: "log-dirty-label", vars: { "--at": `${widths[0]}%` } },
            formatCount(row.first_dirty_offset),
          )
        : null,
      h("span", {}, formatCount(row.log_end_offset)),
    ),
  );
}

function createOffsetList(row) {
  return h(
    "dl",
    { class: "tip-list" },
    listOffsets(row).map(([name, value]) => [
      h("dt", {}, name),
      h("dd", {}, value === null ? EMPTY_VALUE : formatCount(value)),
    ]),
  );
}

/** Creates the legend of the colours. */
export function createLogLegend() {
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend of the log" },
    SECTIONS.map(([name, label, meaning]) =>
      h("li", { "data-tip": `${label}: ${meaning}` }, createSwatch(`log-${name}`), label),
    ),
    h("li", { "data-tip": "The log below this offset is compacted" }, createDirtyMark(), "First dirty offset"),
  );
}

function createSwatch(name) {
  return s(
    "svg",
    { class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true" },
    s("rect", { class: "log-ground", width: 12, height: 12 }),
    s("rect", { class: name, width: 12, height: 12 }),
  );
}

function createDirtyMark() {
  return s(
    "svg",
    { class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true" },
    s("line", { class: "log-dirty", x1: 6, x2: 6, y1: 0, y2: 12 }),
  );
}
