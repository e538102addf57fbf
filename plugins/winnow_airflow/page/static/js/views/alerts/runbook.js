// The dialog with a section of the runbook. Commands name the topic and the partition of the alert; what else they need, a
// path for instance, is filled in where it is known, and can be typed.

import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createCommand, createCopyable } from "../../components.js";
import { createId, h } from "../../dom.js";
import { splitWords } from "../../format.js";

/** The names that stand in the runbook's commands for the topic and the partition of an alert. */
const TOPIC = /\borders\b/g;
const PARTITION = /--partition 0\b/g;
/** A variable that a reader has to set: not those of Winnow and of the shell. */
const VARIABLE = /\$\{?(?!WINNOW_|PWD)([A-Z][A-Z_]*)/g;

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
  const fill = (command, values) => assignVariables(fillCommand(command, topic, partition), values);

  function show(anchor) {
    panel.load(
      (signal) => fetchJson(`alerts/runbook/${encodePathPart(anchor)}`, { topic, partition }, signal),
      (answer) => {
        title.textContent = splitWords(answer.title);
        body.scrollTop = 0;
        const values = { ...answer.values };
        const blocks = h("div", {});
        const draw = () =>
          blocks.replaceChildren(
            ...answer.blocks.map((block) => createBlock(block, (text) => fill(text, values), show)),
          );
        draw();
        return [
          h("p", { class: "quiet" }, createCopyable(answer.address)),
          listVariables(answer.blocks).map((name) =>
            createVariableField(name, values[name], (value) => {
              values[name] = value;
              draw();
            }),
          ),
          blocks,
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

function listVariables(blocks) {
  const commands = blocks.filter((block) => block.kind === "code").map((block) => block.text);
  return [...new Set(commands.flatMap((text) => [...text.matchAll(VARIABLE)].map((match) => match[1])))];
}

/** Puts the assignments that a command needs before it, quoted so that any path can be pasted. */
function assignVariables(command, values) {
  const names = [...new Set([...command.matchAll(VARIABLE)].map((match) => match[1]))].filter((name) => values[name]);
  return [...names.map((name) => `${name}='${values[name].replaceAll("'", "'\\''")}'`), command].join("\n");
}

function createVariableField(name, value, onInput) {
  return h(
    "label",
    { class: "field" },
    h("span", {}, `$${name}`),
    h("input", {
      type: "text",
      class: "input",
      value: value ?? "",
      spellcheck: "false",
      autocomplete: "off",
      on: { input: (event) => onInput(event.target.value.trim()) },
    }),
  );
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
