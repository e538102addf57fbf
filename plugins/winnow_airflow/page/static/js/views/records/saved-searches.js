// Saved searches: which parts of a record are searched, under a name, in this browser only. Values are never kept.

import { createButton } from "../../components.js";
import { openDialog } from "../../dialog.js";
import { createId, h, updateChildren } from "../../dom.js";

const KEY = "winnow:saved-searches";
const MAXIMUM_SEARCHES = 30;
const MAXIMUM_NAME_CHARACTERS = 40;

function readSearches() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each?.name === "string" && each.parts) : [];
  } catch {
    return [];
  }
}

function writeSearches(searches) {
  try {
    localStorage.setItem(KEY, JSON.stringify(searches.slice(0, MAXIMUM_SEARCHES)));
  } catch {
    // Without storage there are no saved searches.
  }
}

/** Creates the menu of saved searches; ``getParts()`` are those of the form, ``open(parts)`` fills it. */
export function createSavedSearches(getParts, open) {
  const element = h("span", { class: "row" });
  let shown = null;

  function draw() {
    const searches = readSearches();
    const select = h(
      "select",
      {
        "aria-label": "Saved searches",
        "data-key": "saved-searches",
        on: { change: (event) => openSearch(searches.find((each) => each.name === event.target.value)) },
      },
      h("option", { value: "" }, "Saved searches"),
      searches.map((each) => h("option", { value: each.name, selected: each.name === shown }, each.name)),
    );
    updateChildren(
      element,
      searches.length ? select : null,
      createButton("Save", { key: "save-search", kind: "ghost", name: "Save this search", onPress: openSaveDialog }),
      shown
        ? createButton("Forget", { key: "forget-search", kind: "ghost", name: "Forget this search", onPress: forget })
        : null,
    );
  }

  function openSearch(search) {
    shown = search?.name ?? null;
    draw();
    if (search) open(search.parts);
  }

  function forget() {
    writeSearches(readSearches().filter((each) => each.name !== shown));
    shown = null;
    draw();
  }

  function openSaveDialog() {
    const id = createId("search");
    const input = h("input", { id, required: true, maxlength: MAXIMUM_NAME_CHARACTERS, autofocus: true });
    openDialog({
      title: "Save this search?",
      body: [
        h("label", { for: id }, "Name"),
        input,
        h(
          "p",
          { class: "quiet" },
          "Kept in this browser, without what is looked for: the names of field and header, times, partition.",
        ),
      ],
      confirmLabel: "Save search",
      confirm: async () => {
        const name = input.value.trim();
        writeSearches([{ name, parts: getParts() }, ...readSearches().filter((each) => each.name !== name)]);
        shown = name;
        draw();
      },
    });
  }

  draw();
  return { element };
}
