// Saved searches: which parts of a record are searched, under a name, in this browser only. Values are never kept.

import { createButton } from "../../components.js";
import { openDialog } from "../../dialog.js";
import { createId, h, updateChildren } from "../../dom.js";
import { openSavedList } from "../../saved-list.js";

const SEARCHES = openSavedList("winnow:saved-searches", "parts");
const MAXIMUM_NAME_CHARACTERS = 40;

/** Creates the menu of saved searches; ``getParts()`` are those of the form, ``open(parts)`` fills it. */
export function createSavedSearches(getParts, open) {
  const element = h("span", { class: "row" });
  let shown = null;

  function draw() {
    const searches = SEARCHES.read();
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
    SEARCHES.forget(shown);
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
        shown = input.value.trim();
        SEARCHES.save(shown, getParts());
        draw();
      },
    });
  }

  draw();
  return { element };
}
