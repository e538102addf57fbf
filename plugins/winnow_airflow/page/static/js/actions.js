// Compact now, pause, resume, release: each is a DAG run, triggered through Airflow's API with the user's own rights.

import { encodePathPart, fetchAirflowJson, fetchJson, triggerDagRun } from "./api.js";
import { createAsyncPanel } from "./async-panel.js";
import { createAirflowLink, createButton, createLink } from "./components.js";
import { nameDag, setDagPrefix } from "./dag-ids.js";
import { pollDagRun } from "./dag-run-toast.js";
import { openDialog } from "./dialog.js";
import { h } from "./dom.js";
import { formatCountWithNoun, formatSeconds } from "./format.js";
import { createReasonField, MAXIMUM_PARAM_REASON_CHARACTERS } from "./reason-field.js";
import { buildHash } from "./router.js";
import { createEstimateFigures } from "./views/run/run-estimate.js";

/** The DAG of each action, as the server names the actions that the user may start; without this installation's prefix. */
const DAGS = {
  compact: "compact_now",
  change: "change_partitions",
  configure: "change_topics",
  sweep: "sweep_topics",
  scrub: "scrub_topics",
  erase: "erase_keys",
  change_many: "change_many",
};
const MAXIMUM_NAMES_SHOWN = 12;
const PACE_RUNS = 5;

let me = { user: "", can: {}, topics_of_others: {} };
let refresh = () => {};

/** Sets the user who acts, and the function that refreshes the page after a DAG run has ended. */
export function initActions(user, ended) {
  me = user;
  setDagPrefix(user.dag_prefix);
  refresh = ended;
}

/** Whether the user may see keys and values of records, of topics that explainOwner() leaves to them. */
export function mayReadRecords() {
  return Boolean(me.can.read_records);
}

/** Explains why the user may not do ``action`` with ``topics``; empty if they may. */
export function explainRefusal(action, topics) {
  if (!me.can[action]) return `You have read access only: your Airflow role may not trigger ${nameDag(DAGS[action])}.`;
  return explainOwner(topics);
}

/** Explains which of ``topics`` belongs to an owner for whom the user may not act; empty if none does. */
export function explainOwner(topics) {
  const topic = topics.find((each) => Object.hasOwn(me.topics_of_others, each));
  return topic ? `${topic} is owned by ${me.topics_of_others[topic]}, for whom you may not act (setting owners).` : "";
}

/** Creates "Compact now"; ``topics()`` gives the topics when it is pressed. Disabled if ``disabledReason`` is not empty. */
export function createCompactButton(topics, { disabledReason = "", label = "Compact now", kind = "solid" } = {}) {
  return createButton(label, {
    shape: "play",
    kind,
    key: "compact",
    disabledReason: explainRefusal("compact", topics()) || disabledReason,
    onPress: () => openCompactDialog(topics()),
  });
}

const CHANGES = {
  pause: {
    shape: "pause",
    title: (what) => `Pause ${what}?`,
    explanation:
      "No run compacts it while a pause is left. A run in progress publishes nothing for it. Reads and ingest continue.",
    reasonField: [
      "Name of this pause",
      "Resume needs the same name, so choose one that says why, for example a ticket.",
    ],
    verb: "Pause",
  },
  resume: {
    shape: "play",
    title: (what) => `Resume ${what}?`,
    explanation: "Removes the pause of this name. Runs compact it again when no other pause is left.",
    reasonField: ["Name of the pause", "The name given when it was paused."],
    verb: "Resume",
  },
  release: {
    shape: "release",
    title: (what) => `Release ${what}?`,
    explanation:
      "Removes the uncleanable mark, so the next run compacts it. Release it when the cause is fixed. If it fails again, the next attempt follows after 15 minutes.",
    reasonField: ["Reason", "Recorded with the release in the topic's history."],
    verb: "Release",
  },
};

/** Creates a button that pauses, resumes or releases ``partitions`` of a topic; an empty list means all of them. */
export function createChangeButton(
  action,
  topic,
  partitions,
  { label, kind = "", disabledReason = "", names = [], key } = {},
) {
  const change = CHANGES[action];
  const what = describeTarget(topic, partitions);
  return createButton(label ?? change.verb, {
    shape: change.shape,
    kind,
    key: key ?? `${action}-${topic}-${partitions.join(",")}`,
    name: `${change.verb} ${what}`,
    disabledReason: explainRefusal("change", [topic]) || disabledReason,
    onPress: () => openChangeDialog(action, topic, partitions, names),
  });
}

function describeTarget(topic, partitions) {
  if (partitions.length === 0) return `all partitions of ${topic}`;
  if (partitions.length === 1) return `${topic}-${partitions[0]}`;
  return `${formatCountWithNoun(partitions.length, "partition")} of ${topic}`;
}

