// The configuration tab of a topic: its values in force, where each comes from, what it does, and an editor.

import { createTopicChangeButton, openTopicChangeDialog } from "../../actions.js";
import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createEmptyState } from "../../components.js";
import { focusByKey, h, insertBreakPoints, updateChildren } from "../../dom.js";
import { describeSetting, formatCountWithNoun } from "../../format.js";
import { setQuery } from "../../router.js";
import { createTable } from "../../table.js";
import { createComparison } from "./configuration-comparison.js";
import { createConfigurationEditor } from "./configuration-editor.js";
import { openPartitionsDialog, openReviewDialog } from "./configuration-review.js";
import {
  createUndoNote,
  createUndoRefusal,
  fetchUndoneEntry,
  listFormerValues,
  proposeReason,
} from "./configuration-undo.js";
import { createSuiteTrial } from "./suite-trial.js";

/** Creates the configuration tab of ``topic``. */
export function createConfigurationTab(topic) {
  const panel = createAsyncPanel({ lines: 8 });
  const trial = createSuiteTrial(topic);
  let onlyDiffering = true;
  let isEditing = false;

  async function fetchConfiguration(signal) {
    const [found, { keys }, { tags }] = await Promise.all([
      fetchJson(`topics/${encodePathPart(topic)}`, {}, signal),
      fetchJson("configuration", {}, signal),
      fetchJson("labels", {}, signal),
    ]);
    const entries = found.configuration;
    const set = entries.filter((each) => each.source === "topic").map((each) => [each.name, each.value]);
    const values = Object.fromEntries(set);
    return { entries, keys, partitions: found.partitions, values, own: found.tags, tags };
  }

  // A refresh must not take away what somebody is typing.
  function update({ undo } = {}) {
    if (isEditing) return null;
    return undo ? openUndo(undo) : panel.load(fetchConfiguration, drawTable);
  }

  /** Opens the editor with the values from before an entry of the audit log. */
  function openUndo(entryId) {
    const fetchBoth = async (signal) => {
      const [found, entry] = await Promise.all([fetchConfiguration(signal), fetchUndoneEntry(topic, entryId, signal)]);
      return { ...found, entry };
    };
    return panel.load(fetchBoth, (found) => {
      if (found.entry === null) return [createUndoRefusal(), drawTable(found)];
      isEditing = true;
      return drawEditor(found);
    });
  }

  async function leaveEditor() {
    isEditing = false;
    setQuery({ undo: null }, { replace: true });
    await update();
    focusByKey(panel.element, "edit");
  }

  function drawEditor(found) {
    const bar = h("div", { class: "edit-bar", role: "status" });
    const showChanges = (changes) => {
      const count = Object.keys(changes.config).length + changes.reset.length;
      updateChildren(
        bar,
        h("span", {}, count ? formatCountWithNoun(count, "change") : "Nothing is changed yet"),
        createButton("Discard", { onPress: leaveEditor, key: "discard" }),
        createTopicChangeButton("Review changes", topic, {
          key: "review",
          kind: "solid",
          disabledReason: count ? editor.getTrouble() : "Change a value first",
          onPress: async () => {
            await editor.finishCheck();
            if (editor.getTrouble() !== "") return;
            const reason = found.entry ? proposeReason(found.entry) : "";
            openReviewDialog(topic, found.values, editor.getChanges(), leaveEditor, reason);
          },
        }),
      );
    };
    const editor = createConfigurationEditor(found.keys, found.values, showChanges);
    showChanges(editor.getChanges());
    if (found.entry) editor.fill(listFormerValues(found.entry));
    return [
      bar,
      found.entry ? createUndoNote(found.entry, found.values) : null,
      createComparison(topic, found.own, found.tags, editor),
      editor.element,
    ];
  }

  function drawTable(found) {
    const { entries } = found;
    const differing = entries.filter((entry) => !entry.is_default || entry.held != null);
    const held = entries.filter((entry) => entry.held != null);
    trial.propose(found.values["winnow.expectations"]);
    const rows = onlyDiffering ? differing : entries;
    const redraw = () => panel.load(async () => found, drawTable);
    const edit = async () => {
      isEditing = true;
      await panel.load(async () => found, drawEditor);
      focusByKey(panel.element, "filter-keys");
    };
    return [
      h(
        "div",
        { class: "row row-apart" },
        h(
          "label",
          { class: "toggle" },
          h("input", {
            type: "checkbox",
            checked: onlyDiffering,
            "data-key": "differing",
            on: {
              change: (event) => {
                onlyDiffering = event.target.checked;
                redraw();
              },
            },
          }),
          `Only keys that differ from the default (${differing.length} of ${entries.length})`,
        ),
        h(
          "span",
          { class: "row" },
          createTopicChangeButton("Add partitions", topic, {
            key: "add-partitions",
            onPress: () => openPartitionsDialog(topic, found.partitions),
          }),
          createTopicChangeButton("Edit configuration", topic, { key: "edit", kind: "solid", onPress: edit }),
        ),
      ),
      held.length === 0 ? null : createHeldBar(topic, held),
      rows.length === 0 ? createEmptyState("Every key has its default.") : createEntryTable(topic, rows),
    ];
  }

  const stop = () => {
    panel.stop();
    trial.stop();
  };
  return { element: h("div", { class: "stack" }, panel.element, trial.element), update, stop };
}

/** Creates the bar about changes at Kafka that wait because they would remove records. */
function createHeldBar(topic, held) {
  const names = held.map((entry) => `${entry.name}=${entry.held}`).join(", ");
  return h(
    "div",
    { class: "edit-bar" },
    h("span", {}, `At Kafka, and not in force here because it would remove records: ${names}`),
    createTopicChangeButton("Accept", topic, {
      key: "accept-held",
      onPress: () =>
        openTopicChangeDialog({
          title: `Take over ${names} from Kafka?`,
          body: h(
            "p",
            {},
            "Runs remove records of the log because of it. They cannot be brought back. Where the setting change.approvals is 2, another user has to approve it in Airflow.",
          ),
          confirmLabel: "Accept",
          conf: () => ({
            action: "accept_kafka_config",
            topic,
            expected: Object.fromEntries(held.map((entry) => [entry.name, entry.held])),
          }),
          toast: `Configuration of ${topic} from Kafka`,
        }),
    }),
  );
}

function createEntryTable(topic, rows) {
  return createTable({
    caption: `Configuration of ${topic}`,
    rows,
    rowClass: (row) => (row.is_default ? "is-dim" : ""),
    columns: [
      {
        key: "name",
        label: "Key",
        heads: true,
        width: "is-name",
        cell: (row) => h("code", {}, insertBreakPoints(row.name)),
      },
      {
        key: "value",
        label: "Value",
        cell: (row) =>
          h(
            "span",
            { class: row.value.length < 24 ? "is-short" : "" },
            h("code", { class: "value" }, row.value),
            h("small", {}, " ", describeSetting(row.name, row.value)),
          ),
      },
      {
        key: "source",
        label: "Source",
        cell: (row) =>
          h(
            "span",
            { class: row.source.length < 24 ? "is-short" : "" },
            row.source,
            row.kafka ? h("small", {}, " ", row.kafka) : null,
          ),
      },
      { key: "sentence", label: "Effect", width: "is-wide", cell: (row) => row.sentence },
    ],
  });
}
