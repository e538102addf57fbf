// The search field of a list. The key "/" focuses it.

import { h } from "./dom.js";
import { createIcon } from "./icons.js";
import { setQuery } from "./router.js";

const TYPING_DELAY_MS = 200;

/** Creates the search field; the text goes into the address after a short delay. */
export function createSearchField(label = "Search topics") {
  const input = h("input", {
    type: "search",
    placeholder: label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
    "data-search": true,
    "aria-keyshortcuts": "/",
  });
  let timer = 0;
  const send = () => setQuery({ search: input.value.trim() || null, page: null }, { replace: true });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(send, TYPING_DELAY_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    clearTimeout(timer);
    send();
  });
  return {
    element: h("div", { class: "search" }, createIcon("search"), input, h("kbd", { "aria-hidden": "true" }, "/")),
    focus: () => input.focus(),
    show: (text) => {
      if (document.activeElement !== input) input.value = text;
    },
  };
}
