// Gaps between records as rows of their table: which run removed what was there, as far as that is known.

import { createButton, createInstant, createLink } from "../../components.js";
import { h } from "../../dom.js";
import { formatCount, shortenId } from "../../format.js";
import { buildHash } from "../../router.js";

/** Puts ``gaps`` between ``records``, both in offset order. */
export function mergeGaps(records, gaps) {
  const start = (row) => BigInt(row.offset ?? row.first_offset);
  return [...records, ...gaps].sort((one, other) => (start(one) < start(other) ? -1 : 1));
}

/** Creates the content of a gap's row; null if ``row`` is a record. ``askWhy(partition, offset)`` opens why's answer. */
export function createGapContent(row, partition, askWhy) {
  if (row.first_offset === undefined) return null;
  const isOne = row.first_offset === row.last_offset;
  const first = formatCount(row.first_offset);
  const place = isOne ? `Offset ${first}` : `Offsets ${first} to ${formatCount(row.last_offset)}`;
  return h(
    "div",
    {},
    `${place}: ${row.outcome}`,
    describeRuns(row),
    `: ${row.reason}. `,
    createButton("Why?", {
      kind: "ghost",
      key: `gap-${row.first_offset}`,
      name: `Why is there no record at ${isOne ? "offset" : "offsets"} ${first}${isOne ? "" : ` to ${formatCount(row.last_offset)}`}?`,
      onPress: () => askWhy(partition, row.first_offset),
    }),
  );
}

function describeRuns(row) {
  const erased = row.erasures.length
    ? [row.runs.length ? " or by erasure " : " by erasure ", createIds(row.erasures)]
    : [];
  if (row.runs_total === 0) return erased;
  const [first, last] = row.runs;
  if (row.runs_total === 1) return [" by ", createRunLink(first), ...erased];
  const ends = last
    ? [", the first ", createRunLink(first), ", the last ", createRunLink(last)]
    : [", ", createRunLink(first)];
  return [` in one of ${formatCount(row.runs_total)} runs`, ...ends, ...erased];
}

function createIds(ids) {
  return ids
    .slice(-3)
    .map((each) => shortenId(each).slice(0, 12))
    .join(", ");
}

function createRunLink(run) {
  const time = [" of ", createInstant(run.finished_at_ms)];
  if (!run.plan_id) return ["a run", ...time];
  return [
    "run ",
    createLink(buildHash(["runs", run.plan_id]), h("code", {}, shortenId(run.plan_id).slice(0, 12))),
    ...time,
  ];
}
