// The view of all topics: state, dirty ratio, deadline; filter, search, sort, compact.

import { createCompactButton, createTopicChangeButton, explainRefusal } from "../../actions.js";
import { buildApiUrl, fetchJson, getServerTimeMs } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import {
  createAge,
  createButton,
  createDeadline,
  createEmptyState,
  createLink,
  createRatioBar,
} from "../../components.js";
import { announceToScreenReader, h, insertBreakPoints, updateChildren } from "../../dom.js";
import { EMPTY_VALUE, formatBytes, formatCount, formatCountWithNoun, formatReclaimable } from "../../format.js";
import { createIcon } from "../../icons.js";
import { buildHash, setQuery } from "../../router.js";
import { createSavedViews } from "../../saved-views.js";
import { createSearchField } from "../../search.js";
import { createRunBadge, createStateBadge, STATE_MEANINGS, STATES } from "../../state-badges.js";
import { createPager, createTable } from "../../table.js";
import { openCreateDialog } from "../configuration/configuration-review.js";
import { createBulkBar } from "./bulk-bar.js";
import { openBulkReview } from "./bulk-review.js";
import { createNoMatch, createNoTopics } from "./empty-topics.js";

const DEFAULT_PAGE_SIZE = 50;
/** The parts of the address that say which topics are shown. */
const FILTERS = ["search", "state", "owner", "tag"];
const STALE_AFTER_MS = 3_600_000;
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
  /** The filter whose topics are all selected, with their number; null: those of ``selected`` are. */
  let everything = null;
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Filter by state" });
  const act = h("div", { class: "row" });
  const bulk = createBulkBar({ onClear: () => selectTopics([]), onAll: selectEverything, onAct: actOnSelected });
  const list = createAsyncPanel({ lines: 16 });
  const search = createSearchField();
  const owner = createLabelSelect("owner", "Any owner");
  const tag = createLabelSelect("tag", "Any tag");
  const views = createSavedViews([...FILTERS, "sort", "order"]);
  const labels = h("span", { class: "row" }, owner.element, tag.element, views.element);
  const audit = h("a", { class: "button ghost", href: buildHash(["audit"]), "data-key": "audit" }, "Audit log");
  const file = h("a", { class: "button ghost", "data-key": "csv", download: true }, createIcon("download"), "CSV");
  const element = h(
    "div",
    { class: "view" },
    h("h1", { class: "unseen" }, "Topics"),
    h("div", { class: "toolbar" }, search.element, chips, labels, h("div", { class: "toolbar-end" }, act)),
    bulk.element,
    list.element,
  );
  let shown = [];
  let listed = { total: 0, only: {} };

  const renderAction = () =>
    updateChildren(
      act,
      audit,
      file,
      createTopicChangeButton("Create a topic", null, { key: "create-topic", onPress: openCreateDialog }),
      everything
        ? createButton(`Compact ${formatCountWithNoun(everything.total, "topic")} now`, {
            shape: "play",
            kind: "solid",
            key: "compact",
            disabledReason: explainRefusal("compact", []),
            onPress: () => actOnSelected("compact"),
          })
        : createCompactButton(() => [...selected], {
            disabledReason: selected.size ? "" : "Select topics first, with the checkboxes at the left",
            label: selected.size ? `Compact ${formatCountWithNoun(selected.size, "topic")} now` : "Compact now",
          }),
    );

  function selectTopics(names) {
    everything = null;
    selected.clear();
    for (const name of names) selected.add(name);
    updateSelection();
  }

  function selectEverything() {
    everything = listed;
    updateSelection();
  }

  function actOnSelected(name) {
    const wanted = everything ? { only: everything.only } : { topics: [...selected] };
    openBulkReview(name, wanted, everything?.total ?? selected.size, () => selectTopics([]));
  }

  const isSelected = (name) => everything !== null || selected.has(name);

  /** Makes of "all that match" the topics that are shown, before single ones are left out. */
  function nameSelected() {
    if (everything) for (const name of shown) selected.add(name);
    everything = null;
  }

  const updateSelection = () => {
    for (const box of element.querySelectorAll("input[data-topic]")) {
      box.checked = isSelected(box.dataset.topic);
      box.closest("tr").classList.toggle("is-selected", box.checked);
    }
    const all = element.querySelector("input[data-all]");
    if (all) {
      const here = shown.filter(isSelected).length;
      all.checked = here > 0 && here === shown.length;
      all.indeterminate = here > 0 && here < shown.length;
    }
    renderAction();
    bulk.show(everything?.total ?? selected.size, listed.total, everything !== null);
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
      cell: (row) => [
        h(
          "a",
          { class: "row-link", href: buildHash(["topics", row.topic]), "data-key": `topic-${row.topic}` },
          insertBreakPoints(row.topic),
        ),
        row.tags.length ? h("small", { class: "labels quiet" }, row.tags.join(", ")) : null,
      ],
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
      cell: (row) => formatReclaimable(row),
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
    {
      key: "assessed",
      label: "As of",
      width: "is-age",
      hint: "When the figures of this row were recorded: at the last check, ingest, run or change",
      cell: createFreshnessCell,
    },
  ];

  function toggleTopic(name, isOn) {
    nameSelected();
    selected[isOn ? "add" : "delete"](name);
    updateSelection();
  }

  function togglePageTopics(isOn) {
    nameSelected();
    for (const name of shown) selected[isOn ? "add" : "delete"](name);
    updateSelection();
  }

  function update(query) {
    search.show(query.search ?? "");
    const size = Number(query.size) || DEFAULT_PAGE_SIZE;
    const filters = Object.fromEntries(FILTERS.map((each) => [each, query[each]]));
    file.href = buildApiUrl("topics.csv", filters);
    fetchJson("labels").then(
      (found) => {
        owner.show(found.owners, query.owner);
        tag.show(found.tags, query.tag);
      },
      // Without the labels the list is still there.
      () => null,
    );
    views.draw();
    const asked = {
      ...filters,
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
        const only = Object.fromEntries(Object.entries(filters).filter(([, value]) => value));
        // Of another filter, other topics match.
        if (JSON.stringify(only) !== JSON.stringify(listed.only)) everything = null;
        listed = { total: answer.total, only };
        drawChips(answer.counts, query);
        updateSelection();
        announceToScreenReader(`${formatCountWithNoun(answer.total, "topic")}.`);
      });
  }

  function draw(answer, query) {
    shown = answer.topics.map((row) => row.topic);
    if (answer.total === 0) return FILTERS.some((each) => query[each]) ? createNoMatch(query) : createNoTopics();
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

/** Creates the choice of an owner or a tag; hidden while no topic has one. */
function createLabelSelect(name, anyLabel) {
  const element = h("select", {
    "aria-label": anyLabel,
    "data-key": name,
    hidden: true,
    on: { change: () => setQuery({ [name]: element.value || null, page: null }) },
  });
  const show = (values, chosen = "") => {
    const known = chosen && !values.includes(chosen) ? [chosen, ...values] : values;
    element.hidden = known.length === 0;
    if (document.activeElement === element) return;
    updateChildren(
      element,
      h("option", { value: "" }, anyLabel),
      known.map((each) => h("option", { value: each, selected: each === chosen }, each)),
    );
  };
  return { element, show };
}

/** Creates how old the figures of a row are; figures older than an hour stand out. */
function createFreshnessCell(row) {
  const isStale = getServerTimeMs() - row.assessed_at_ms > STALE_AFTER_MS;
  return h("small", { class: isStale ? "late" : "quiet" }, createAge(row.assessed_at_ms));
}
