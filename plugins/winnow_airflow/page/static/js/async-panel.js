// A panel that loads its content: first a skeleton, then the content. Only the latest request counts.

import { createErrorMessage, createSkeleton } from "./components.js";
import { h, updateChildren } from "./dom.js";
import { reloadRoute } from "./router.js";

/** Checks whether an error concerns the whole page; then it is shown once, at the top. */
function isPageWideError(error) {
  return error.login || error.unreachable;
}

function getPageErrorElement() {
  return document.getElementById("trouble");
}

/** Creates a panel and the function that fills it: ``load(fetch, draw)``, where ``fetch`` takes an AbortSignal. */
export function createAsyncPanel({ lines = 6 } = {}) {
  const element = h("div", { class: "place", "aria-busy": "true" }, createSkeleton(lines));
  const trouble = h("div", {});
  const content = h("div", { class: "content" });
  let running = null;
  let filled = false;

  function show(answer, draw) {
    getPageErrorElement().replaceChildren();
    trouble.replaceChildren();
    if (!filled) element.replaceChildren(trouble, content);
    filled = true;
    updateChildren(content, draw(answer));
  }

  function showError(error, retry) {
    if (isPageWideError(error)) getPageErrorElement().replaceChildren(createErrorMessage(error, reloadRoute));
    // The previous content stays, unless the thing does not exist any more.
    else if (filled && error.status !== 404) trouble.replaceChildren(createErrorMessage(error, retry));
    else {
      filled = false;
      element.replaceChildren(createErrorMessage(error, retry));
    }
  }

  async function load(fetch, draw) {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    element.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(mine.signal);
      if (running !== mine) return null;
      show(answer, draw);
      return answer;
    } catch (error) {
      if (error.name === "AbortError" || running !== mine) return null;
      showError(error, () => load(fetch, draw));
      // A bug of the page itself is also written to the console.
      if (error.name !== "ApiError") throw error;
      return null;
    } finally {
      if (running === mine) element.setAttribute("aria-busy", "false");
    }
  }

  function stop() {
    running?.abort();
    running = null;
  }

  return { element, load, stop };
}
