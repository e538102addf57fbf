// Saved views: the address of a list with its filters under a name, kept in this browser. The address itself can be shared.

import { createButton } from "./components.js";
import { openDialog } from "./dialog.js";
import { createId, h, updateChildren } from "./dom.js";
import { parseRoute, setQuery } from "./router.js";
import { openSavedList } from "./saved-list.js";

const VIEWS = openSavedList("winnow:saved-views", "query");
const MAXIMUM_NAME_CHARACTERS = 40;

/** Creates the menu of saved views; ``keys`` are the parts of the query that a view consists of. */
export function createSavedViews(keys) {
  const element = h("span", { class: "row" });

  const getPresent = () => {
    const { query } = parseRoute();
    return Object.fromEntries(keys.filter((key) => query[key]).map((key) => [key, query[key]]));
  };
  const isPresent = (view) => JSON.stringify(view.query) === JSON.stringify(getPresent());

  function draw() {
    const views = VIEWS.read();
    const shown = views.find(isPresent);
    const select = h(
      "select",
      {
        "aria-label": "Saved views",
        "data-key": "saved-views",
        on: { change: (event) => openView(views.find((each) => each.name === event.target.value)) },
      },
      h("option", { value: "", selected: !shown }, "Saved views"),
      views.map((each) => h("option", { value: each.name, selected: each === shown }, each.name)),
    );
    updateChildren(
      element,
      views.length ? select : null,
      shown
        ? createButton("Forget view", { key: "forget-view", kind: "ghost", onPress: () => forgetView(shown) })
        : Object.keys(getPresent()).length
          ? createButton("Save view", { key: "save-view", kind: "ghost", onPress: openSaveDialog })
          : null,
    );
  }

  function openView(view) {
    if (!view) return;
    setQuery({ ...Object.fromEntries(keys.map((key) => [key, null])), ...view.query, page: null });
  }

  function forgetView(view) {
    VIEWS.forget(view.name);
    draw();
  }

  function openSaveDialog() {
    const id = createId("view");
    const input = h("input", { id, required: true, maxlength: MAXIMUM_NAME_CHARACTERS, autofocus: true });
    openDialog({
      title: "Save this view?",
      body: [
        h("label", { for: id }, "Name"),
        input,
        h("p", { class: "quiet" }, "Kept in this browser. To share a view, copy the address of the page."),
      ],
      confirmLabel: "Save view",
      confirm: async () => {
        VIEWS.save(input.value.trim(), getPresent());
        draw();
      },
    });
  }

  return { element, draw };
}
