// The search of records: a form, requests one after another until all was searched, and what was found so far.

import { encodePathPart, sendJson } from "../../api.js";
import { createButton, createErrorMessage } from "../../components.js";
import { announceToScreenReader, createId, h, updateChildren } from "../../dom.js";
import { formatBytes, formatCountWithNoun } from "../../format.js";
import { createTable, PARTITION_COLUMN } from "../../table.js";
import { buildRecordColumns } from "./record-columns.js";
import { parseInstant } from "./record-forms.js";
import { createSavedSearches } from "./saved-searches.js";

const MATCHES_PER_STRETCH = 200;
const FIELDS = [
  ["key_prefix", "Key begins with"],
  ["value_text", "Value contains"],
  ["field", "JSON field", "owner.city"],
  ["field_value", "field is"],
  ["header", "Header", "name"],
  ["header_value", "header is"],
  ["from", "Since", "2026-11-21T19:45:03Z"],
  ["until", "before", "2026-11-22"],
  ["partition", "In partition", "all"],
];
const KEPT = ["field", "header", "from", "until", "partition"];
const TIMES = ["from", "until"];

/** Creates the search. ``isDecoded()`` and ``getFormat()``: how records are shown; ``openRecord(partition, offset)``. */
export function createRecordSearch(topic, { isDecoded, getFormat, openRecord }) {
  const path = `topics/${encodePathPart(topic)}/records/search`;
  const inputs = Object.fromEntries(FIELDS.map(([name, , placeholder]) => [name, createInput(name, placeholder)]));
  const encoding = h(
    "select",
    { "aria-label": "The prefix is typed as", "data-key": "prefix-encoding" },
    ["text", "base64", "hex"].map((each) =>
      h("option", { value: each }, each === "text" ? "Text" : each === "hex" ? "Hex" : "Base64"),
    ),
  );
  const order = h("input", { type: "checkbox", checked: true, "data-key": "search-newest-first" });
  const progress = h("div", { class: "search-progress" });
  const results = h("div", {});
  let running = null;
  let found = null;

  function readBody() {
    const body = { decoded: isDecoded(), encoding: encoding.value, newest_first: order.checked };
    for (const [name] of FIELDS) {
      const text = inputs[name].value;
      if (text === "" || TIMES.includes(name)) continue;
      body[name] = name === "partition" ? Number(text) : text;
    }
    for (const name of TIMES) if (inputs[name].value.trim()) body[`${name}_ms`] = parseInstant(inputs[name].value);
    return body;
  }

  function isValid() {
    for (const name of TIMES) {
      const text = inputs[name].value.trim();
      inputs[name].setCustomValidity(text && parseInstant(text) === null ? "A time like 2026-11-21T19:45:03Z." : "");
    }
    const number = inputs.partition.value.trim();
    inputs.partition.setCustomValidity(/^\d{0,9}$/.test(number) ? "" : "A partition's number, or nothing for all.");
    return [...TIMES, "partition"].every((name) => inputs[name].reportValidity());
  }

  async function searchOn() {
    const mine = new AbortController();
    running?.abort();
    running = mine;
    const end = found.records.length + MATCHES_PER_STRETCH;
    found.trouble = null;
    found.isStopped = false;
    try {
      do {
        draw();
        const body = { ...found.body, limit: Math.min(MATCHES_PER_STRETCH, end - found.records.length) };
        if (found.answer?.place) body.place = found.answer.place;
        if (found.answer?.before_offsets) body.before_offsets = found.answer.before_offsets;
        found.answer = await sendJson("POST", path, body, mine.signal);
        if (running !== mine) return;
        found.records.push(...found.answer.records);
      } while (hasMore(found.answer) && found.records.length < end);
    } catch (error) {
      if (running !== mine) return;
      if (error.name === "AbortError") found.isStopped = true;
      else found.trouble = error;
    }
    running = null;
    draw();
    announceToScreenReader(describeProgress());
  }

  function describeProgress() {
    const { answer, records } = found;
    const matches = formatCountWithNoun(records.length, "match", "matches");
    if (!answer) return "Searching…";
    return `Searched ${formatBytes(answer.searched_bytes)} of ${formatBytes(answer.total_bytes)}, ${matches}`;
  }

  function draw() {
    if (!found) return;
    const { answer, records, trouble } = found;
    const goOn = () => searchOn();
    const stop = () => {
      running?.abort();
    };
    updateChildren(
      progress,
      h("progress", {
        "aria-label": "Searched",
        max: 1,
        value: answer ? answer.searched_bytes / Math.max(1, answer.total_bytes) : 0,
      }),
      h("span", {}, describeProgress()),
      running
        ? createButton("Stop", { key: "stop-search", onPress: stop })
        : hasMore(answer) || (!answer && found.isStopped)
          ? createButton("Go on", { key: "search-on", onPress: goOn })
          : null,
      running ? null : createButton("Close", { shape: "close", kind: "ghost", key: "close-search", onPress: close }),
    );
    updateChildren(
      results,
      trouble ? createErrorMessage(trouble, goOn) : null,
      records.length
        ? createTable({
            caption: "Records found",
            rows: records,
            columns: [
              { ...PARTITION_COLUMN, heads: false },
              ...buildRecordColumns(records, getFormat(), openRecord, "match"),
            ],
          })
        : null,
    );
  }

  function close() {
    running?.abort();
    running = null;
    found = null;
    updateChildren(progress);
    updateChildren(results);
  }

  const send = (event) => {
    event.preventDefault();
    if (!isValid()) return;
    found = { body: readBody(), records: [], answer: null, trouble: null, isStopped: false };
    searchOn();
  };
  const saved = createSavedSearches(
    () => Object.fromEntries([["encoding", encoding.value], ...KEPT.map((name) => [name, inputs[name].value])]),
    (parts) => {
      for (const [name] of FIELDS) inputs[name].value = KEPT.includes(name) ? (parts[name] ?? "") : "";
      encoding.value = parts.encoding ?? "text";
      inputs[parts.field ? "field_value" : parts.header ? "header_value" : "key_prefix"].focus();
    },
  );
  const label = (name, text) => h("label", { for: inputs[name].id }, text);
  const element = h(
    "details",
    { class: "record-search" },
    h("summary", { "data-key": "search-records" }, "Search records"),
    h(
      "form",
      { class: "record-form", "aria-label": "Search records", autocomplete: "off", on: { submit: send } },
      FIELDS.map(([name, text]) =>
        h("span", { class: "row" }, label(name, text), inputs[name], name === "key_prefix" ? encoding : null),
      ),
      h("label", { class: "toggle" }, order, "newest matches first"),
      h("button", { type: "submit", class: "button solid", "data-key": "search" }, "Search"),
      saved.element,
    ),
    progress,
    results,
  );
  return { element, draw, stop: () => running?.abort() };
}

function hasMore(answer) {
  return Boolean(answer?.place || answer?.before_offsets);
}

function createInput(name, placeholder = "") {
  return h("input", {
    id: createId(`search-${name}`),
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
    maxlength: 1000,
    class: name === "partition" ? "is-number" : "",
    "data-key": `search-${name}`,
    on: { input: (event) => event.target.setCustomValidity("") },
  });
}
