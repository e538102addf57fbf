// Gaps between records as rows of their table: which run removed what was there, as far as that is known.

import { createButton, createInstant, createLink } from "../../components.js";
import { h } from "../../dom.js";
import { formatCount, shortenId } from "../../format.js";
import { buildHash } from "../../router.js";

/** Puts ``gaps`` between ``records`` of one partition, both in offset order. */
export function mergeGaps(records, gaps) {
  const start = (row) => BigInt(row.offset ?? row.first_offset);
  return [...records, ...gaps].sort((one, other) => (start(one) < start(other) ? -1 : 1));
}

/** Puts ``gaps`` between ``records`` of several partitions: each before the record that follows it in its partition. */
export function mergeGapsOfPartitions(records, gaps) {
  const rows = [];
  const left = [...gaps];
  const takeBefore = (record) => {
    while (left.length) {
      const place = left.findIndex(
        (gap) => gap.partition === record.partition && BigInt(gap.last_offset) < BigInt(record.offset),
      );
      if (place < 0) return;
      rows.push(...left.splice(place, 1));
    }
  };
  for (const record of records) {
    takeBefore(record);
    rows.push(record);
  }
  return [...rows, ...left];
}

/** Creates the content of a gap's row; null if ``row`` is a record. ``askWhy(partition, offset)`` opens why's answer. */
export function createGapContent(row, partition, askWhy) {
  if (row.first_offset === undefined) return null;
  const isOne = row.first_offset === row.last_offset;
  const first = formatCount(row.first_offset);
  const extent = isOne ? `offset ${first}` : `offsets ${first} to ${formatCount(row.last_offset)}`;
  const number = partition ?? row.partition;
  return h(
    "div",
    {},
    row.reason === undefined
      ? `No record of partition ${number} at ${extent}. `
      : [`${extent[0].toUpperCase()}${extent.slice(1)}: ${row.outcome}`, describeRuns(row), `: ${row.reason}. `],
    createButton("Why?", {
      kind: "ghost",
      key: `gap-${row.partition ?? ""}-${row.first_offset}`,
      name: `Why is there no record ${partition === null ? `of partition ${number} ` : ""}at ${extent}?`,
      onPress: () => askWhy(number, row.first_offset),
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
