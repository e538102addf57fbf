// The view of all topics: state, dirty ratio, deadline; filter, search, sort, compact.

import { createCompactButton } from "../actions.js";
import { fetchJson } from "../api.js";
import { createAsyncPanel } from "../async-panel.js";
import { createAge, createDeadline, createEmptyState, createLink, createRatioBar } from "../components.js";
import { announceToScreenReader, h, insertBreakPoints, updateChildren } from "../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount, formatCountWithNoun } from "../format.js";
import { createIcon } from "../icons.js";
import { buildHash, setQuery } from "../router.js";
import { createSearchField } from "../search.js";
import { createRunBadge, createStateBadge, STATE_MEANINGS, STATES } from "../state-badges.js";
import { createPager, createTable } from "../table.js";
import { createNoMatch, createNoTopics } from "./empty-topics.js";

const DEFAULT_PAGE_SIZE = 50;
const DEFAULT_ORDER = {
  state: "asc",
  topic: "asc",
  deadline: "asc",
  dirty_ratio: "desc",
  reclaimable: "desc",
  size: "desc",
  last_run: "desc",
};

/** Creates the view. */
export function createTopicsView() {
  const selected = new Set();
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  const act = h("div", { class: "row" });
  const list = createAsyncPanel({ lines: 16 });
  const search = createSearchField();
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen" }, "Topics"),
    h("div", { class: "toolbar" }, search.element, chips, h("div", { class: "toolbar-end" }, act)),
    list.element,
  );
  let shown = [];

  const renderAction = () =>
    updateChildren(
      act,
      selected.size
        ? h(
            "button",
            { type: "button", class: "button ghost", "data-key": "clear", on: { click: () => selectTopics([]) } },
            "Clear selection",
          )
        : null,
      createCompactButton(() => [...selected], {
        disabledReason: selected.size ? "" : "Select topics first, with the checkboxes at the left",
        label: selected.size ? `Compact ${formatCountWithNoun(selected.size, "topic")} now` : "Compact now",
      }),
    );

  const selectTopics = (names) => {
    selected.clear();
    for (const name of names) selected.add(name);
    updateSelection();
  };

  const updateSelection = () => {
    for (const box of element.querySelectorAll("input[data-topic]")) {
      box.checked = selected.has(box.dataset.topic);
      box.closest("tr").classList.toggle("is-selected", box.checked);
    }
    const all = element.querySelector("input[data-all]");
    if (all) {
      const here = shown.filter((name) => selected.has(name)).length;
      all.checked = here > 0 && here === shown.length;
      all.indeterminate = here > 0 && here < shown.length;
    }
    renderAction();
  };

  const columns = [
    {
      key: "select",
      width: "is-tight",
      head: h("input", {
        type: "checkbox",
        "data-all": true,
        "aria-label": "Select all topics of this page",
        on: { change: (event) => togglePageTopics(event.target.checked) },
      }),
      cell: (row) =>
        h(
          "label",
          { class: "pick" },
          h("input", {
            type: "checkbox",
            "data-topic": row.topic,
            "data-key": `pick-${row.topic}`,
            "aria-label": `Select ${row.topic}`,
            on: { change: (event) => toggleTopic(row.topic, event.target.checked) },
          }),
        ),
    },
    {
      key: "topic",
      label: "Topic",
      sortable: true,
      heads: true,
      width: "is-name",
      cell: (row) =>
        h(
          "a",
          { class: "row-link", href: buildHash(["topics", row.topic]), "data-key": `topic-${row.topic}` },
          insertBreakPoints(row.topic),
        ),
    },
    {
      key: "state",
      label: "State",
      sortable: true,
      hint: "Sorted by severity: uncleanable, overdue, due, paused, healthy",
      cell: createStateCell,
    },
    {
      key: "dirty_ratio",
      label: "Dirty ratio",
      sortable: true,
      first: "desc",
      hint: "Dirty bytes as a share of the log; the tick is the topic's min.cleanable.dirty.ratio",
      cell: (row) =>
        row.compacts ? createRatioBar(row.dirty_ratio, row.threshold) : h("span", { class: "quiet" }, "not compacted"),
    },
    {
      key: "deadline",
      label: "Deadline",
      sortable: true,
      hint: "Time to the compaction deadline, max.compaction.lag.ms after the oldest dirty record",
      cell: (row) => createDeadline(row.deadline_ms),
    },
    {
      key: "reclaimable",
      label: "Reclaimable",
      align: "right",
      sortable: true,
      first: "desc",
      hint: "Estimate of the bytes that the next compaction removes, from earlier runs; – before the first run",
      cell: (row) => formatBytes(row.reclaimable_bytes),
    },
    {
      key: "size",
      label: "Size",
      align: "right",
      sortable: true,
      first: "desc",
      cell: (row) => formatBytes(row.size_bytes),
    },
    { key: "last_run", label: "Last run", sortable: true, first: "desc", width: "is-run", cell: createLastRunCell },
  ];

  function toggleTopic(name, isOn) {
    selected[isOn ? "add" : "delete"](name);
    updateSelection();
  }

  function togglePageTopics(isOn) {
    for (const name of shown) selected[isOn ? "add" : "delete"](name);
    updateSelection();
  }

  function update(query) {
    search.show(query.search ?? "");
    const size = Number(query.size) || DEFAULT_PAGE_SIZE;
    const asked = {
      search: query.search,
      state: query.state,
      sort: query.sort,
      order: query.order,
      page: query.page,
      size,
    };
    list
      .load(
        (signal) => fetchJson("topics", asked, signal),
        (answer) => draw(answer, query),
      )
      .then((answer) => {
        if (!answer) return;
        drawChips(answer.counts, query);
        updateSelection();
        announceToScreenReader(`${formatCountWithNoun(answer.total, "topic")}.`);
      });
  }

  function draw(answer, query) {
    shown = answer.topics.map((row) => row.topic);
    if (answer.total === 0) return query.search || query.state ? createNoMatch(query) : createNoTopics();
    const order = { sort: query.sort ?? "state", order: query.order ?? DEFAULT_ORDER[query.sort ?? "state"] };
    return [
      createTable({
        caption: "Topics",
        columns,
        rows: answer.topics,
        order,
        onSort: (sort, direction) => setQuery({ sort, order: direction, page: null }),
      }),
      answer.topics.length === 0 ? createEmptyState("This page is past the end of the list.") : null,
      createPager(answer, ({ page, size }) => setQuery({ page: page === 1 ? null : page, ...(size ? { size } : {}) }), {
        noun: "topic",
      }),
    ];
  }

  function drawChips(counts, query) {
    const all = STATES.reduce((sum, each) => sum + counts[each], 0);
    const chip = (value, label, number, meaning) =>
      h(
        "button",
        {
          type: "button",
          class: `chip${value ? ` is-${value}` : ""}`,
          "aria-pressed": String((query.state ?? "") === value),
          "data-key": `chip-${value}`,
          "data-tip": meaning,
          on: { click: () => setQuery({ state: value === query.state ? null : value, page: null }) },
        },
        value ? createIcon(value) : null,
        label,
        h("span", { class: "chip-count" }, formatCount(number)),
      );
    updateChildren(
      chips,
      chip("", "All", all, null),
      STATES.map((each) => chip(each, each, counts[each], STATE_MEANINGS[each])),
    );
  }

  renderAction();
  return { element, update, title: "Topics", focusSearch: search.focus, stop: list.stop };
}

function createStateCell(row) {
  const affected = row.partition_states[row.state] ?? 0;
  const part =
    row.state !== "healthy" && affected < row.partitions
      ? `${formatCount(affected)} of ${formatCount(row.partitions)}`
      : null;
  return h(
    "span",
    { class: "state-cell" },
    createStateBadge(row.state),
    part ? h("small", { class: "quiet", "data-tip": `${part} partitions` }, part) : null,
  );
}

function createLastRunCell(row) {
  const run = row.last_run;
  if (!run) return h("span", { class: "quiet" }, EMPTY_VALUE);
  return h(
    "span",
    { class: "run-cell" },
    createLink(buildHash(["runs", run.plan_id]), createRunBadge(run.status)),
    h("small", { class: "quiet" }, createAge(run.updated_at_ms)),
  );
}
