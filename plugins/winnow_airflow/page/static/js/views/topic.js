// One topic: what state it is in, its log, its history, its configuration, what validation said.

import { changeButton, compactButton } from "../actions.js";
import { get, getAirflow, part, serverNow } from "../api.js";
import { breakable, h, replace } from "../dom.js";
import { bytes, counted, meaning, words } from "../format.js";
import { place } from "../loading.js";
import { logLegend } from "../logstrip.js";
import { airflowLink, crumbs, due, empty, figure, instant, link, ratioBar, section, since } from "../parts.js";
import { hashOf, setQuery } from "../router.js";
import { runBadge, stateBadge } from "../states.js";
import { pager, table } from "../table.js";
import { historyPlots } from "./history.js";
import { partitionTable } from "./partitions.js";
import { runColumns } from "./runs.js";
import { verdictTable } from "./verdicts.js";

const PARTITIONS = 20;
const PLOTTED = 40;
const RUNS = 10;
const VERDICTS = 10;

/** The view of the topic ``name``. */
export function topic(name) {
  const path = `topics/${part(name)}`;
  const head = place({ lines: 4 });
  const partitions = place({ lines: 8 });
  const history = place({ lines: 6 });
  const list = place({ lines: 6 });
  const configuration = place({ lines: 6 });
  const quality = place({ lines: 4 });
  const next = h("span", { class: "quiet", "aria-busy": "true" }, "…");
  const rest = h(
    "div",
    { class: "stack" },
    section("Partitions", { tools: logLegend(), id: "partitions" }, partitions.element),
    section("History", { id: "history", note: `The last ${PLOTTED} runs` }, history.element, list.element),
    section(
      "Quality",
      { id: "quality", note: "What Great Expectations said before anything was published" },
      quality.element,
    ),
    section("Configuration", { id: "configuration" }, configuration.element),
  );
  const element = h("div", { class: "view" }, crumbs(link(hashOf(["topics"]), "Topics"), name), head.element, rest);
  let onlyDiffering = true;

  function update(query) {
    const pageOf = (key) => Number(query[key]) || 1;
    const pages =
      (key) =>
      ({ page }) =>
        setQuery({ [key]: page === 1 ? null : page });
    head
      .load(
        (signal) => get(path, {}, signal),
        (answer) => header(answer, next),
      )
      .then((answer) => {
        if (!answer) rest.hidden = head.element.querySelector(".figures") === null;
        else {
          rest.hidden = false;
          configuration.load(async () => answer.configuration, drawConfiguration);
        }
      });
    partitions.load(
      (signal) => get(`${path}/partitions`, { page: pageOf("partitions"), size: PARTITIONS }, signal),
      (answer) =>
        answer.total === 0
          ? empty("No partition has been looked at yet.")
          : [
              partitionTable(name, answer.partitions),
              answer.total > PARTITIONS
                ? pager(answer, pages("partitions"), { noun: "partition", sizes: false })
                : null,
            ],
    );
    history.load(
      (signal) => get(`${path}/runs`, { page: 1, size: PLOTTED }, signal),
      (answer) => (answer.runs.some((run) => run.totals) ? historyPlots(answer.runs) : []),
    );
    list.load(
      (signal) => get(`${path}/runs`, { page: pageOf("runs"), size: RUNS }, signal),
      (answer) =>
        answer.total === 0
          ? empty(
              "This topic has not been compacted yet.",
              h("p", {}, "The DAG compact_topics compacts it once it is due; “Compact now” asks for that at once."),
            )
          : [
              table({ caption: `Runs of ${name}`, columns: runColumns({ withTopic: false }), rows: answer.runs }),
              answer.total > RUNS ? pager(answer, pages("runs"), { noun: "run", sizes: false }) : null,
            ],
    );
    quality.load(
      (signal) => get(`${path}/verdicts`, { page: pageOf("verdicts"), size: VERDICTS }, signal),
      (answer) =>
        answer.total === 0
          ? empty("Nothing of this topic was validated yet.")
          : [
              verdictTable(answer.verdicts, { caption: `Quality verdicts of ${name}` }),
              answer.total > VERDICTS ? pager(answer, pages("verdicts"), { noun: "verdict", sizes: false }) : null,
            ],
    );
    showNextRun(next);
  }

  function drawConfiguration(entries) {
    const differing = entries.filter((entry) => !entry.is_default);
    const rows = onlyDiffering ? differing : entries;
    const flip = (event) => {
      onlyDiffering = event.target.checked;
      configuration.load(async () => entries, drawConfiguration);
    };
    return [
      h(
        "label",
        { class: "toggle" },
        h("input", { type: "checkbox", checked: onlyDiffering, "data-key": "differing", on: { change: flip } }),
        `Only what differs from the default (${differing.length} of ${entries.length})`,
      ),
      rows.length === 0
        ? empty("Every key has its default.")
        : table({
            caption: `Configuration of ${name}`,
            rows,
            rowClass: (row) => (row.is_default ? "is-dim" : ""),
            columns: [
              {
                key: "name",
                label: "Key",
                heads: true,
                width: "is-name",
                cell: (row) => h("code", {}, breakable(row.name)),
              },
              {
                key: "value",
                label: "Value",
                cell: (row) =>
                  h(
                    "span",
                    { class: row.value.length < 24 ? "is-short" : "" },
                    h("code", { class: "value" }, row.value),
                    h("small", {}, " ", meaning(row.name, row.value)),
                  ),
              },
              {
                key: "source",
                label: "From",
                cell: (row) => h("span", { class: row.source.length < 24 ? "is-short" : "" }, row.source),
              },
              { key: "sentence", label: "What it does", width: "is-wide", cell: (row) => row.sentence },
            ],
          }),
    ];
  }

  const places = [head, partitions, history, list, configuration, quality];
  const stop = () => {
    for (const each of places) each.stop();
  };
  return { element, update, title: name, stop };
}

