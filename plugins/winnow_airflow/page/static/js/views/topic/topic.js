// The page of one topic: what holds for all of it, and its tabs.

import { createChangeButton, createCompactButton, createDryRunButton, createMaintenanceButton } from "../../actions.js";
import { encodePathPart, fetchAirflowJson, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import {
  createAge,
  createAirflowLink,
  createBreadcrumbs,
  createDeadline,
  createEmptyState,
  createFigure,
  createInstant,
  createLink,
  createRatioBar,
} from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { h, updateChildren } from "../../dom.js";
import { formatBytes, formatCount, formatCountWithNoun, formatReclaimable } from "../../format.js";
import { buildHash } from "../../router.js";
import { createRunBadge, createStateBadge, isRunning } from "../../state-badges.js";
import { findNextRun } from "../next-run.js";
import { showLastRequest } from "./last-request.js";
import { FIRST_TAB, TOPIC_TABS } from "./topic-tabs.js";

/** Creates the view of the topic ``name``; ``update(query, tab)`` shows one of its tabs. */
export function createTopicView(name) {
  const path = `topics/${encodePathPart(name)}`;
  const head = createAsyncPanel({ lines: 4 });
  const next = h("span", { class: "quiet", "aria-busy": "true" }, "…");
  const request = h("div", { class: "last-request" });
  const tabs = h("nav", { class: "tabs subtabs", "aria-label": `Tabs of ${name}` });
  const content = h("div", {});
  const rest = h("div", {}, request, tabs, content);
  const element = h(
    "div",
    { class: "view" },
    createBreadcrumbs(createLink(buildHash(["topics"]), "Topics"), name),
    head.element,
    rest,
  );
  let shown = { name: null, tab: null };
  let latest = null;

  function showTab(wanted) {
    if (wanted === shown.name) return;
    shown.tab?.stop();
    const found = TOPIC_TABS.find((each) => each.name === wanted);
    shown = { name: wanted, tab: found ? found.create(name) : null };
    updateChildren(
      tabs,
      TOPIC_TABS.map((each) =>
        h(
          "a",
          {
            href: buildHash(["topics", name, ...(each.name === FIRST_TAB ? [] : [each.name])]),
            "aria-current": each.name === wanted ? "page" : null,
            "data-key": `topic-tab-${each.name}`,
          },
          each.label,
        ),
      ),
    );
    updateChildren(content, shown.tab ? shown.tab.element : createEmptyState("There is no such tab."));
  }

  function update(query, tab = FIRST_TAB) {
    showTab(tab);
    head
      .load(
        (signal) => fetchJson(path, {}, signal),
        (answer) => createHeader(answer, next),
      )
      .then((answer) => {
        rest.hidden = !answer && head.element.querySelector(".figures") === null;
      });
    loadNextRun(next);
    showLastRequest(request, name);
    return shown.tab?.update(query);
  }

  /** Asks whether a run of the topic began, moved or ended since the last question. */
  async function hasChanged() {
    const answer = await fetchJson(`${path}/runs`, { size: 1 }).catch(() => null);
    if (answer === null) return false;
    const [run] = answer.runs;
    const seen = run ? `${run.plan_id} ${run.status} ${run.updated_at_ms}` : "none";
    const isNew = latest !== null && latest !== seen;
    latest = seen;
    return isNew;
  }

  const stop = () => {
    head.stop();
    shown.tab?.stop();
  };
  return { element, update, title: name, stop, hasChanged };
}

function createHeader(row, next) {
  const marked = row.partition_states.uncleanable;
  const paused = row.partition_states.paused;
  const isAtWork = row.last_run !== null && isRunning(row.last_run.status);
  return [
    h(
      "div",
      { class: "title-row" },
      h("h1", {}, row.topic, " ", isAtWork ? createRunBadge(row.last_run.status) : createStateBadge(row.state)),
      h(
        "div",
        { class: "row" },
        marked ? createChangeButton("release", row.topic, [], { key: "release-all", label: "Release all" }) : null,
        paused ? createChangeButton("resume", row.topic, [], { key: "resume-all", label: "Resume all" }) : null,
        createChangeButton("pause", row.topic, [], {
          key: "pause-all",
          label: "Pause all",
          disabledReason: paused === row.partitions ? "Every partition is paused already" : "",
        }),
        createDryRunButton(row.topic),
        createMaintenanceButton("scrub", row.topic),
        createMaintenanceButton("sweep", row.topic),
        createCompactButton(() => [row.topic]),
      ),
    ),
    h(
      "p",
      { class: "quiet facts" },
      h("span", {}, formatCountWithNoun(row.partitions, "partition")),
      h("span", {}, "cleanup.policy ", h("code", {}, row.policy)),
      h("span", {}, "strategy ", h("code", {}, row.strategy)),
      row.owner ? h("span", {}, "owner ", createLink(buildHash(["topics"], { owner: row.owner }), row.owner)) : null,
      row.tags.length
        ? h(
            "span",
            {},
            "tags ",
            row.tags.map((tag, index) => [index ? ", " : "", createLink(buildHash(["topics"], { tag }), tag)]),
          )
        : null,
      h("span", {}, "figures as of ", createAge(row.assessed_at_ms)),
      h("span", {}, "table ", h("code", { "data-tip": row.table.location }, row.table.name)),
    ),
    h(
      "dl",
      { class: "figures" },
      createFigure("Dirty ratio", createRatioBar(row.dirty_ratio, row.threshold)),
      createFigure("Compaction deadline", createDeadline(row.deadline_ms)),
      createFigure(
        "Reclaimable",
        formatReclaimable(row),
        row.retired_bytes ? `and ${formatBytes(row.retired_bytes)} of replaced files, not swept yet` : null,
      ),
      createFigure("Size", formatBytes(row.size_bytes)),
      createFigure(
        "Last run",
        row.last_run
          ? createLink(buildHash(["runs", row.last_run.plan_id]), createRunBadge(row.last_run.status))
          : "none",
        row.last_run ? createAge(row.last_run.updated_at_ms) : null,
      ),
      createFigure("Next DAG run", next),
      createFigure("Failing expectations", String(row.failing_expectations_7d), "in 7 days"),
      createFigure("Last scrub", ...describeLastScrub(row.scrub)),
      row.ingest_lag ? createFigure("Behind Kafka", ...describeIngestLag(row.ingest_lag)) : null,
      row.latest_table ? createFigure("Latest table", ...describeLatestTable(row.latest_table)) : null,
      row.source && row.source.state !== "absent" ? createFigure("Kafka topic", ...describeSource(row.source)) : null,
    ),
  ];
}

/** Describes how far the log was behind its Kafka topic, and how old the look at the brokers is. */
function describeIngestLag(lag) {
  const looked = h("span", {}, "asked ", createAge(lag.looked_at_ms));
  if (lag.records_behind === 0 && lag.records_uncommitted === 0) return ["nothing missing", looked];
  const since = lag.records_behind ? ["since ", createInstant(lag.complete_until_ms), ", "] : null;
  return [
    formatCountWithNoun(lag.records_behind, "offset"),
    h("span", {}, since, describeOpenTransaction(lag), looked),
  ];
}

/** Describes since when records wait to be in the table of the latest state, and until when they may. */
function describeLatestTable(latest) {
  const updated = latest.updated_at_ms === null ? null : h("span", {}, "updated ", createAge(latest.updated_at_ms));
  if (latest.missing_since_ms === null) return ["shows every record", updated];
  const due = latest.deadline_ms === null ? null : ["due ", createDeadline(latest.deadline_ms), ", "];
  return [h("span", {}, "lacks records since ", createInstant(latest.missing_since_ms)), h("span", {}, due, updated)];
}

/** Describes what became of the Kafka topic that the log follows. */
function describeSource(source) {
  if (source.state === "unfollowed") return ["not followed", "winnow topics unfollow"];
  return ["gone at Kafka", h("span", {}, "since ", createInstant(source.since_ms))];
}

/** Describes what open transactions hold back at the brokers, and since when. */
function describeOpenTransaction(lag) {
  if (lag.records_uncommitted === 0) return null;
  const held = `${formatCount(lag.records_uncommitted)} held by an open transaction`;
  return lag.open_since_ms === null ? `${held}, ` : [`${held} since `, createInstant(lag.open_since_ms), ", "];
}

/** Describes the last and the oldest full check by a scrub; damage takes precedence. */
function describeLastScrub(scrub) {
  if (!scrub) return ["never"];
  if (scrub.findings)
    return [`${formatCountWithNoun(scrub.findings, "damaged file")}`, "see the alert segment_damaged"];
  return [createAge(scrub.last_checked_ms), h("span", {}, "oldest check ", createAge(scrub.oldest_checked_ms))];
}

async function loadNextRun(element) {
  drawNextRun(element, await fetchAirflowJson(`dags/${nameDag("compact_topics")}`).catch((error) => error));
  element.setAttribute("aria-busy", "false");
}

function createLateRun(atMs) {
  return createAirflowLink(
    `dags/${nameDag("compact_topics")}/runs`,
    h(
      "span",
      {
        class: "late",
        "data-tip": `The scheduler does not run, or an earlier run of ${nameDag("compact_topics")} has not ended`,
      },
      "late since ",
      createInstant(atMs),
    ),
  );
}

function drawNextRun(element, dag) {
  if (dag instanceof Error)
    return updateChildren(element, h("span", { class: "quiet", "data-tip": dag.message }, "unknown"));
  const { state, atMs } = findNextRun(dag);
  const drawings = {
    paused: () => createAirflowLink(`dags/${nameDag("compact_topics")}`, "none: the DAG is paused"),
    unscheduled: () => h("span", { class: "quiet" }, "not scheduled"),
    ahead: () => createInstant(atMs),
    due: () => h("span", { "data-tip": "Airflow's scheduler starts it" }, "any moment"),
    late: () => createLateRun(atMs),
  };
  return updateChildren(element, drawings[state]());
}
