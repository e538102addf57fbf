// The view "Alerts": open alerts with what to do about each, who deals with them, and the history of all.

import { showAlertCount } from "../../alert-count.js";
import { fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createAge, createEmptyState, createInstant, createLink, createSection } from "../../components.js";
import { h, insertBreakPoints, updateChildren } from "../../dom.js";
import { capitalize, formatCount, splitWords } from "../../format.js";
import { createIcon } from "../../icons.js";
import { buildHash, reloadRoute, setQuery } from "../../router.js";
import { createPager, createTable } from "../../table.js";
import { createAcknowledgeButton, createMuteButton } from "./alert-actions.js";
import { createRunbookButton } from "./runbook.js";

const PAGE_SIZE = 25;
const STATES = [
  ["", "All", "open"],
  ["new", "New", "new"],
  ["acknowledged", "Acknowledged", null],
  ["muted", "Muted", "muted"],
];

/** Creates the badge with an alert's kind; its icon and colour say how severe it is. */
export function createKindBadge({ kind, severity }) {
  const shape = severity === "warning" ? "overdue" : "uncleanable";
  return h("span", { class: `badge is-${shape}` }, createIcon(shape), h("span", {}, splitWords(kind)));
}

/** Creates the link to the topic of an alert. */
export function createAlertTopicLink({ topic, partition }) {
  if (!topic) return h("span", { class: "quiet" }, "all topics");
  const name = partition === null ? topic : `${topic}-${partition}`;
  return createLink(buildHash(["topics", topic]), insertBreakPoints(name));
}

/** Creates the view. */
export function createAlertsView() {
  const open = createAsyncPanel({ lines: 8 });
  const past = createAsyncPanel({ lines: 6 });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  const tools = h("div", { class: "row" });
  const filter = h("div", {});
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen" }, "Alerts"),
    h(
      "div",
      { class: "stack" },
      createSection(
        "Open alerts",
        { id: "open", tools: h("div", { class: "row" }, chips, tools) },
        filter,
        open.element,
      ),
      createSection("History", { id: "history", note: "Kept for history.retention_ms" }, past.element),
    ),
  );

  function update(query) {
    const asked = { topic: query.topic, state: query.state };
    drawFilter(filter, query);
    open.load(
      (signal) => fetchJson("alerts", { ...asked, page: query.page, size: PAGE_SIZE }, signal),
      (answer) => {
        showAlertCount(answer.counts);
        // They count the alerts of all topics.
        drawChips(chips, query.topic ? null : answer.counts, query.state ?? "");
        const fresh = answer.alerts.filter((each) => each.acknowledged_at_ms === null);
        updateChildren(
          tools,
          fresh.length > 1
            ? createAcknowledgeButton(fresh, reloadRoute, { label: "Acknowledge all shown", kind: "", key: "all" })
            : null,
        );
        if (answer.total === 0)
          return createEmptyState(query.state || query.topic ? "No open alert matches." : "No alert is open.");
        return [createAlertTable(answer.alerts), createPages(answer, "page", "alert")];
      },
    );
    past.load(
      (signal) => fetchJson("alerts/history", { topic: query.topic, page: query.past, size: PAGE_SIZE }, signal),
      (answer) =>
        answer.total === 0
          ? createEmptyState("No history yet.")
          : [createEventTable(answer.events), createPages(answer, "past", "event")],
    );
  }

  const stop = () => {
    for (const each of [open, past]) each.stop();
  };
  return { element, update, title: "Alerts", stop };
}

function createPages(answer, key, noun) {
  return createPager(answer, ({ page }) => setQuery({ [key]: page === 1 ? null : page }), { noun, sizes: false });
}

function drawChips(place, counts, chosen) {
  updateChildren(
    place,
    STATES.map(([state, label, count]) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(state === chosen),
          "data-key": `state-${state}`,
          on: { click: () => setQuery({ state: state || null, page: null }) },
        },
        label,
        count && counts ? h("span", { class: "chip-count" }, formatCount(counts[count])) : null,
      ),
    ),
  );
}

function drawFilter(place, { topic }) {
  updateChildren(
    place,
    topic
      ? h(
          "p",
          { class: "row" },
          h("span", { class: "quiet" }, "Of the topic ", createLink(buildHash(["topics", topic]), topic)),
          h(
            "button",
            {
              type: "button",
              class: "button ghost small",
              "data-key": "all-topics",
              on: { click: () => setQuery({ topic: null, page: null, past: null }) },
            },
            "Show all topics",
          ),
        )
      : null,
  );
}

function createAlertTable(rows) {
  return createTable({
    caption: "Open alerts",
    rows,
    columns: [
      { key: "kind", label: "Alert", heads: true, cell: createKindBadge },
      { key: "topic", label: "Topic partition", width: "is-name", cell: createAlertTopicLink },
      { key: "since", label: "Since", cell: (row) => createAge(row.since_ms) },
      { key: "message", label: "What happened, what to do", width: "is-wide", cell: createMessage },
      {
        key: "handled",
        label: "Handled by",
        width: "is-handled",
        cell: (row) => [createHandling(row), createActions(row)],
      },
    ],
  });
}

function createMessage(row) {
  return h(
    "div",
    {},
    row.message || h("span", { class: "quiet" }, "no message"),
    row.safe || row.next
      ? h(
          "details",
          {},
          h("summary", { "data-key": `more-${row.key}` }, "What to do"),
          row.safe ? h("p", { class: "alert-next" }, row.safe) : null,
          row.next ? h("p", { class: "alert-next" }, row.next) : null,
        )
      : null,
    row.plan_id ? h("p", { class: "alert-run" }, createLink(buildHash(["runs", row.plan_id]), "See the run")) : null,
  );
}

function createHandling(row) {
  const said = [
    row.acknowledged_at_ms === null
      ? null
      : h("p", {}, `${row.acknowledged_by}: ${row.acknowledged_why} `, createQuietAge(row.acknowledged_at_ms)),
    row.muted_until_ms === null
      ? null
      : h(
          "p",
          {},
          h("span", { class: "badge is-paused" }, createIcon("paused"), h("span", {}, "muted")),
          " ends ",
          createInstant(row.muted_until_ms),
          ` – ${row.muted_by}: ${row.muted_why}`,
        ),
    row.released ? h("p", { class: "quiet" }, capitalize(row.released)) : null,
  ].filter(Boolean);
  return said.length ? h("div", { class: "alert-handling" }, said) : h("span", { class: "quiet" }, "nobody yet");
}

function createQuietAge(ms) {
  return h("span", { class: "quiet" }, "(", createAge(ms), ")");
}

function createActions(row) {
  return h(
    "div",
    { class: "alert-actions" },
    row.acknowledged_at_ms === null ? createAcknowledgeButton([row], reloadRoute) : null,
    createMuteButton(row, reloadRoute),
    createRunbookButton(row),
  );
}

function createEventTable(rows) {
  return createTable({
    caption: "History of alerts",
    rows,
    columns: [
      { key: "at", label: "When", cell: (row) => createAge(row.at_ms) },
      { key: "event", label: "What", heads: true, cell: (row) => splitWords(row.event) },
      { key: "kind", label: "Alert", cell: (row) => splitWords(row.kind) },
      { key: "topic", label: "Topic partition", width: "is-name", cell: createAlertTopicLink },
      { key: "actor", label: "By", cell: (row) => row.actor || h("span", { class: "quiet" }, "Winnow") },
      { key: "text", label: "Why", width: "is-wide", cell: (row) => row.text },
    ],
  });
}
