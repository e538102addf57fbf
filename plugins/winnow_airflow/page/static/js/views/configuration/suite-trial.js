// The trial of a content suite on the newest records of a topic, before it may block a run.

import { encodePathPart, sendJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createEmptyState, createSection } from "../../components.js";
import { h } from "../../dom.js";
import { formatCountWithNoun } from "../../format.js";
import { createTable } from "../../table.js";

/** Creates the section. ``propose(name)`` fills in the suite that the topic names, if nothing was typed. */
export function createSuiteTrial(topic) {
  const panel = createAsyncPanel({ lines: 4 });
  const input = h("input", {
    type: "text",
    "aria-label": "Suite to try",
    placeholder: "example_json_values",
    "data-key": "suite-name",
    spellcheck: "false",
  });
  const send = () =>
    panel.load(
      (signal) =>
        sendJson("POST", `topics/${encodePathPart(topic)}/records/suite`, { suite: input.value.trim() }, signal),
      drawTrial,
    );
  const form = h(
    "form",
    {
      class: "row",
      on: {
        submit: (event) => {
          event.preventDefault();
          send();
        },
      },
    },
    input,
    createButton("Try suite", { onPress: send, key: "try-suite" }),
  );
  const element = createSection(
    "Try a content suite",
    { id: "suite-trial", note: "On the newest records, as a run would judge them; nothing is changed", tools: form },
    panel.element,
  );
  const propose = (name) => {
    if (input.value === "") input.value = name ?? "";
  };
  panel.load(
    async () => null,
    () => createEmptyState("No suite was tried."),
  );
  return { element, propose, stop: panel.stop };
}

function drawTrial(found) {
  const records = formatCountWithNoun(found.records, "record");
  const scope = found.is_whole ? `All ${records}` : `The newest ${records}`;
  const effect = found.would_block
    ? "A run that writes these records would be refused."
    : "It would not block a run that writes these records.";
  return [
    h(
      "p",
      { role: "status" },
      `${scope} of ${formatCountWithNoun(found.partitions, "partition")} judged by `,
      h("code", {}, found.suite),
      found.is_in_force ? ", the topic's suite. " : ". ",
      h("strong", { class: found.would_block ? "late" : "" }, effect),
    ),
    createTable({
      caption: `Expectations of ${found.suite}`,
      rows: found.expectations,
      columns: [
        { key: "id", label: "Expectation", heads: true, width: "is-name", cell: (row) => h("code", {}, row.id) },
        {
          key: "outcome",
          label: "Outcome",
          cell: (row) => h("span", { class: row.is_held ? "" : "late" }, describeOutcome(row)),
        },
        { key: "sentence", label: "What it says", width: "is-wide", cell: (row) => row.sentence },
        { key: "places", label: "First offsets", width: "is-wide", cell: (row) => describePlaces(row, found.topic) },
      ],
    }),
  ];
}

function describeOutcome(row) {
  if (row.is_held) return "held";
  const effect = row.severity === "fail" ? "blocks" : "warns";
  return row.records === 0
    ? `violated by the column, ${effect}`
    : `violated by ${formatCountWithNoun(row.records, "record")}, ${effect}`;
}

function describePlaces(row, topic) {
  return row.violations
    .filter((each) => each.first_offsets.length)
    .map((each) => `${topic}-${each.partition}: ${each.first_offsets.join(", ")}`)
    .join("; ");
}
