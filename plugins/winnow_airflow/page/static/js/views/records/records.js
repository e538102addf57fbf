// The records tab of a topic: browse a partition, find the versions of a key, show a record in full.
// Each look starts a process on the server and is audited, so nothing is read again by the page's own refresh.

import { explainOwner, mayReadRecords } from "../../actions.js";
import { encodePathPart, sendJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createCallout, createCommand, createEmptyState, createSection } from "../../components.js";
import { focusByKey, h, updateChildren } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount } from "../../format.js";
import { setQuery } from "../../router.js";
import { createTable } from "../../table.js";
import { formatInstant } from "../../time-zone.js";
import { BYTE_FORMATS, createBytesPreview, createFormatChips } from "./record-bytes.js";
import { buildOffsetColumn } from "./record-columns.js";
import { buildDecodedColumns, DECODED_FORMAT } from "./record-decoded.js";
import { createRecordDetail } from "./record-detail.js";
import { createBrowseForm, createKeyForm, parseInstant } from "./record-forms.js";
import { createWhyContent } from "./record-why.js";

const RECORDS_PER_PAGE = 50;

/** Creates the records tab of ``topic``. */
export function createRecordsTab(topic) {
  if (!mayReadRecords()) return { element: createRefusal(), update: () => null, stop: () => null };
  const refusal = explainOwner([topic]);
  if (refusal) return { element: createCallout("paused", refusal), update: () => null, stop: () => null };
  const path = `topics/${encodePathPart(topic)}/records`;
  const list = createAsyncPanel({ lines: 10 });
  const versions = createAsyncPanel({ lines: 8 });
  const detailPlace = h("div", { hidden: true });
  const versionsPlace = h("div", { hidden: true });
  const chips = h("div", {});
  let format = "text";
  let asked = null;
  let detail = null;
  let page = null;
  let key = null;
  let opener = null;
  let browsed = {};
  let wantedKey = null;
  const isDecoded = () => format === DECODED_FORMAT[0];

  function browse(query) {
    browsed = query;
    const body = { partition: Number(query.partition ?? 0), limit: RECORDS_PER_PAGE, decoded: isDecoded() };
    if (query.offset) body.offset = query.offset;
    else if (query.before) body.before = query.before;
    else if (query.time) body.timestamp_ms = parseInstant(query.time);
    return list.load((signal) => sendJson("POST", path, body, signal), drawList);
  }

  function drawList(answer) {
    page = answer;
    drawChips();
    return createRecordList(answer, format, openRecord);
  }

  function openRecord(partition, offset) {
    const pressed = document.activeElement;
    if (!detailPlace.contains(pressed)) opener = pressed?.dataset.key ?? null;
    detail?.stop();
    detail = createRecordDetail(topic, partition, offset, () => format, { open: openRecord, close: closeRecord });
    detailPlace.hidden = false;
    updateChildren(detailPlace, detail.element);
    detailPlace.scrollIntoView({ block: "nearest" });
    detailPlace.querySelector("button")?.focus({ preventScroll: true });
  }

  function closeRecord() {
    detail?.stop();
    detail = null;
    detailPlace.hidden = true;
    updateChildren(detailPlace);
    if (!focusByKey(element, opener)) focusByKey(element, "browse");
  }

  function findKey(wanted) {
    versionsPlace.hidden = false;
    key = null;
    wantedKey = wanted;
    return versions.load(
      (signal) => sendJson("POST", `${path}/key`, { ...wanted, decoded: isDecoded() }, signal),
      (answer) => {
        key = answer;
        return createWhyContent(answer, format, openRecord);
      },
    );
  }

  function closeVersions() {
    versions.stop();
    key = null;
    versionsPlace.hidden = true;
    focusByKey(element, "key");
  }

  function chooseFormat(chosen) {
    const wasDecoded = isDecoded();
    format = chosen;
    drawChips();
    if (wasDecoded !== isDecoded()) {
      browse(browsed);
      if (key) findKey(wantedKey);
      return;
    }
    if (page) list.load(async () => page, drawList);
    if (key)
      versions.load(
        async () => key,
        (answer) => createWhyContent(answer, format, openRecord),
      );
  }

  function drawChips() {
    const formats = page?.has_formats ? [...BYTE_FORMATS, DECODED_FORMAT] : BYTE_FORMATS;
    updateChildren(chips, createFormatChips(format, chooseFormat, "format", formats));
  }
  drawChips();

  const form = createBrowseForm((wanted) => {
    asked = null;
    setQuery({ ...wanted, partition: wanted.partition === "0" ? null : wanted.partition, before: null });
    update({ ...wanted });
  });
  updateChildren(
    versionsPlace,
    createSection(
      "Versions of the key",
      {
        tools: createButton("Close", { shape: "close", kind: "ghost", key: "close-versions", onPress: closeVersions }),
      },
      versions.element,
    ),
  );
  const element = h(
    "div",
    { class: "stack" },
    h("div", { class: "toolbar" }, form.element, createKeyForm(findKey), h("div", { class: "toolbar-end" }, chips)),
    detailPlace,
    versionsPlace,
    list.element,
  );

  function update(query) {
    const wanted = JSON.stringify(["partition", "offset", "before", "time"].map((name) => query[name] ?? null));
    if (wanted === asked) return null;
    asked = wanted;
    form.show(query);
    return browse(query);
  }

  const stop = () => {
    list.stop();
    versions.stop();
    detail?.stop();
  };
  return { element, update, stop };
}

