// Who won a key: its versions on an axis of offsets, those that lose point to the one that wins.

import { h, s } from "../../dom.js";
import { formatCount } from "../../format.js";
import { formatInstant } from "../../time-zone.js";
import { attachTooltip } from "../../tooltip.js";

const COLUMN = 104;
const MARK_Y = 74;
const STRIP_Y = 98;
const HEIGHT = 148;
const HEIGHT_WITHOUT_ARCS = 100;
const RADIUS = 9;
const MAXIMUM_VERSIONS = 20;
const SECTIONS = { clean: "log-clean", dirty: "log-cleanable", not_yet_cleanable: "log-young" };

/** Describes what became, or becomes, of one version. */
export function describeVersion(version, why) {
  const isWinner = why.winner?.offset === version.offset;
  const isNext = why.next_winner?.offset === version.offset;
  if (isWinner && (isNext || !why.next_winner)) return "wins";
  if (isWinner) return "superseded by the next run";
  if (isNext) return "wins in the next run";
  return version.section === "not_yet_cleanable" ? "not cleanable yet" : "superseded by the next run";
}

function classify(version, why) {
  const words = describeVersion(version, why);
  if (words === "wins") return "is-winner";
  if (words === "wins in the next run") return "is-next";
  return words === "not cleanable yet" ? "is-open" : "is-superseded";
}

/** Creates the picture of a ``why`` answer; null if it has no versions. */
export function createWhyPicture(why) {
  const versions = why.records.slice(-MAXIMUM_VERSIONS);
  for (const winner of [why.winner, why.next_winner])
    if (winner && !versions.some((each) => each.offset === winner.offset)) versions.unshift(winner);
  if (versions.length === 0) return null;
  const width = COLUMN * versions.length;
  const x = (index) => COLUMN * (index + 0.5);
  const target = versions.findIndex((each) => each.offset === (why.next_winner ?? why.winner)?.offset);
  const losers = versions.filter((each) => target >= 0 && classify(each, why) === "is-superseded");
  const height = losers.length ? HEIGHT : HEIGHT_WITHOUT_ARCS;
  const drawing = s(
    "svg",
    {
      class: "why-svg",
      width,
      height,
      viewBox: `0 ${HEIGHT - height} ${width} ${height}`,
      role: "group",
      "aria-label": "Versions of the key",
    },
    versions.map((version, index) =>
      s("rect", { class: SECTIONS[version.section], x: COLUMN * index, y: STRIP_Y, width: COLUMN, height: 6 }),
    ),
    versions.map((version, index) =>
      losers.includes(version) ? s("path", { class: "why-arc", d: buildArc(x(index), x(target)) }) : null,
    ),
    versions.map((version, index) => drawVersion(version, why, x(index))),
  );
  const left = why.records_total - versions.length;
  return h(
    "figure",
    { class: "why-picture" },
    h("div", { class: "table-scroll", role: "region", "aria-label": "Versions by offset", tabindex: "0" }, drawing),
    h(
      "figcaption",
      {},
      createLegend(),
      left > 0 ? h("p", { class: "quiet" }, `${formatCount(left)} older versions are not drawn.`) : null,
    ),
  );
}

function buildArc(from, to) {
  const height = Math.min(52, 18 + Math.abs(to - from) / 12);
  return `M${from} ${MARK_Y - RADIUS}Q${(from + to) / 2} ${MARK_Y - RADIUS - 2 * height} ${to} ${MARK_Y - RADIUS - 2}`;
}

function drawVersion(version, why, x) {
  const words = [describeVersion(version, why), version.tombstone ? "tombstone" : ""].filter(Boolean).join(", ");
  const label = `Offset ${formatCount(version.offset)}: ${words}`;
  const group = s(
    "g",
    { class: `why-version ${classify(version, why)}`, role: "img", tabindex: "0", "aria-label": label },
    s("circle", { cx: x, cy: MARK_Y, r: RADIUS }),
    version.tombstone
      ? s("path", { d: `M${x - 4} ${MARK_Y - 4}l8 8M${x + 4} ${MARK_Y - 4}l-8 8` })
      : classify(version, why) === "is-winner"
        ? s("path", { d: `M${x - 4} ${MARK_Y}l3 3.5 5.5-6.5` })
        : null,
    s("text", { class: "axis", x, y: STRIP_Y + 22, "text-anchor": "middle" }, formatCount(version.offset)),
    s(
      "text",
      { class: "axis", x, y: STRIP_Y + 38, "text-anchor": "middle" },
      version.version !== null
        ? `version ${version.version}`
        : version.timestamp_ms === null
          ? ""
          : formatInstant(version.timestamp_ms).slice(0, 10),
    ),
  );
  return attachTooltip(group, () =>
    h(
      "dl",
      { class: "tip-list" },
      [
        ["Offset", formatCount(version.offset)],
        ["Timestamp", version.timestamp_ms === null ? "none" : formatInstant(version.timestamp_ms)],
        ["Version", version.version ?? "none"],
        ["Value", version.tombstone ? "tombstone" : "there is one"],
        ["Outcome", words],
      ].map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  );
}

function createLegend() {
  const entry = (kind, label) =>
    h(
      "li",
      {},
      s(
        "svg",
        { class: `swatch why-version ${kind}`, viewBox: "0 0 12 12", "aria-hidden": "true" },
        s("circle", { cx: 6, cy: 6, r: 4.5 }),
      ),
      label,
    );
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    entry("is-winner", "Wins"),
    entry("is-next", "Wins in the next run"),
    entry("is-superseded", "Superseded by the next run"),
    entry("is-open", "Not cleanable yet"),
    h("li", {}, "× tombstone"),
    h("li", {}, "Strip: clean, cleanable, not cleanable yet"),
  );
}
