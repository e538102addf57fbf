// One record in full: key, value, headers, and on request why it is here.

import { encodePathPart, sendJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createEmptyState, createSection } from "../../components.js";
import { h } from "../../dom.js";
import { formatCount, formatCountWithNoun } from "../../format.js";
import { createTable } from "../../table.js";
import { formatInstant } from "../../time-zone.js";
import { createBytesPreview, createBytesView } from "./record-bytes.js";
import { chooseShown, DECODED_FORMAT } from "./record-decoded.js";
import { createWhyContent } from "./record-why.js";

/**
 * Creates the panel of one record; ``format()`` is the chosen format, ``open(partition, offset)`` shows another record.
 * ``asksWhy``: there is none, and why is asked for at once.
 */
export function createRecordDetail(topic, partition, offset, format, { open, close, asksWhy = false }) {
  const path = `topics/${encodePathPart(topic)}/records`;
  const body = { partition, offset, decoded: format() === DECODED_FORMAT[0] };
  const record = createAsyncPanel({ lines: 6 });
  const why = createAsyncPanel({ lines: 6 });
  why.element.hidden = true;
  const askWhy = () => {
    why.element.hidden = false;
    return why.load(
      (signal) => sendJson("POST", `${path}/why`, body, signal),
      (answer) => createWhyContent(answer, format(), open),
    );
  };
  const element = createSection(
    `${topic}-${partition}, offset ${formatCount(offset)}`,
    {
      tools: h(
        "div",
        { class: "row" },
        createButton("Why is it here?", { key: "why", onPress: askWhy }),
        createButton("Close", { shape: "close", kind: "ghost", key: "close-record", onPress: close }),
      ),
    },
    record.element,
    why.element,
  );
  record.load(
    // Where a list has a gap there is no record to ask for.
    async (signal) => (asksWhy ? { record: null } : sendJson("POST", `${path}/record`, body, signal)),
    (answer) =>
      answer.record
        ? drawRecord(answer.record, format())
        : createEmptyState(
            "There is no record at this offset.",
            asksWhy ? null : h("p", {}, "“Why is it here?” says whether a run removed it, or it was never written."),
          ),
  );
  if (asksWhy) askWhy();
  const stop = () => {
    record.stop();
    why.stop();
  };
  return { element, stop };
}

function drawRecord(row, format) {
  const key = chooseShown(row, "key", format, "none");
  const value = chooseShown(row, "value", format, "null: a tombstone");
  return [
    h(
      "p",
      { class: "quiet facts" },
      h("span", {}, row.timestamp_ms === null ? "no timestamp" : formatInstant(row.timestamp_ms)),
      row.timestamp_type ? h("span", {}, row.timestamp_type) : null,
      h("span", {}, formatCountWithNoun(row.headers_total, "header")),
      row.epoch ? h("span", {}, `epoch ${row.epoch}, offset ${formatCount(row.source_offset)} at the brokers`) : null,
    ),
    row.decoded?.error ? h("p", { class: "message" }, row.decoded.error) : null,
    createBytesView("Key", key.shown, key.format, { absent: key.absent }),
    createBytesView("Value", value.shown, value.format, { absent: value.absent }),
    row.headers.length
      ? createTable({
          caption: "Headers",
          rows: row.headers,
          columns: [
            { key: "name", label: "Header", heads: true, cell: (each) => h("code", {}, each.key) },
            { key: "value", label: "Value", width: "is-wide", cell: (each) => createBytesPreview(each.value, format) },
          ],
        })
      : null,
    row.headers_total > row.headers.length
      ? h("p", { class: "quiet" }, `${formatCount(row.headers_total - row.headers.length)} more headers are not shown.`)
      : null,
  ];
}
