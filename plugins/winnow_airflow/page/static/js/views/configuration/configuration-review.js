// Dialogs that change a topic: what a change of its configuration does, before it is made; more partitions; a new topic.

import { openTopicChangeDialog } from "../../actions.js";
import { encodePathPart, fetchJson, sendJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createCallout } from "../../components.js";
import { createId, h, updateChildren } from "../../dom.js";
import { describeSetting, formatCountWithNoun } from "../../format.js";
import { createTable } from "../../table.js";
import { createConfigurationEditor } from "./configuration-editor.js";
import { createPreview } from "./configuration-preview.js";

const MAXIMUM_PARTITIONS = 10_000;
const TYPING_DELAY_MS = 300;

/**
 * Opens the review of ``changes`` to what ``topic`` sets in ``values``; ``done`` is called when the change is sent.
 * ``proposedReason``: may be written over.
 */
export function openReviewDialog(topic, values, changes, done, proposedReason = "") {
  const names = [...Object.keys(changes.config), ...changes.reset].sort();
  const preview = createAsyncPanel({ lines: 4 });
  const expected = Object.fromEntries(names.map((name) => [name, values[name] ?? null]));
  const previewed = preview.load(
    (signal) => sendJson("POST", `topics/${encodePathPart(topic)}/preview`, changes, signal),
    createPreview,
  );
  openTopicChangeDialog({
    title: `Change the configuration of ${topic}?`,
    wide: true,
    body: [createDifferenceTable(names, values, changes), preview.element],
    confirmLabel: "Apply",
    conf: () => ({ action: "alter", topic, config: changes.config, reset: changes.reset, expected }),
    toast: `Changing ${topic}`,
    sent: done,
    ready: previewed.then((answer) => Boolean(answer) && !answer.error),
    proposedReason,
  });
}

function createDifferenceTable(names, values, changes) {
  const describe = (name, value) =>
    value === undefined || value === null
      ? h("span", { class: "quiet" }, "default")
      : [h("code", {}, value || "(empty)"), " ", h("small", { class: "quiet" }, describeSetting(name, value))];
  return createTable({
    caption: "Changes",
    rows: names,
    columns: [
      { key: "name", label: "Key", heads: true, cell: (name) => h("code", {}, name) },
      { key: "before", label: "Now", cell: (name) => describe(name, values[name]) },
      { key: "after", label: "Afterwards", cell: (name) => describe(name, changes.config[name]) },
    ],
  });
}

/** Opens the dialog that adds partitions to ``topic``, which has ``present``. */
export function openPartitionsDialog(topic, present) {
  const id = createId("partitions");
  const input = createNumberField(id, present + 1, present + 1);
  openTopicChangeDialog({
    title: `Add partitions to ${topic}?`,
    body: [
      h("label", { for: id }, "Partitions in all"),
      input,
      h(
        "p",
        { class: "quiet" },
        `${topic} has ${formatCountWithNoun(present, "partition")}; the number can only grow.`,
      ),
      createCallout(
        "overdue",
        "Keys do not move.",
        h(
          "p",
          {},
          "From then on a key may be in two partitions. Compaction never merges across partitions, so both keep a latest record.",
        ),
      ),
    ],
    watch: [input],
    confirmLabel: "Add partitions",
    conf: () => ({ action: "add_partitions", topic, partitions: Number(input.value) }),
    toast: `Adding partitions to ${topic}`,
  });
}

function createNumberField(id, value, min) {
  return h("input", { id, type: "number", min, max: MAXIMUM_PARTITIONS, step: 1, value, required: true });
}

/** Opens the dialog that creates a topic. */
export async function openCreateDialog() {
  const { keys } = await fetchJson("configuration");
  const nameId = createId("topic");
  const partitionsId = createId("partitions");
  const name = h("input", {
    id: nameId,
    required: true,
    maxlength: 249,
    pattern: "[a-zA-Z0-9._\\-]+",
    autocomplete: "off",
    spellcheck: "false",
    autofocus: true,
  });
  const partitions = createNumberField(partitionsId, 3, 1);
  const refusal = h("p", { class: "warning", role: "status", hidden: true });
  const summary = h("summary", {}, "Configuration");
  const editor = createConfigurationEditor(keys, {}, () => {
    const count = Object.keys(editor.getChanges().config).length;
    updateChildren(summary, count ? `Configuration: ${formatCountWithNoun(count, "key")} set` : "Configuration");
    checkSoon();
  });
  const body = h(
    "div",
    { class: "dialog-body" },
    h("label", { for: nameId }, "Name"),
    name,
    h("label", { for: partitionsId }, "Partitions"),
    partitions,
    h("details", { class: "conf" }, summary, editor.element),
    refusal,
  );
  let timer = 0;
  function checkSoon() {
    clearTimeout(timer);
    timer = setTimeout(check, TYPING_DELAY_MS);
  }
  async function check() {
    if (!name.value || !body.isConnected) return;
    const asked = { topic: name.value, config: editor.getChanges().config };
    const { error } = await sendJson("POST", "configuration/check", asked).catch((problem) => ({
      error: problem.message,
    }));
    refusal.hidden = !error;
    refusal.textContent = error ?? "";
  }
  name.addEventListener("input", checkSoon);
  openTopicChangeDialog({
    title: "Create a topic",
    wide: true,
    body: [body],
    watch: [body],
    confirmLabel: "Create",
    conf: () => ({
      action: "create",
      topic: name.value,
      partitions: Number(partitions.value),
      config: editor.getChanges().config,
    }),
    toast: "Creating a topic",
  });
}
