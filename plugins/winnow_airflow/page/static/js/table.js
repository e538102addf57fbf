// A table that the server sorts and pages. Sortable headers are buttons; a click on a row follows its link.

import { h } from "./dom.js";
import { formatCount, formatCountWithNoun } from "./format.js";
import { createIcon } from "./icons.js";

const PAGE_SIZES = [25, 50, 100, 200];

/** The column with the partition of a row. */
export const PARTITION_COLUMN = {
  key: "partition",
  label: "Partition",
  heads: true,
  align: "right",
  width: "is-tight",
  cell: (row) => row.partition,
};

/**
 * Creates a table. Columns: {key, label, align, width, hint, sortable, first, cell(row)}; ``first`` is the order after the
 * first press of the header. ``order``: {sort, order}; ``onSort(sort, order)``. ``span(row)`` is the content of a row that
 * is one cell over all columns; null for a row with the cells of its columns.
 */
export function createTable({ caption, columns, rows, order = {}, onSort, rowClass, span }) {
  const scrolled = h(
    "div",
    { class: "table-scroll", role: "group", "aria-label": caption, tabindex: "0" },
    h(
      "table",
      {},
      h("caption", { class: "unseen" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((column) => createHeader(column, order, onSort)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => createSpan(columns, span?.(row)) ?? createRow(columns, row, rowClass)),
      ),
    ),
  );
  return h("div", {}, scrolled, createScrollHint(scrolled));
}

/** Creates the line that says that a table has columns beyond its right edge. */
function createScrollHint(scrolled) {
  const hint = h(
    "p",
    { class: "more-columns", hidden: true },
    "More columns at the right: scroll the table sideways →",
  );
  const show = () => {
    hint.hidden = scrolled.scrollLeft + scrolled.clientWidth >= scrolled.scrollWidth - 1;
  };
  new ResizeObserver(show).observe(scrolled);
  scrolled.addEventListener("scroll", show, { passive: true });
  return hint;
}

function createHeader(column, order, onSort) {
  const sorted = order.sort === column.key;
  const direction = sorted ? (order.order === "desc" ? "descending" : "ascending") : null;
  const attributes = {
    scope: "col",
    class: `${column.align ?? ""} ${column.width ?? ""}`,
    "data-column": column.key,
    "aria-sort": column.sortable ? (direction ?? "none") : null,
  };
  if (column.label === "") return h("th", attributes, h("span", { class: "unseen" }, "Actions"));
  if (!column.sortable)
    return h("th", attributes, column.head ?? h("span", { "data-tip": column.hint ?? null }, column.label));
  const next = sorted ? (order.order === "desc" ? "asc" : "desc") : (column.first ?? "asc");
  return h(
    "th",
    attributes,
    h(
      "button",
      {
        type: "button",
        class: "sorter",
        "data-key": `sort-${column.key}`,
        "data-tip": column.hint ?? null,
        on: { click: () => onSort(column.key, next) },
      },
      column.label,
      createIcon(sorted ? (direction === "descending" ? "down" : "up") : "both"),
    ),
  );
}

function createSpan(columns, content) {
  return content ? h("tr", { class: "is-span" }, h("td", { colspan: columns.length }, content)) : null;
}

function createRow(columns, row, rowClass) {
  const cells = columns.map((column, index) =>
    h(
      column.heads ? "th" : "td",
      {
        class: `${column.align ?? ""} ${column.width ?? ""}`,
        scope: column.heads ? "row" : null,
        "data-column": column.key ?? index,
      },
      column.cell(row),
    ),
  );
  const made = h("tr", { class: rowClass?.(row) ?? "" }, cells);
  const opens = made.querySelector("a.row-link");
  if (!opens) return made;
  made.classList.add("opens");
  made.addEventListener("click", (event) => {
    if (event.target.closest("a, button, input, label, summary") || getSelection()?.toString()) return;
    opens.dispatchEvent(
      new MouseEvent("click", { bubbles: true, cancelable: true, ctrlKey: event.ctrlKey, metaKey: event.metaKey }),
    );
  });
  return made;
}

/** Creates the pager of a list. It calls ``go({page, size})``; without ``sizes`` the page size cannot be chosen. */
export function createPager({ total, page, size }, go, { noun = "row", sizes = true } = {}) {
  const pages = Math.max(1, Math.ceil(total / size));
  const from = total === 0 ? 0 : (page - 1) * size + 1;
  const to = Math.min(total, page * size);
  const step = (label, shape, target, usable) =>
    h(
      "button",
      {
        type: "button",
        class: "button ghost",
        "aria-label": label,
        "data-key": label,
        disabled: !usable,
        on: { click: () => go({ page: target }) },
      },
      createIcon(shape),
    );
  return h(
    "nav",
    { class: "pager", "aria-label": `Pages of ${noun}s` },
    h(
      "span",
      { class: "quiet", "data-pager": "range" },
      total > size
        ? `${formatCount(from)}–${formatCount(to)} of ${formatCountWithNoun(total, noun)}`
        : formatCountWithNoun(total, noun),
    ),
    sizes && total > PAGE_SIZES[0]
      ? h(
          "label",
          { class: "quiet" },
          "Rows ",
          h(
            "select",
            { "data-key": "size", on: { change: (event) => go({ size: Number(event.target.value), page: 1 }) } },
            PAGE_SIZES.map((each) => h("option", { value: each, selected: each === size }, each)),
          ),
        )
      : null,
    pages > 1
      ? h(
          "span",
          { class: "pager-steps" },
          step("Previous page", "left", page - 1, page > 1),
          h("span", { class: "quiet" }, `Page ${formatCount(page)} of ${formatCount(pages)}`),
          step("Next page", "right", page + 1, page < pages),
        )
      : null,
  );
}