/** Creates what is shown to who may not read records. */
export function createRefusal() {
  return createCallout(
    "paused",
    "You may not read records.",
    h(
      "p",
      {},
      "Nobody may by default. Whoever runs Winnow names the users in a setting; Airflow's auth manager must allow the view “Winnow records” as well. Each look at a record is written to the audit log.",
    ),
    createCommand('[page]\nrecord_readers = ["ada", "grace"]'),
  );
}

function createRecordList(answer, format, openRecord) {
  const { records } = answer;
  const pages = h(
    "nav",
    { class: "pager", "aria-label": "Pages of records" },
    h(
      "span",
      { class: "quiet" },
      `${answer.topic}-${answer.partition}, log from ${formatCount(answer.log_start_offset)} to ${formatCount(answer.log_end_offset)}, ${answer.partitions} partitions`,
      answer.is_cut ? "; this page is shorter because its records are large" : "",
    ),
    h(
      "span",
      { class: "pager-steps" },
      createButton("Earlier", {
        shape: "left",
        kind: "ghost",
        key: "earlier",
        disabledReason: answer.has_previous ? "" : "These are the first records of the log",
        onPress: () => setQuery({ before: answer.first_offset, offset: null, time: null }),
      }),
      createButton("Later", {
        shape: "right",
        kind: "ghost",
        key: "later",
        disabledReason: answer.has_next ? "" : "These are the newest records of the log",
        onPress: () => setQuery({ offset: answer.next_offset, before: null, time: null }),
      }),
    ),
  );
  if (records.length === 0)
    return [
      createEmptyState(answer.log_end_offset === "0" ? "This partition is empty." : "There is no record here."),
      pages,
    ];
  return [
    pages,
    createTable({
      caption: `Records of ${answer.topic}-${answer.partition}`,
      rows: records,
      columns: buildRecordColumns(records, format, openRecord),
    }),
  ];
}

function buildRecordColumns(records, format, openRecord) {
  const place = [
    buildOffsetColumn("record", openRecord),
    {
      key: "timestamp",
      label: "Timestamp",
      width: "is-tight",
      cell: (row) =>
        row.timestamp_ms === null
          ? EMPTY_VALUE
          : h("span", { class: "unbroken", "data-tip": row.timestamp_type }, formatInstant(row.timestamp_ms)),
    },
  ];
  if (records[0].decoded) return [...place, ...buildDecodedColumns(records)];
  return [
    ...place,
    {
      key: "key",
      label: "Key",
      width: "is-bytes",
      cell: (row) => createBytesPreview(row.key, format, { absent: "no key" }),
    },
    {
      key: "value",
      label: "Value",
      width: "is-bytes",
      cell: (row) => createBytesPreview(row.value, format, { absent: "tombstone" }),
    },
    {
      key: "headers",
      label: "Headers",
      align: "right",
      width: "is-tight",
      cell: (row) => (row.headers_total ? formatCount(row.headers_total) : EMPTY_VALUE),
    },
    {
      key: "size",
      label: "Size",
      align: "right",
      width: "is-tight",
      hint: "Key and value together",
      cell: (row) => formatBytes((row.key?.size_bytes ?? 0) + (row.value?.size_bytes ?? 0)),
    },
  ];
}