function header(row, next) {
  const marked = row.partition_states.uncleanable;
  const paused = row.partition_states.paused;
  return [
    h(
      "div",
      { class: "title-row" },
      h("h1", {}, row.topic, " ", stateBadge(row.state)),
      h(
        "div",
        { class: "row" },
        marked ? changeButton("release", row.topic, [], { key: "release-all", label: "Release all" }) : null,
        paused ? changeButton("resume", row.topic, [], { key: "resume-all", label: "Resume all" }) : null,
        changeButton("pause", row.topic, [], {
          key: "pause-all",
          label: "Pause all",
          why: paused === row.partitions ? "Every partition is paused already" : "",
        }),
        compactButton(() => [row.topic]),
      ),
    ),
    h(
      "p",
      { class: "quiet facts" },
      h("span", {}, counted(row.partitions, "partition")),
      h("span", {}, "cleanup.policy ", h("code", {}, row.policy)),
      h("span", {}, "strategy ", h("code", {}, row.strategy)),
      h("span", {}, "looked at ", since(row.assessed_at_ms)),
      h("span", {}, "table ", h("code", { "data-tip": row.table.location }, row.table.name)),
    ),
    h(
      "dl",
      { class: "figures" },
      figure("Dirty ratio", ratioBar(row.dirty_ratio, row.threshold)),
      figure("Compaction deadline", due(row.deadline_ms)),
      figure(
        "Reclaimable",
        bytes(row.reclaimable_bytes),
        row.retired_bytes ? `and ${bytes(row.retired_bytes)} waiting for the sweep` : null,
      ),
      figure("Size", bytes(row.size_bytes)),
      figure(
        "Last run",
        row.last_run ? link(hashOf(["runs", row.last_run.plan_id]), runBadge(row.last_run.status)) : "none",
        row.last_run ? since(row.last_run.updated_at_ms) : null,
      ),
      figure("Next expected run", next),
      figure("Failing expectations", String(row.failing_expectations_7d), "in 7 days"),
      figure("Last checked", ...lastChecked(row.scrub)),
    ),
  ];
}

/** When a scrub read files of the topic in full last, and the one it read longest ago; damage comes first. */
function lastChecked(scrub) {
  if (!scrub) return ["never", "by a scrub"];
  if (scrub.findings) return [`${counted(scrub.findings, "damaged file")}`, "see its alert segment_damaged"];
  return [since(scrub.last_checked_ms), h("span", {}, "the oldest check ", since(scrub.oldest_checked_ms))];
}

async function showNextRun(element) {
  drawNextRun(element, await getAirflow("dags/compact_topics").catch((error) => error));
  element.setAttribute("aria-busy", "false");
}

function drawNextRun(element, dag) {
  if (dag instanceof Error) return replace(element, h("span", { class: "quiet", "data-tip": dag.message }, "unknown"));
  if (dag.is_paused) return replace(element, airflowLink("dags/compact_topics", "none: DAG paused"));
  const at = dag.next_dagrun_run_after ? Date.parse(dag.next_dagrun_run_after) : null;
  if (at === null) return replace(element, h("span", { class: "quiet" }, words("not scheduled")));
  const text =
    at <= serverNow() ? h("span", { "data-tip": "Its time has come; the scheduler starts it" }, "now") : instant(at);
  return replace(element, text);
}
