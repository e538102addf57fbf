// Routes live in the hash, so that every view, filter and page can be linked: #/topics?state=due&page=2

import { notifyParentOfRoute } from "./airflow-frame.js";

/** The route in the address: path segments, decoded, and the query. */
export function parseRoute() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return {
    segments: path.split("/").filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

function decode(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The hash of a route: ``hashOf(["topics", name], {page: 2})``. */
export function buildHash(segments, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `#/${segments.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Change parts of the query; null takes one away. ``replace``: no new step for the Back button. */
export function setQuery(changes, { replace = false } = {}) {
  const { segments, query } = parseRoute();
  const hash = buildHash(segments, { ...query, ...changes });
  if (hash === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", hash);
  reloadRoute();
}

/** Ask for everything of the route in force again. */
export function reloadRoute() {
  window.dispatchEvent(new Event("winnow:route"));
}

/** Call ``show`` for the route in force now and each that comes. */
export function startRouter(show) {
  const route = () => {
    if (!location.hash.startsWith("#/")) history.replaceState(null, "", "#/topics");
    notifyParentOfRoute();
    show(parseRoute());
  };
  window.addEventListener("hashchange", route);
  window.addEventListener("winnow:route", route);
  route();
}