/** Creates the place where appears what a run of ``topic`` would do, or why it would do nothing. */
function createEstimate(topic) {
  const panel = createAsyncPanel({ lines: 3 });
  const path = `topics/${encodePathPart(topic)}`;
  const ask = (signal) =>
    Promise.all([
      fetchJson(`${path}/explain`, {}, signal),
      fetchJson(path, {}, signal),
      fetchJson(`${path}/runs`, { size: PACE_RUNS }, signal),
    ]);
  panel.load(ask, ([found, { held_by: holder }, { runs }]) => {
    if (holder) return createHolderWarning(holder);
    if (found.eligible_total === 0) return h("p", { class: "warning" }, `Nothing is due: ${explainIdle(found)}.`);
    return [createEstimateFigures(found), h("p", { class: "quiet" }, describePace(found, runs))];
  });
  return h("section", { class: "estimate", "aria-label": "What it would do" }, panel.element);
}

function createHolderWarning(holder) {
  return h(
    "p",
    { class: "warning" },
    `${holder.actor} is at work on it: this run would leave it to that one. `,
    holder.plan_id ? createLink(buildHash(["runs", holder.plan_id]), "See the run") : null,
  );
}

/** Explains why nothing is due, the commonest reason first. */
function explainIdle(found) {
  const counts = new Map();
  for (const { reason_text: reason } of found.partitions) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  const ordered = [...counts].sort(([, one], [, other]) => other - one);
  if (ordered.length === 1) return ordered[0][0];
  return ordered.map(([reason, count]) => `of ${formatCountWithNoun(count, "partition")}, ${reason}`).join("; ");
}

/** Describes how long Spark's tasks would work, at the pace of the topic's last runs. */
function describePace(found, runs) {
  const known = runs.filter((run) => run.totals?.bytes_in > 0).map((run) => run.totals);
  const bytes = known.reduce((sum, each) => sum + each.bytes_in, 0);
  if (bytes === 0) return "How long it takes is not known: no run has shown the pace yet.";
  const seconds = (found.totals.bytes_to_read / bytes) * known.reduce((sum, each) => sum + each.seconds, 0);
  return `About ${formatSeconds(seconds)} of task time at the pace of its last runs, and what starting Airflow's tasks and Spark takes.`;
}

function openCompactDialog(topics) {
  const conf = { topics };
  const more = topics.length - MAXIMUM_NAMES_SHOWN;
  const what = topics.length === 1 ? topics[0] : formatCountWithNoun(topics.length, "topic");
  openTriggerDialog(nameDag(DAGS.compact), {
    title: `Compact ${what} now?`,
    body: [
      h(
        "p",
        {},
        "Triggers a DAG run that compacts the partitions that are due now. It skips paused partitions, and topics that another run is compacting. After validation, one commit per topic makes the result visible to readers.",
      ),
      topics.length === 1 ? createEstimate(topics[0]) : null,
      topics.length > 1
        ? h(
            "ul",
            { class: "name-list" },
            topics.slice(0, MAXIMUM_NAMES_SHOWN).map((name) => h("li", {}, name)),
            more > 0 ? h("li", { class: "quiet" }, `and ${more} more`) : null,
          )
        : null,
    ],
    wide: topics.length === 1,
    confirmLabel: "Compact now",
    conf: () => conf,
    done: `Compacting ${what}`,
  });
}

function openChangeDialog(action, topic, partitions, names) {
  const change = CHANGES[action];
  const what = describeTarget(topic, partitions);
  const [question, hint] = change.reasonField;
  const reason = createReasonField(names.length ? `${hint} Paused by: ${names.join(", ")}.` : hint, {
    label: question,
    value: action === "release" ? "" : action === "resume" ? (names[0] ?? me.user) : me.user,
    names,
    maximum: MAXIMUM_PARAM_REASON_CHARACTERS,
  });
  openTriggerDialog(nameDag(DAGS.change), {
    title: change.title(what),
    body: [h("p", {}, change.explanation), reason.elements],
    watch: [reason.input],
    confirmLabel: change.verb,
    conf: () => ({ action, topic, partitions, reason: reason.read() }),
    done: `${change.verb}: ${what}`,
  });
}

/** Creates a button that changes ``topic`` itself, null: creates one; disabled for users who may not. */
export function createTopicChangeButton(label, topic, { onPress, kind = "", key, disabledReason = "" }) {
  return createButton(label, {
    kind,
    key,
    disabledReason: explainRefusal("configure", topic === null ? [] : [topic]) || disabledReason,
    onPress,
  });
}

/**
 * Opens a dialog that triggers change_topics with ``conf()`` and a reason; ``sent`` is called when it was triggered, and
 * ``ended`` when its DAG run has ended. ``proposedReason`` may be written over.
 */
