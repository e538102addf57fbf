// The dialog with a section of the runbook. Commands name the topic and the partition of the alert.

import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createCommand, createCopyable } from "../../components.js";
import { createId, h } from "../../dom.js";
import { splitWords } from "../../format.js";

/** The names that stand in the runbook's commands for the topic and the partition of an alert. */
const TOPIC = /\borders\b/g;
const PARTITION = /--partition 0\b/g;

/** Creates the button that shows the runbook's section of an alert's kind. */
export function createRunbookButton(alert, { kind = "small" } = {}) {
  return createButton("Runbook", {
    kind,
    key: `runbook-${alert.kind}-${alert.topic}-${alert.partition}`,
    name: `Runbook of ${splitWords(alert.kind)}`,
    onPress: () => openRunbook(alert.kind, alert),
  });
}

/** Opens the dialog with a section, named by its anchor. */
export function openRunbook(section, { topic, partition } = {}) {
  const head = createId("runbook");
  const title = h("h2", { id: head }, splitWords(section));
  const panel = createAsyncPanel({ lines: 10 });
  const body = h("div", { class: "dialog-body runbook", tabindex: "0" }, panel.element);
  const dialog = h(
    "dialog",
    {
      class: "dialog is-wide",
      "aria-labelledby": head,
      on: {
        close: () => {
          panel.stop();
          dialog.remove();
        },
      },
    },
    title,
    body,
    h("div", { class: "dialog-buttons" }, createButton("Close", { kind: "solid", onPress: () => dialog.close() })),
  );
  const fill = (command) => fillCommand(command, topic, partition);

  function show(anchor) {
    panel.load(
      (signal) => fetchJson(`alerts/runbook/${encodePathPart(anchor)}`, {}, signal),
      (answer) => {
        title.textContent = splitWords(answer.title);
        body.scrollTop = 0;
        return [
          h("p", { class: "quiet" }, createCopyable(answer.address)),
          answer.blocks.map((block) => createBlock(block, fill, show)),
        ];
      },
    );
  }

  document.body.append(dialog);
  dialog.showModal();
  show(section);
}

function fillCommand(command, topic, partition) {
  const named = topic ? command.replace(TOPIC, topic) : command;
  return partition === null || partition === undefined ? named : named.replace(PARTITION, `--partition ${partition}`);
}

function createBlock(block, fill, show) {
  if (block.kind === "code") return createCommand(fill(block.text));
  if (block.kind === "list")
    return h(
      "ul",
      {},
      block.items.map((spans) => h("li", {}, createSpans(spans, show))),
    );
  return h(block.kind === "heading" ? "h3" : "p", {}, createSpans(block.spans, show));
}

function createSpans(spans, show) {
  return spans.map((span) => {
    if (span.anchor)
      return h("button", { type: "button", class: "as-link", on: { click: () => show(span.anchor) } }, span.text);
    return span.style ? h(span.style, {}, span.text) : span.text;
  });
}
