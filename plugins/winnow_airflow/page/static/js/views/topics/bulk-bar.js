// The bar above the list of topics that says how many are selected, and what can be done with all of them.

import { createButton } from "../../components.js";
import { h, updateChildren } from "../../dom.js";
import { formatCount, formatCountWithNoun } from "../../format.js";
import { BULK_ACTIONS, explainBulkRefusal } from "./bulk-review.js";

/** Creates the bar; ``show(count, total, isAll)`` says how many topics are selected of ``total`` that match. */
export function createBulkBar({ onClear, onAll, onAct }) {
  const element = h("div", {
    class: "edit-bar bulk-bar",
    role: "group",
    "aria-label": "Selected topics",
    hidden: true,
  });
  const buttons = () =>
    Object.entries(BULK_ACTIONS)
      .filter(([name]) => name !== "compact") // that has its button above
      .map(([name, { label }]) =>
        createButton(label, {
          key: `bulk-${name}`,
          disabledReason: explainBulkRefusal(name),
          onPress: () => onAct(name),
        }),
      );
  function show(count, total, isAll) {
    element.hidden = count === 0;
    updateChildren(
      element,
      h(
        "span",
        { class: "row" },
        isAll
          ? `All ${formatCountWithNoun(count, "topic")} that match`
          : `${formatCountWithNoun(count, "topic")} selected`,
        !isAll && total > count
          ? createButton(`Select all ${formatCount(total)} that match`, {
              kind: "ghost",
              key: "select-all",
              onPress: onAll,
            })
          : null,
        createButton("Clear selection", { kind: "ghost", key: "clear", onPress: onClear }),
      ),
      buttons(),
    );
  }
  return { element, show };
}