export function openTopicChangeDialog({
  title,
  body,
  confirmLabel,
  conf,
  toast,
  watch = [],
  wide = false,
  sent,
  ended,
  ready,
  proposedReason = "",
}) {
  const reason = createReasonField("", {
    value: proposedReason,
    isFirst: false,
    maximum: MAXIMUM_PARAM_REASON_CHARACTERS,
  });
  openTriggerDialog(nameDag(DAGS.configure), {
    title,
    body: [body, reason.elements],
    watch: [...watch, reason.input],
    confirmLabel,
    conf: () => ({ ...conf(), reason: reason.read() }),
    done: toast,
    wide,
    sent,
    ended,
    ready,
  });
}

/** Creates a button about erasing keys of ``topic``; disabled for users who may not. */
export function createEraseButton(label, topic, { onPress, kind = "", key, disabledReason = "" }) {
  return createButton(label, {
    kind,
    key,
    disabledReason: explainRefusal("erase", [topic]) || disabledReason,
    onPress,
  });
}

/** Opens a dialog that triggers erase_keys; its options are those of openTopicChangeDialog(), without a reason. */
export function openEraseDialog(options) {
  openTriggerDialog(nameDag(DAGS.erase), options);
}

const MAINTENANCE = {
  sweep: {
    label: "Sweep",
    title: (topic) => `Sweep ${topic}?`,
    text: "Deletes replaced files whose grace period (winnow.retired.grace.ms) has passed. Readers see the same log.",
  },
  scrub: {
    label: "Scrub",
    title: (topic) => `Scrub ${topic}?`,
    text: "Reads every live segment of the topic in full and checks it against what was written. Changes nothing; damage raises an alert.",
  },
};

/** Creates the button that sweeps or scrubs ``topic``. */
export function createMaintenanceButton(action, topic) {
  const { label, title, text } = MAINTENANCE[action];
  return createButton(label, {
    key: action,
    disabledReason: explainRefusal(action, [topic]),
    onPress: () =>
      openTriggerDialog(nameDag(DAGS[action]), {
        title: title(topic),
        body: h("p", {}, text),
        confirmLabel: label,
        conf: () => ({ topics: [topic] }),
        done: `${label}: ${topic}`,
      }),
  });
}

/** Creates the button of a dry run of ``topic``: a DAG run that reports what it would do, in its task's log. */
export function createDryRunButton(topic) {
  return createButton("Dry run", {
    key: "dry-run",
    disabledReason: explainRefusal("compact", [topic]),
    onPress: () =>
      openTriggerDialog(nameDag(DAGS.compact), {
        title: `Dry run of ${topic}?`,
        body: h(
          "p",
          {},
          "Triggers a DAG run that only reports what it would read, write and remove, in the log of its task plan. Nothing is planned, locked or changed.",
        ),
        confirmLabel: "Dry run",
        conf: () => ({ topics: [topic], dry_run: true }),
        done: `Dry run of ${topic}`,
      }),
  });
}

/** Opens a dialog that triggers the DAG of ``action`` with ``conf()``, and returns it. */
export function openActionDialog(action, options) {
  return openTriggerDialog(nameDag(DAGS[action]), options);
}

function openTriggerDialog(
  dagId,
  { title, body, confirmLabel, conf, done, watch = [], wide = false, before, sent, ended, ready = null },
) {
  const shown = h("code", {});
  const write = () => {
    shown.textContent = JSON.stringify(conf(), null, 2);
  };
  write();
  for (const each of watch) each.addEventListener("input", write);
  const warning = h("div", {});
  const dialog = openDialog({
    title,
    wide,
    ready,
    body: [
      body,
      warning,
      h(
        "details",
        { class: "conf" },
        h("summary", {}, "Request to Airflow"),
        h("p", { class: "quiet" }, `POST /api/v2/dags/${dagId}/dagRuns as ${me.user}, with the conf`),
        h("pre", {}, shown),
      ),
    ],
    confirmLabel,
    confirm: async () => {
      await before?.();
      const run = await triggerDagRun(dagId, conf());
      pollDagRun(done, run, () => {
        refresh();
        ended?.();
      });
      sent?.();
    },
  });
  warnIfPaused(dagId, warning);
  return dialog;
}

/** Adds a warning if the DAG is paused, because its run would wait and the page could not show why. */
async function warnIfPaused(dagId, place) {
  const dag = await fetchAirflowJson(`dags/${encodePathPart(dagId)}`).catch(() => null);
  if (dag?.is_paused)
    place.replaceChildren(
      h(
        "p",
        { class: "warning" },
        `The DAG ${dagId} is paused in Airflow: the DAG run stays queued until the DAG is unpaused. `,
        createAirflowLink(`dags/${encodePathPart(dagId)}`, "Open the DAG"),
      ),
    );
}
