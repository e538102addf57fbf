// The latest tab of a topic: rows of its typed table of the latest state, page by page, and the row of a key.
// Each look starts a process on the server and is audited, so nothing is read again by the page's own refresh.

import { explainOwner, mayReadRecords } from "../../actions.js";
import { encodePathPart, sendJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createButton, createCallout, createCommand, createEmptyState, createLink } from "../../components.js";
import { createId, h } from "../../dom.js";
import { EMPTY_VALUE, formatCount, formatCountWithNoun } from "../../format.js";
import { buildHash, setQuery } from "../../router.js";
import { createTable } from "../../table.js";
import { formatInstant } from "../../time-zone.js";
import { createRowKeyForm } from "./record-forms.js";
import { createRefusal } from "./records.js";

const ROWS_PER_PAGE = 50;
const FIELD_COLUMNS = 12;

/** Creates the latest tab of ``topic``. */
export function createLatestTab(topic) {
  if (!mayReadRecords()) return { element: createRefusal(), update: () => null, stop: () => null };
  const refusal = explainOwner([topic]);
  if (refusal) return { element: createCallout("paused", refusal), update: () => null, stop: () => null };
  const path = `topics/${encodePathPart(topic)}/latest`;
  const list = createAsyncPanel({ lines: 10 });
  let asked = null;
  const partitionForm = createPartitionForm();

  function findKey(wanted) {
    asked = null;
    return list.load(
      (signal) => sendJson("POST", `${path}/key`, wanted, signal),
      (answer) => [
        answer.problem ? null : createFoundNote(answer, () => update({})),
        createRows(answer, "The table has no row of this key."),
      ],
    );
  }

  function update(query) {
    const body = { partition: Number(query.partition ?? 0), start: Number(query.start ?? 0), limit: ROWS_PER_PAGE };
    if (JSON.stringify(body) === asked) return null;
    asked = JSON.stringify(body);
    partitionForm.show(body.partition);
    return list.load(
      (signal) => sendJson("POST", path, body, signal),
      (answer) => [answer.problem ? null : createPager(answer), createRows(answer, "This partition has no rows here.")],
    );
  }

  const element = h(
    "div",
    { class: "stack" },
    h("div", { class: "toolbar" }, partitionForm.element, createRowKeyForm(findKey)),
    list.element,
  );
  return { element, update, stop: list.stop };
}

function createPartitionForm() {
  const id = createId("partition");
  const partition = h("input", {
    id,
    type: "number",
    min: 0,
    step: 1,
    value: 0,
    required: true,
    class: "is-number",
    "data-key": "latest-partition",
  });
  const send = (event) => {
    event.preventDefault();
    setQuery({ partition: partition.value, start: null });
  };
  return {
    element: h(
      "form",
      { class: "record-form", "aria-label": "Rows of a partition", on: { submit: send } },
      h("label", { for: id }, "Partition"),
      partition,
      h("button", { type: "submit", class: "button solid", "data-key": "latest-show" }, "Show"),
    ),
    show: (number) => {
      if (document.activeElement !== partition) partition.value = number;
    },
  };
}

function describeAge(answer) {
  return `the log as of ${formatInstant(answer.reflected_ms)}`;
}

function createFoundNote(answer, leave) {
  return h(
    "nav",
    { class: "pager", "aria-label": "The row of a key" },
    h("span", { class: "quiet" }, `Row of a key, ${describeAge(answer)}`),
    h("span", { class: "pager-steps" }, createButton("All rows", { kind: "ghost", key: "all-rows", onPress: leave })),
  );
}

function createPager(answer) {
  const last = answer.start + answer.rows.length;
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages of rows" },
    h(
      "span",
      { class: "quiet" },
      answer.rows.length ? `Rows ${formatCount(answer.start + 1)} to ${formatCount(last)} of ` : "",
      `${formatCountWithNoun(answer.total, "row")} in ${answer.topic}-${answer.partition}, ${describeAge(answer)}`,
      answer.is_cut ? "; this page is shorter because its rows are large" : "",
    ),
    h(
      "span",
      { class: "pager-steps" },
      createButton("Back", {
        shape: "left",
        kind: "ghost",
        key: "latest-back",
        disabledReason: answer.start > 0 ? "" : "These are the first rows",
        onPress: () => setQuery({ start: Math.max(0, answer.start - ROWS_PER_PAGE) || null }),
      }),
      createButton("More", {
        shape: "right",
        kind: "ghost",
        key: "latest-more",
        disabledReason: last < answer.total ? "" : "These are the last rows",
        onPress: () => setQuery({ start: last }),
      }),
    ),
  );
}

function createRows(answer, empty) {
  if (answer.problem) {
    const [sentence, command] = answer.problem.split(/: (?=winnow )/);
    return createEmptyState(`${sentence}.`, command ? createCommand(command) : null);
  }
  if (answer.rows.length === 0) return createEmptyState(empty);
  return createTable({
    caption: `Latest state of ${answer.topic}`,
    rows: answer.rows,
    columns: buildColumns(answer),
  });
}

function buildColumns(answer) {
  const names = [...new Set(answer.rows.flatMap((row) => row.row.fields.map((field) => field.name)))];
  const columns = names.slice(0, FIELD_COLUMNS).map((name) => ({
    key: `field-${name}`,
    label: name,
    cell: (row) => createField(row.row.fields.find((field) => field.name === name)),
  }));
  if (names.length > FIELD_COLUMNS)
    columns.push({
      key: "more",
      label: `${names.length - FIELD_COLUMNS} more`,
      width: "is-tight",
      hint: "Press an offset to see the record in full",
      cell: (row) => row.row.fields.filter((field) => names.indexOf(field.name) >= FIELD_COLUMNS).length || "",
    });
  if (answer.rows.some((row) => row.error))
    columns.push({ key: "error", label: "Error", width: "is-wide", cell: (row) => row.error ?? "" });
  return [buildPlaceColumn(answer), ...columns, buildTimeColumn()];
}

function createField(field) {
  return field ? h("code", { class: "bytes-preview" }, field.text) : "";
}

function buildPlaceColumn(answer) {
  return {
    key: "offset",
    label: "Offset",
    heads: true,
    align: "right",
    width: "is-tight",
    hint: "Of the record that the row shows",
    cell: (row) =>
      createLink(
        buildHash(["topics", answer.topic, "records"], { partition: row.partition, offset: row.offset }),
        formatCount(row.offset),
      ),
  };
}

function buildTimeColumn() {
  return {
    key: "timestamp",
    label: "Timestamp",
    width: "is-tight",
    cell: (row) =>
      row.timestamp_ms === null ? EMPTY_VALUE : h("span", { class: "unbroken" }, formatInstant(row.timestamp_ms)),
  };
}
