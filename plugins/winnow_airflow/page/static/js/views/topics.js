// All topics: which are due and why, which are in trouble; filter, search, sort, compact.

import { compactButton } from "../actions.js";
import { get } from "../api.js";
import { announce, breakable, h, replace } from "../dom.js";
import { bytes, count, counted, NOTHING } from "../format.js";
import { icon } from "../icons.js";
import { place } from "../loading.js";
import { due, empty, link, ratioBar, since } from "../parts.js";
import { hashOf, setQuery } from "../router.js";
import { searchField } from "../search.js";
import { MEANING, runBadge, STATES, stateBadge } from "../states.js";
import { pager, table } from "../table.js";
import { noTopics, nothingFound } from "./no-topics.js";

const SIZE = 50;
const FIRST_ORDER = {
  state: "asc",
  topic: "asc",
  deadline: "asc",
  dirty_ratio: "desc",
  reclaimable: "desc",
  size: "desc",
  last_run: "desc",
};

/** The view of all topics. */
export function topics() {
  const selected = new Set();
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  const act = h("div", { class: "row" });
  const list = place({ lines: 16 });
  const search = searchField();
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen" }, "Topics"),
    h("div", { class: "toolbar" }, search.element, chips, h("div", { class: "toolbar-end" }, act)),
    list.element,
  );
  let shown = [];

  const drawAction = () =>
    replace(
      act,
      selected.size
        ? h(
            "button",
            { type: "button", class: "button ghost", "data-key": "clear", on: { click: () => choose([]) } },
            "Clear selection",
          )
        : null,
      compactButton(() => [...selected], {
        why: selected.size ? "" : "Select topics first: the boxes at the left of the rows",
        label: selected.size ? `Compact ${counted(selected.size, "topic")} now` : "Compact now",
      }),
    );

  const choose = (names) => {
    selected.clear();
    for (const name of names) selected.add(name);
    changed();
  };

  const changed = () => {
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
    drawAction();
  };

  const columns = [
    {
      key: "select",
      width: "is-tight",
      head: h("input", {
        type: "checkbox",
        "data-all": true,
        "aria-label": "Select all topics of this page",
        on: { change: (event) => pickPage(event.target.checked) },
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
            on: { change: (event) => pick(row.topic, event.target.checked) },
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
          { class: "row-link", href: hashOf(["topics", row.topic]), "data-key": `topic-${row.topic}` },
          breakable(row.topic),
        ),
    },
    {
      key: "state",
      label: "State",
      sortable: true,
      hint: "The worst first: uncleanable, overdue, due, paused, healthy",
      cell: state,
    },
    {
      key: "dirty_ratio",
      label: "Dirty ratio",
      sortable: true,
      first: "desc",
      hint: "Dirty bytes in the log; the tick is the topic's min.cleanable.dirty.ratio",
      cell: (row) =>
        row.compacts ? ratioBar(row.dirty_ratio, row.threshold) : h("span", { class: "quiet" }, "not compacted"),
    },
    {
      key: "deadline",
      label: "Deadline",
      sortable: true,
      hint: "Time to the compaction deadline: max.compaction.lag.ms after the oldest dirty record",
      cell: (row) => due(row.deadline_ms),
    },
    {
      key: "reclaimable",
      label: "Reclaimable",
      align: "right",
      sortable: true,
      first: "desc",
      hint: "Bytes that the next compaction is expected to remove; – before the first run, which nothing can be guessed from",
      cell: (row) => bytes(row.reclaimable_bytes),
    },
    { key: "size", label: "Size", align: "right", sortable: true, first: "desc", cell: (row) => bytes(row.size_bytes) },
    { key: "last_run", label: "Last run", sortable: true, first: "desc", width: "is-run", cell: lastRun },
  ];

  function pick(name, isOn) {
    selected[isOn ? "add" : "delete"](name);
    changed();
  }

  function pickPage(isOn) {
    for (const name of shown) selected[isOn ? "add" : "delete"](name);
    changed();
  }

  function update(query) {
    search.show(query.search ?? "");
    const size = Number(query.size) || SIZE;
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
        (signal) => get("topics", asked, signal),
        (answer) => draw(answer, query),
      )
      .then((answer) => {
        if (!answer) return;
        drawChips(answer.counts, query);
        changed();
        announce(`${counted(answer.total, "topic")}.`);
      });
  }

  function draw(answer, query) {
    shown = answer.topics.map((row) => row.topic);
    if (answer.total === 0) return query.search || query.state ? nothingFound(query) : noTopics();
    const order = { sort: query.sort ?? "state", order: query.order ?? FIRST_ORDER[query.sort ?? "state"] };
    return [
      table({
        caption: "Topics",
        columns,
        rows: answer.topics,
        order,
        onSort: (sort, direction) => setQuery({ sort, order: direction, page: null }),
      }),
      answer.topics.length === 0 ? empty("This page is behind the end of the list.") : null,
      pager(answer, ({ page, size }) => setQuery({ page: page === 1 ? null : page, ...(size ? { size } : {}) }), {
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
        value ? icon(value) : null,
        label,
        h("span", { class: "chip-count" }, count(number)),
      );
    replace(
      chips,
      chip("", "All", all, null),
      STATES.map((each) => chip(each, each, counts[each], MEANING[each])),
    );
  }

  drawAction();
  return { element, update, title: "Topics", focusSearch: search.focus, stop: list.stop };
}

function state(row) {
  const affected = row.partition_states[row.state] ?? 0;
  const part =
    row.state !== "healthy" && affected < row.partitions ? `${count(affected)} of ${count(row.partitions)}` : null;
  return h(
    "span",
    { class: "state-cell" },
    stateBadge(row.state),
    part ? h("small", { class: "quiet", "data-tip": `${part} partitions` }, part) : null,
  );
}

function lastRun(row) {
  const run = row.last_run;
  if (!run) return h("span", { class: "quiet" }, NOTHING);
  return h(
    "span",
    { class: "run-cell" },
    link(hashOf(["runs", run.plan_id]), runBadge(run.status)),
    h("small", { class: "quiet" }, since(run.updated_at_ms)),
  );
}
