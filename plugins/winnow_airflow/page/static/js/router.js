// Routes are in the hash, so that every view, filter and page has a link: #/topics?state=due&page=2

import { notifyParentOfRoute } from "./airflow-frame.js";

/** Parses the route of the current address: decoded path segments and the query. */
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

/** Builds the hash of a route: ``buildHash(["topics", name], {page: 2})``. */
export function buildHash(segments, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
  return `#/${segments.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** Changes parts of the query; null removes one. With ``replace`` the Back button gets no new step. */
export function setQuery(changes, { replace = false } = {}) {
  const { segments, query } = parseRoute();
  const hash = buildHash(segments, { ...query, ...changes });
  if (hash === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", hash);
  reloadRoute();
}

/** Loads the current route again. */
export function reloadRoute() {
  window.dispatchEvent(new Event("winnow:route"));
}

/** Calls ``show`` for the current route and for each later one. */
export function startRouter(show) {
  const route = () => {
    if (!location.hash.startsWith("#/")) history.replaceState(null, "", "#/overview");
    notifyParentOfRoute();
    show(parseRoute());
  };
  window.addEventListener("hashchange", route);
  window.addEventListener("winnow:route", route);
  route();
}
