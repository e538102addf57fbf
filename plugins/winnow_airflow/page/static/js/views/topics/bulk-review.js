// One review of an action on many topics, before it is confirmed once: what it does, to which topics, and why not to others.

import { explainRefusal, openActionDialog } from "../../actions.js";
import { fetchJson, sendJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createCallout } from "../../components.js";
import { createId, h, insertBreakPoints } from "../../dom.js";
import { describeSetting, formatBytes, formatCount, formatCountWithNoun } from "../../format.js";
import { createReasonField, MAXIMUM_PARAM_REASON_CHARACTERS } from "../../reason-field.js";
import { createStateBadge } from "../../state-badges.js";
import { createTable } from "../../table.js";
import { createConfigurationEditor } from "../configuration/configuration-editor.js";

const TYPING_DELAY_MS = 300;
const MANY = "change_many";
const PAUSE_NAME = "Name of the pause";

/** What can be done with many topics. ``right``: the action that the user must be allowed; ``fields()``: what is asked. */
export const BULK_ACTIONS = {
  compact: {
    label: "Compact now",
    right: "compact",
    text: "Compacts the partitions that are due now. Topics that another run is compacting are left to it.",
    describe: (row) => `would free ${formatBytes(row.reclaimable_bytes)}`,
  },
  pause: {
    label: "Pause",
    right: MANY,
    reason: PAUSE_NAME,
    text: "No run compacts these topics while a pause is left. Reads and ingest continue.",
    describe: () => "all partitions are paused",
  },
  resume: {
    label: "Resume",
    right: MANY,
    reason: PAUSE_NAME,
    text: "Removes the pause of this name. Runs compact these topics again when no other pause is left.",
    describe: () => "the pause ends",
  },
  scrub: {
    label: "Scrub",
    right: "scrub",
    text: "Reads every live segment in full and checks it against what was written. Changes nothing.",
    describe: (row) => `reads ${formatBytes(row.size_bytes)}`,
    sum: (answer) => `${formatBytes(answer.size_bytes)} in all.`,
  },
  sweep: {
    label: "Sweep",
    right: "sweep",
    isIrreversible: true,
    text: "Deletes replaced files whose grace period has passed. Readers see the same log. What is deleted cannot be brought back, and runs whose files are gone cannot be undone.",
    describe: (row) => `${formatBytes(row.retired_bytes)} wait`,
    sum: (answer) => `${formatBytes(answer.retired_bytes)} wait in all; those stay whose grace period has not passed.`,
  },
  owner: { label: "Owner", right: MANY, action: "alter", fields: createOwnerField, describe: describeChanges },
  tags: { label: "Tags", right: MANY, action: "alter", fields: createTagFields, describe: describeChanges },
  configuration: {
    label: "Configuration",
    right: MANY,
    action: "alter",
    fields: createConfigurationFields,
    describe: describeChanges,
  },
};

/** Explains why the user may not do ``name`` with any topic; empty if they may. Single topics are checked by the review. */
export function explainBulkRefusal(name) {
  return explainRefusal(BULK_ACTIONS[name].right, []);
}

/**
 * Opens the review of the action ``name`` on ``count`` topics. ``wanted``: ``{topics}`` by name, or ``{only}``, the filter
 * that finds them. ``done`` is called when it was confirmed.
 */
export async function openBulkReview(name, wanted, count, done) {
  const kind = BULK_ACTIONS[name];
  const many = formatCountWithNoun(count, "topic");
  const panel = createAsyncPanel({ lines: 4 });
  const fields = kind.fields ? await kind.fields(askSoon) : { element: null, read: () => ({}) };
  const reason = createReasonField("", {
    label: kind.reason,
    isFirst: false,
    maximum: MAXIMUM_PARAM_REASON_CHARACTERS,
  });
  if (kind.reason) reason.input.addEventListener("input", askSoon);
  let answer = null;
  let timer = 0;

  const setReady = (isReady) => {
    const agree = dialog.querySelector("button[type=submit]");
    if (isReady) agree.removeAttribute("aria-disabled");
    else agree.setAttribute("aria-disabled", "true");
  };

  function askSoon() {
    setReady(false);
    clearTimeout(timer);
    timer = setTimeout(ask, TYPING_DELAY_MS);
  }

  async function ask() {
    if (fields.isEmpty?.()) {
      await panel.load(
        async () => null,
        () => h("p", { class: "quiet" }, "Nothing is changed yet."),
      );
      return;
    }
    const body = { ...wanted, action: kind.action ?? name, ...fields.read() };
    if (name === "resume") body.name = reason.read();
    const mine = timer;
    const found = await panel.load(
      (signal) => sendJson("POST", "bulk/review", body, signal),
      (review) => drawReview(kind, review),
    );
    if (mine !== timer) return;
    answer = found;
    panel.element.dispatchEvent(new Event("input"));
    setReady(Boolean(answer?.total));
  }

  const dialog = openActionDialog(kind.right, {
    title: `${kind.label}: ${many}?`,
    wide: true,
    body: [
      kind.text ? h("p", {}, kind.text) : null,
      kind.isIrreversible ? createCallout("overdue", "This cannot be undone.") : null,
      fields.element,
      reason.elements,
      h("section", { class: "bulk-review", "aria-label": "What it does" }, panel.element),
    ],
    watch: [panel.element, reason.input],
    confirmLabel: kind.label,
    conf: () => ({ ...(answer?.conf ?? {}), reason: reason.read() }),
    done: `${kind.label}: ${many}`,
    sent: done,
  });
  setReady(false);
  ask();
}

