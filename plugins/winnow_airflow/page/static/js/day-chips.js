// The choice of how many days a chart shows, kept in the address.

import { h, updateChildren } from "./dom.js";
import { setQuery } from "./router.js";

const DEFAULT_DAYS = 30;

/** Creates the choice among ``days``; ``show(query)`` draws it and returns the number that the address asks for. */
export function createDayChips(days, key) {
  const element = h("div", { class: "chips", role: "group", "aria-label": "Days shown" });

  function show(query) {
    const shown = days.includes(Number(query.days)) ? Number(query.days) : DEFAULT_DAYS;
    updateChildren(
      element,
      days.map((each) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "aria-pressed": String(each === shown),
            "data-key": `${key}-${each}`,
            on: { click: () => setQuery({ days: each === DEFAULT_DAYS ? null : each }) },
          },
          `${each} days`,
        ),
      ),
    );
    return shown;
  }

  return { element, show };
}
