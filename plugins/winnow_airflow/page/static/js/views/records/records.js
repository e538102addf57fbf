// The records tab of a topic: browse a partition, find the versions of a key, show a record in full.
// Each look starts a process on the server and is audited, so nothing is read again by the page's own refresh.

import { explainOwner, mayReadRecords } from "../../actions.js";
import { encodePathPart, sendJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createCallout, createCommand, createEmptyState, createSection } from "../../components.js";
import { focusByKey, h, updateChildren } from "../../dom.js";
import { formatCount, formatCountWithNoun } from "../../format.js";
import { setQuery } from "../../router.js";
import { createTable, PARTITION_COLUMN } from "../../table.js";
import { BYTE_FORMATS, createFormatChips } from "./record-bytes.js";
import { buildRecordColumns } from "./record-columns.js";
import { DECODED_FORMAT } from "./record-decoded.js";
import { createRecordDetail } from "./record-detail.js";
import { ALL_PARTITIONS, createBrowseForm, createKeyForm, parseInstant } from "./record-forms.js";
import { createGapContent, mergeGaps, mergeGapsOfPartitions } from "./record-gaps.js";
import { createRecordSearch } from "./record-search.js";
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
  let isNewestFirst = false;
  const newestPages = [];
  const isDecoded = () => format === DECODED_FORMAT[0];

  function browse(query) {
    browsed = query;
    if (query.partition === ALL_PARTITIONS) return browseNewest();
    const body = { partition: Number(query.partition ?? 0), limit: RECORDS_PER_PAGE, decoded: isDecoded() };
    if (query.offset) body.offset = query.offset;
    else if (query.before) body.before = query.before;
    else if (query.time) body.timestamp_ms = parseInstant(query.time);
    return list.load((signal) => sendJson("POST", path, body, signal), drawList);
  }

  /** Shows the newest records of all partitions. Where a page ends is kept here: an address has room for one offset. */
  function browseNewest() {
    const body = { limit: RECORDS_PER_PAGE, decoded: isDecoded(), before_offsets: newestPages.at(-1) ?? {} };
    return list.load((signal) => sendJson("POST", path, body, signal), drawList);
  }

  function goEarlier() {
    if (page.partition !== null) return setQuery({ before: page.first_offset, offset: null, time: null });
    newestPages.push(page.before_offsets);
    return browseNewest();
  }

  function goLater() {
    if (page.partition !== null) return setQuery({ offset: page.next_offset, before: null, time: null });
    newestPages.pop();
    return browseNewest();
  }

  function drawList(answer) {
    page = answer;
    drawChips();
    const hasLater = answer.partition === null ? newestPages.length > 0 : answer.has_next;
    return createRecordList(answer, { format, isNewestFirst, hasLater, openRecord, goEarlier, goLater });
  }

  function openRecord(partition, offset, { asksWhy = false } = {}) {
    const pressed = document.activeElement;
    if (!detailPlace.contains(pressed)) opener = pressed?.dataset.key ?? null;
    detail?.stop();
    detail = createRecordDetail(topic, partition, offset, () => format, {
      open: openRecord,
      close: closeRecord,
      asksWhy,
    });
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
    search.draw();
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
    update({ ...wanted, order: isNewestFirst ? "newest" : null });
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
  const search = createRecordSearch(topic, { isDecoded, getFormat: () => format, openRecord });
  const element = h(
    "div",
    { class: "stack" },
    h("div", { class: "toolbar" }, form.element, createKeyForm(findKey), h("div", { class: "toolbar-end" }, chips)),
    search.element,
    detailPlace,
    versionsPlace,
    list.element,
  );

  function update(query) {
    const wanted = JSON.stringify(["partition", "offset", "before", "time"].map((name) => query[name] ?? null));
    const hadNewestFirst = isNewestFirst;
    isNewestFirst = query.order === "newest";
    if (wanted === asked) {
      if (page && hadNewestFirst !== isNewestFirst) list.load(async () => page, drawList);
      return null;
    }
    asked = wanted;
    newestPages.length = 0;
    form.show(query);
    return browse(query);
  }

  const stop = () => {
    list.stop();
    versions.stop();
    search.stop();
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

function createRecordList(answer, { format, isNewestFirst, hasLater, openRecord, goEarlier, goLater }) {
  const { records } = answer;
  const merge = answer.partition === null ? mergeGapsOfPartitions : mergeGaps;
  const rows = merge(records, answer.gaps);
  const askWhy = (partition, offset) => openRecord(partition, offset, { asksWhy: true });
  const order = h("input", {
    type: "checkbox",
    checked: isNewestFirst,
    "data-key": "newest-first",
    on: { change: (event) => setQuery({ order: event.target.checked ? "newest" : null }) },
  });
  const pages = h(
    "nav",
    { class: "pager", "aria-label": "Pages of records" },
    h(
      "span",
      { class: "quiet" },
      describeExtent(answer),
      answer.is_cut ? "; this page is shorter because its records are large" : "",
    ),
    h(
      "span",
      { class: "pager-steps" },
      h("label", { class: "toggle" }, order, "newest first"),
      createButton("Earlier", {
        shape: "left",
        kind: "ghost",
        key: "earlier",
        disabledReason: answer.has_previous ? "" : "These are the first records of the log",
        onPress: goEarlier,
      }),
      createButton("Later", {
        shape: "right",
        kind: "ghost",
        key: "later",
        disabledReason: hasLater ? "" : "These are the newest records of the log",
        onPress: goLater,
      }),
    ),
  );
  if (rows.length === 0)
    return [
      createEmptyState(answer.log_end_offset === "0" ? "This partition is empty." : "There is no record here."),
      pages,
    ];
  return [
    pages,
    createTable({
      caption:
        answer.partition === null ? `Records of ${answer.topic}` : `Records of ${answer.topic}-${answer.partition}`,
      rows: isNewestFirst ? rows.reverse() : rows,
      columns: [
        ...(answer.partition === null ? [{ ...PARTITION_COLUMN, heads: false }] : []),
        ...buildRecordColumns(records, format, openRecord),
      ],
      span: (row) => createGapContent(row, answer.partition, askWhy),
    }),
  ];
}

function describeExtent(answer) {
  if (answer.partition === null)
    return `${answer.topic}, newest records of ${formatCountWithNoun(answer.partitions, "partition")}, by timestamp`;
  const extent = `log from ${formatCount(answer.log_start_offset)} to ${formatCount(answer.log_end_offset)}`;
  return `${answer.topic}-${answer.partition}, ${extent}, ${formatCountWithNoun(answer.partitions, "partition")}`;
}
