// The log tab of a topic: its partitions, the history of its runs, and their validation.

import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createEmptyState, createSection } from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { h } from "../../dom.js";
import { createLogLegend } from "../../log-strip.js";
import { setQuery } from "../../router.js";
import { createPager, createTable } from "../../table.js";
import { createPartitionTable } from "../partition-table.js";
import { buildRunColumns } from "../runs.js";
import { createVerdictTable } from "../verdict-table.js";
import { createHistoryCharts } from "./history-charts.js";

const PARTITIONS_PER_PAGE = 20;
const CHARTED_RUNS = 40;
const RUNS_PER_PAGE = 10;
const VERDICTS_PER_PAGE = 10;

/** Creates the log tab of the topic ``name``. */
export function createLogTab(name) {
  const path = `topics/${encodePathPart(name)}`;
  const partitions = createAsyncPanel({ lines: 8 });
  const history = createAsyncPanel({ lines: 6 });
  const list = createAsyncPanel({ lines: 6 });
  const quality = createAsyncPanel({ lines: 4 });
  const element = h(
    "div",
    { class: "stack" },
    createSection("Partitions", { tools: createLogLegend(), id: "partitions" }, partitions.element),
    createSection("History", { id: "history", note: `The last ${CHARTED_RUNS} runs` }, history.element, list.element),
    createSection(
      "Quality",
      { id: "quality", note: "Great Expectations validates the new data files of each run before the commit" },
      quality.element,
    ),
  );

  function update(query) {
    const pageOf = (key) => Number(query[key]) || 1;
    const pages =
      (key) =>
      ({ page }) =>
        setQuery({ [key]: page === 1 ? null : page });
    partitions.load(
      (signal) => fetchJson(`${path}/partitions`, { page: pageOf("partitions"), size: PARTITIONS_PER_PAGE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState("No partition has been assessed yet.")
          : [
              createPartitionTable(name, answer.partitions),
              answer.total > PARTITIONS_PER_PAGE
                ? createPager(answer, pages("partitions"), { noun: "partition", sizes: false })
                : null,
            ],
    );
    history.load(
      (signal) => fetchJson(`${path}/runs`, { page: 1, size: CHARTED_RUNS }, signal),
      (answer) => (answer.runs.some((run) => run.totals) ? createHistoryCharts(answer.runs) : []),
    );
    list.load(
      (signal) => fetchJson(`${path}/runs`, { page: pageOf("runs"), size: RUNS_PER_PAGE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState(
              "This topic has not been compacted yet.",
              h(
                "p",
                {},
                `The DAG ${nameDag("compact_topics")} compacts it when it is due. “Compact now” triggers a DAG run at once.`,
              ),
            )
          : [
              createTable({
                caption: `Runs of ${name}`,
                columns: buildRunColumns({ withTopic: false }),
                rows: answer.runs,
              }),
              answer.total > RUNS_PER_PAGE ? createPager(answer, pages("runs"), { noun: "run", sizes: false }) : null,
            ],
    );
    quality.load(
      (signal) => fetchJson(`${path}/verdicts`, { page: pageOf("verdicts"), size: VERDICTS_PER_PAGE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState("This topic has not been validated yet.")
          : [
              createVerdictTable(answer.verdicts, { caption: `Validation results of ${name}` }),
              answer.total > VERDICTS_PER_PAGE
                ? createPager(answer, pages("verdicts"), { noun: "validation", sizes: false })
                : null,
            ],
    );
  }

  const places = [partitions, history, list, quality];
  const stop = () => {
    for (const each of places) each.stop();
  };
  return { element, update, stop };
}
