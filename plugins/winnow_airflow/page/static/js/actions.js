// Compact now, pause, resume, release: each is a DAG run, triggered through Airflow's API with the user's own rights.

import { getAirflow, part, trigger } from "./api.js";
import { openDialog } from "./dialog.js";
import { h, uid } from "./dom.js";
import { followDagRun } from "./following.js";
import { counted } from "./format.js";
import { airflowLink, button } from "./parts.js";

const COMPACT = "compact_topics";
const CHANGE = "change_partitions";
const NAMES_SHOWN = 12;
const LONGEST_REASON = 100;

let me = { user: "", can: { compact: false, change: false } };
let refresh = () => {};

/** Tell the actions who acts, and what to call when something they started has ended. */
export function prepare(user, ended) {
  me = user;
  refresh = ended;
}

function refusal(dagId) {
  const may = dagId === COMPACT ? me.can.compact : me.can.change;
  return may ? "" : `You may look, not act: your role in Airflow may not trigger ${dagId}.`;
}

/** "Compact now" for topics; ``topics()`` names them when it is pressed. ``why``: a reason that there is nothing to do. */
export function compactButton(topics, { why = "", label = "Compact now", kind = "solid" } = {}) {
  return button(label, {
    shape: "play",
    kind,
    key: "compact",
    why: refusal(COMPACT) || why,
    press: () => compact(topics()),
  });
}

const CHANGES = {
  pause: {
    shape: "pause",
    title: (what) => `Pause ${what}?`,
    says: "Runs leave it alone until everybody who paused it has resumed it. A run at work on it publishes nothing. Reading and ingesting go on.",
    asks: ["Name of this pause", "The same name resumes it, so choose one that says why."],
    verb: "Pause",
  },
  resume: {
    shape: "play",
    title: (what) => `Resume ${what}?`,
    says: "Takes a pause back. Compaction goes on when the last who paused it has resumed it.",
    asks: ["Name of the pause", "The name under which it was paused."],
    verb: "Resume",
  },
  release: {
    shape: "release",
    title: (what) => `Release ${what}?`,
    says: "The next run takes it again. For when the cause is mended; if it fails again, it waits 15 minutes, as after its first failure.",
    asks: ["Why", "Kept with the release, for whoever reads the history."],
    verb: "Release",
  },
};

/** A button for pause, resume or release of ``partitions`` of a topic (none: all of them). */
export function changeButton(action, topic, partitions, { label, kind = "", why = "", names = [], key } = {}) {
  const change = CHANGES[action];
  const what = target(topic, partitions);
  return button(label ?? change.verb, {
    shape: change.shape,
    kind,
    key: key ?? `${action}-${topic}-${partitions.join(",")}`,
    name: `${change.verb} ${what}`,
    why: refusal(CHANGE) || why,
    press: () => ask(action, topic, partitions, names),
  });
}

function target(topic, partitions) {
  if (partitions.length === 0) return `all partitions of ${topic}`;
  if (partitions.length === 1) return `${topic}-${partitions[0]}`;
  return `${counted(partitions.length, "partition")} of ${topic}`;
}

function compact(topics) {
  const conf = { topics };
  const more = topics.length - NAMES_SHOWN;
  const what = topics.length === 1 ? topics[0] : counted(topics.length, "topic");
  openFor(COMPACT, {
    title: `Compact ${what} now?`,
    body: [
      h(
        "p",
        {},
        "A DAG run looks at what is due now and compacts it: only partitions that are worth it, nothing that is paused or held by another run. Readers see the result in one commit, after validation.",
      ),
      topics.length > 1
        ? h(
            "ul",
            { class: "name-list" },
            topics.slice(0, NAMES_SHOWN).map((name) => h("li", {}, name)),
            more > 0 ? h("li", { class: "quiet" }, `and ${more} more`) : null,
          )
        : null,
    ],
    confirmLabel: "Compact now",
    conf: () => conf,
    done: `Compacting ${what}`,
  });
}

function ask(action, topic, partitions, names) {
  const change = CHANGES[action];
  const what = target(topic, partitions);
  const field = uid("field");
  const list = uid("names");
  const [question, hint] = change.asks;
  const proposed = action === "release" ? "" : action === "resume" ? (names[0] ?? me.user) : me.user;
  const input = h("input", {
    id: field,
    name: "reason",
    value: proposed,
    list: names.length ? list : null,
    maxlength: LONGEST_REASON,
    required: true,
    autofocus: true,
    autocomplete: "off",
    "aria-describedby": `${field}-hint`,
  });
  openFor(CHANGE, {
    title: change.title(what),
    body: [
      h("p", {}, change.says),
      h("label", { for: field }, question),
      input,
      names.length
        ? h(
            "datalist",
            { id: list },
            names.map((name) => h("option", { value: name })),
          )
        : null,
      h("p", { class: "quiet", id: `${field}-hint` }, names.length ? `${hint} Paused by: ${names.join(", ")}.` : hint),
    ],
    watch: input,
    confirmLabel: change.verb,
    conf: () => ({ action, topic, partitions, reason: input.value.trim() }),
    done: `${change.verb}: ${what}`,
  });
}

function openFor(dagId, { title, body, confirmLabel, conf, done, watch }) {
  const shown = h("code", {});
  const write = () => {
    shown.textContent = JSON.stringify(conf(), null, 2);
  };
  write();
  watch?.addEventListener("input", write);
  const warning = h("div", {});
  openDialog({
    title,
    body: [
      body,
      warning,
      h(
        "details",
        { class: "conf" },
        h("summary", {}, "What is sent to Airflow"),
        h("p", { class: "quiet" }, `POST /api/v2/dags/${dagId}/dagRuns as ${me.user}, with the conf`),
        h("pre", {}, shown),
      ),
    ],
    confirmLabel,
    confirm: async () => {
      const run = await trigger(dagId, conf());
      followDagRun(done, run, refresh);
    },
  });
  warnIfPaused(dagId, warning);
}

/** A DAG that is paused keeps its runs waiting, which nobody would see from here. */
async function warnIfPaused(dagId, place) {
  const dag = await getAirflow(`dags/${part(dagId)}`).catch(() => null);
  if (dag?.is_paused)
    place.replaceChildren(
      h(
        "p",
        { class: "warning" },
        `The DAG ${dagId} is paused in Airflow: the run will wait until it is switched on. `,
        airflowLink(`dags/${part(dagId)}`, "Open the DAG"),
      ),
    );
}