function drawReview(kind, review) {
  const sentences = [`It takes ${formatCountWithNoun(review.total, "topic")}.`];
  if (review.unchanged) sentences.push(`${formatCount(review.unchanged)} more are so already.`);
  if (review.refused_total) sentences.push(`Left out, see below: ${formatCount(review.refused_total)}.`);
  if (kind.sum) sentences.push(kind.sum(review));
  return [
    h("p", { role: "status" }, sentences.join(" ")),
    review.irreversible
      ? createCallout(
          "overdue",
          `Because of it, runs can remove records of ${formatCountWithNoun(review.irreversible, "topic")} for good.`,
        )
      : null,
    review.shown.length ? createTakenTable(kind, review) : null,
    review.refused.length ? createRefusedTable(review) : null,
  ];
}

function createTakenTable(kind, review) {
  const more = review.total - review.shown.length;
  return [
    createTable({
      caption: "Topics that it takes",
      rows: review.shown,
      columns: [
        { key: "topic", label: "Topic", heads: true, width: "is-name", cell: (row) => insertBreakPoints(row.topic) },
        { key: "state", label: "State", cell: (row) => createStateBadge(row.state) },
        { key: "effect", label: "What it does", width: "is-wide", cell: kind.describe },
      ],
    }),
    more > 0 ? h("p", { class: "quiet" }, `and ${formatCountWithNoun(more, "more topic")}`) : null,
  ];
}

function createRefusedTable(review) {
  const more = review.refused_total - review.refused.length;
  return [
    createTable({
      caption: "Topics that it cannot take",
      rows: review.refused,
      columns: [
        {
          key: "topic",
          label: `Left out: ${formatCountWithNoun(review.refused_total, "topic")}`,
          heads: true,
          width: "is-name",
          cell: (row) => insertBreakPoints(row.topic),
        },
        { key: "why", label: "Why", width: "is-wide", cell: (row) => row.reason },
      ],
    }),
    more > 0 ? h("p", { class: "quiet" }, `and ${formatCountWithNoun(more, "more topic")}`) : null,
  ];
}

function describeChanges(row) {
  return h(
    "ul",
    { class: "plain-list" },
    row.changes.map(({ name, before, after }) =>
      h("li", {}, h("code", {}, name), ": ", describeValue(name, before), " → ", describeValue(name, after)),
    ),
    row.is_irreversible ? h("li", {}, h("small", { class: "late" }, "Runs can remove records for good.")) : null,
  );
}

function describeValue(name, text) {
  if (text === null) return h("span", { class: "quiet" }, "default");
  const unit = describeSetting(name, text);
  return [h("code", {}, text || "(empty)"), unit ? h("small", {}, ` ${unit}`) : null];
}

function splitNames(text) {
  return text
    .split(",")
    .map((each) => each.trim())
    .filter(Boolean);
}

function createField(label, changed, hint) {
  const id = createId("field");
  const input = h("input", { id, autocomplete: "off", spellcheck: "false", maxlength: 400, on: { input: changed } });
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  const element = [
    h("label", { for: id }, label),
    input,
    hint ? h("p", { class: "quiet", id: `${id}-hint` }, hint) : null,
  ];
  return { element, input };
}

function createOwnerField(changed) {
  const { element, input } = createField("Owner", changed, "A team or a person; empty: nobody in particular.");
  input.maxLength = 100;
  const read = () => {
    const owner = input.value.trim();
    return owner ? { config: { "winnow.owner": owner } } : { reset: ["winnow.owner"] };
  };
  return { element, read };
}

function createTagFields(changed) {
  const added = createField("Tags to add", changed, "Separated by commas. Other tags of a topic stay.");
  const removed = createField("Tags to remove", changed);
  const read = () => ({ add_tags: splitNames(added.input.value), remove_tags: splitNames(removed.input.value) });
  const isEmpty = () => Object.values(read()).every((tags) => tags.length === 0);
  return { element: [added.element, removed.element], read, isEmpty };
}

async function createConfigurationFields(changed) {
  const { keys } = await fetchJson("configuration");
  const editor = createConfigurationEditor(keys, {}, changed);
  const reset = createField("Keys to reset to their defaults", changed, "Separated by commas.");
  const read = () => ({ config: editor.getChanges().config, reset: splitNames(reset.input.value) });
  return {
    element: [
      h("div", { class: "bulk-editor", role: "group", "aria-label": "Values to set" }, editor.element),
      reset.element,
    ],
    read,
    isEmpty: () => Object.keys(read().config).length + read().reset.length === 0,
  };
}
