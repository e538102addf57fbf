// A place that fills with an answer: a skeleton first, then what was drawn of it; the latest question wins.

import { h, replace } from "./dom.js";
import { problem, skeleton } from "./parts.js";

/** A place on the page and the way to fill it: ``load(fetch, draw)``, where ``fetch`` takes an AbortSignal. */
export function place({ lines = 6, tag = "div", kind = "" } = {}) {
  const element = h(tag, { class: `place ${kind}`, "aria-busy": "true" }, skeleton(lines));
  const trouble = h("div", {});
  const content = h("div", { class: "content" });
  let running = null;
  let filled = false;

  async function load(fetch, draw) {
    running?.abort();
    const mine = new AbortController();
    running = mine;
    element.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(mine.signal);
      if (running !== mine) return null;
      if (!filled) element.replaceChildren(trouble, content);
      filled = true;
      trouble.replaceChildren();
      replace(content, draw(answer));
      return answer;
    } catch (error) {
      if (error.name === "AbortError" || running !== mine) return null;
      const shown = problem(error, () => load(fetch, draw));
      // What was shown before stays, except when it is not there any more.
      if (filled && error.status !== 404) trouble.replaceChildren(shown);
      else element.replaceChildren(shown);
      if (!filled || error.status === 404) filled = false;
      if (!(error.status || error.next)) throw error;
      return null;
    } finally {
      if (running === mine) element.setAttribute("aria-busy", "false");
    }
  }

  return { element, load, stop: () => running?.abort() };
}
