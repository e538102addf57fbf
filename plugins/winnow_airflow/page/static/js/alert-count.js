// The number on the tab "Alerts": open alerts that nobody has acknowledged or muted.

import { fetchJson } from "./api.js";
import { h } from "./dom.js";
import { formatCount, formatCountWithNoun } from "./format.js";

const MAXIMUM_SHOWN = 99;

/** The element with the number; empty while there is none. */
export const alertCount = h("span", { class: "tab-count", hidden: true });

/** Shows the numbers that the server counted. */
export function showAlertCount(counts) {
  alertCount.hidden = counts.new === 0;
  alertCount.textContent = counts.new > MAXIMUM_SHOWN ? `${MAXIMUM_SHOWN}+` : formatCount(counts.new);
  alertCount.dataset.tip = `${formatCountWithNoun(counts.new, "open alert")} that nobody has acknowledged or muted`;
}

/** Counts again; if that fails, the number stays as it is, because the view says what is wrong. */
export async function refreshAlertCount() {
  const counts = await fetchJson("alerts/count").catch(() => null);
  if (counts) showAlertCount(counts);
}
