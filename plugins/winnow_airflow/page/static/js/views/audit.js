// The audit log: who did what, when and why. A view of all topics, and a tab of one.

import { fetchJson } from "../api.js";
import { createAsyncPanel } from "../async-panel.js";
import { createAge, createAirflowLink, createEmptyState, createLink } from "../components.js";
import { buildDagRunPath } from "../dag-run-outcome.js";
import { h, insertBreakPoints } from "../dom.js";
import { EMPTY_VALUE, splitWords } from "../format.js";
import { buildHash, setQuery } from "../router.js";
import { createPager, createTable } from "../table.js";

const PAGE_SIZE = 50;
const TYPING_DELAY_MS = 300;
const ACTIONS = [
  "pause",
  "resume",
  "release",
  "create",
  "alter",
  "change_request",
  "change_reject",
  "add_partitions",
  "delete",
  "restore",
  "delete_records",
  "import_checkpoint",
  "ingest",
  "undo_ingest",
  "undo",
  "erase",
  "erase_request",
  "erase_approve",
  "erase_reject",
  "restore_records",
  "adopt",
  "recover",
  "accept_older_head",
  "take_over",
  "back_up",
  "delete_backup",
  "restore_backup",
  "compact",
  "follow",
  "unfollow",
  "new_epoch",
  "take_diverged",
  "hold_configuration",
  "sweep",
  "scrub",
  "records_read",
  "alert_acknowledge",
  "alert_mute",
  "alert_unmute",
];

/** Creates the view of all topics. */
export function createAuditView() {
  const list = createAuditList();
  const element = h("div", { class: "view" }, h("h1", { class: "small-title" }, "Audit log"), list.element);
  return { element, update: list.update, title: "Audit log", stop: list.stop };
}

/** Creates the tab of a topic. */
export function createAuditTab(topic) {
  return createAuditList(topic);
}

function createAuditList(topic = "") {
  const panel = createAsyncPanel({ lines: 10 });
  const action = h(
    "select",
    {
      "aria-label": "Action",
      "data-key": "action",
      on: { change: () => setQuery({ action: action.value || null, page: null }) },
    },
    h("option", { value: "" }, "Any action"),
    ACTIONS.map((each) => h("option", { value: each }, splitWords(each))),
  );
  const actor = createFilterField("actor", "By whom");
  const named = topic ? null : createFilterField("topic", "Topic");
  const element = h(
    "div",
    {},
    h("div", { class: "toolbar" }, named?.element ?? null, actor.element, action),
    panel.element,
  );

  function update(query) {
    action.value = query.action ?? "";
    actor.show(query.actor ?? "");
    named?.show(query.topic ?? "");
    const asked = { topic: topic || query.topic, actor: query.actor, action: query.action, page: query.page };
    panel.load(
      (signal) => fetchJson("audit", { ...asked, size: PAGE_SIZE }, signal),
      (answer) =>
        answer.total === 0
          ? createNothing(query)
          : [
              createEntryTable(answer.entries, topic),
              createPager(answer, ({ page }) => setQuery({ page: page === 1 ? null : page }), {
                noun: "action",
                sizes: false,
              }),
            ],
    );
  }

  return { element, update, stop: panel.stop };
}

/** Creates a field for an exact name; it goes into the address after a short delay. */
function createFilterField(name, label) {
  const input = h("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
  });
  let timer = 0;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(
      () => setQuery({ [name]: input.value.trim() || null, page: null }, { replace: true }),
      TYPING_DELAY_MS,
    );
  });
  return {
    element: h("div", { class: "search is-plain" }, input),
    show: (text) => {
      if (document.activeElement !== input) input.value = text;
    },
  };
}

function createNothing({ action, actor, topic }) {
  if (action || actor || topic) return createEmptyState("No entry matches. Names are compared in full.");
  return createEmptyState(
    "Nobody has changed anything yet.",
    h("p", {}, "What people do on a shell, through a DAG run or on this page is kept for history.retention_ms."),
  );
}

function createEntryTable(rows, topic) {
  return createTable({
    caption: "Audit log",
    rows,
    columns: [
      { key: "at", label: "When", cell: (row) => createAge(row.at_ms) },
      { key: "actor", label: "Who", heads: true, cell: (row) => row.actor },
      { key: "action", label: "What", cell: (row) => splitWords(row.action) },
      ...(!topic ? [{ key: "topic", label: "Topic", width: "is-name", cell: createTopicCell }] : []),
      { key: "detail", label: "In detail", width: "is-wide", cell: (row) => createDetailCell(row, topic) },
      { key: "reason", label: "Why", cell: (row) => row.reason || EMPTY_VALUE },
      { key: "origin", label: "Through", cell: createOriginCell },
    ],
  });
}

/** Creates what exactly was done; of a change of configuration with a link to the form that undoes it. */
function createDetailCell({ detail, config_changes: changes, entry_id: id, topic: named }, topic) {
  const keys = Object.keys(changes ?? {});
  if (keys.length === 0) return detail || EMPTY_VALUE;
  const undo = h(
    "a",
    {
      class: "is-in-text",
      href: buildHash(["topics", named || topic, "configuration"], { undo: id }),
      "aria-label": `Undo the change of ${keys.join(", ")}`,
    },
    "Undo",
  );
  return [detail, " ", undo];
}

function createTopicCell({ topic }) {
  return topic
    ? createLink(buildHash(["topics", topic]), insertBreakPoints(topic))
    : h("span", { class: "quiet" }, "several");
}

function createOriginCell({ origin, dag_run: run }) {
  return run ? createAirflowLink(buildDagRunPath(run.dag_id, run.run_id), run.dag_id) : origin;
}
