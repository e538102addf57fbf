// Requests to the page's own API and to Airflow's. Every failure becomes an ApiError that says what to do next.

import { buildAirflowUrl } from "./airflow-frame.js";

const root = new URL("api/", new URL(".", document.baseURI));

/** A failed request: ``message`` says what happened, ``next`` what to do about it. */
export class ApiError extends Error {
  constructor(message, { status = 0, next = "", login = false, unreachable = false } = {}) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.next = next;
    this.login = login;
    this.unreachable = unreachable;
  }
}

let clockOffsetMs = 0;

/** Returns the server's time, estimated from the last answer. All times on the page come from the server. */
export function getServerTimeMs() {
  return Date.now() + clockOffsetMs;
}

function createApiError(status, detail) {
  if (status === 401)
    return new ApiError("You are logged out of Airflow.", {
      status,
      login: true,
      next: "Log in again; you return to this page.",
    });
  if (status === 403)
    return new ApiError(detail || "Your role in Airflow may not do this.", {
      status,
      next: "Ask an Airflow administrator for this permission.",
    });
  if (status === 404) return new ApiError(detail || "Not found.", { status });
  if (status === 409) return new ApiError(detail || "The DAG run already exists.", { status });
  if (status < 500) return new ApiError(detail || `The server refused the request (${status}).`, { status });
  // A sentence of Winnow's says what to do; Airflow's own failures have no sentence.
  if (detail && detail !== "Internal Server Error") return new ApiError(detail, { status });
  return new ApiError(detail || `The server failed to answer (${status}).`, {
    status,
    next: "The api-server's log has the cause. Check the metadata store with: winnow doctor",
  });
}

function parseDetail(body) {
  const detail = body?.detail;
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail)) return detail.map((each) => each.msg).join("; ");
  return "";
}

async function sendRequest(url, options) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("Airflow's api-server did not answer.", {
      unreachable: true,
      next: "Check that it runs and that this machine can reach it. The page shows the last data and retries every 30 seconds.",
    });
  }
  const body = await answer.json().catch(() => {
    options.signal?.throwIfAborted(); // nobody waits for the rest of it
    return null;
  });
  if (!answer.ok) throw createApiError(answer.status, parseDetail(body));
  if (body && Number.isFinite(body.now_ms)) clockOffsetMs = body.now_ms - Date.now();
  return body;
}

/** Encodes a name, for example of a topic, as one part of a path. */
export const encodePathPart = encodeURIComponent;

/** Builds the address of a route of the page's own API; empty parameters are left out. */
export function buildApiUrl(path, parameters = {}) {
  const url = new URL(path, root);
  for (const [name, value] of Object.entries(parameters))
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  return url;
}

/** Gets JSON from the page's own API. */
export function fetchJson(path, parameters = {}, signal) {
  return sendRequest(buildApiUrl(path, parameters), { headers: { Accept: "application/json" }, signal });
}

/** Sends JSON to the page's own API with ``method``, which is not GET. What it sends never appears in an address. */
export function sendJson(method, path, body, signal) {
  return sendRequest(new URL(path, root), {
    method,
    headers: { Accept: "application/json", "Content-Type": "application/json", "X-Winnow-Page": "1" },
    body: JSON.stringify(body),
    signal,
  });
}

/** Gets JSON from Airflow's API with the user's own rights. */
export function fetchAirflowJson(path, signal) {
  return sendRequest(buildAirflowUrl(`api/v2/${path}`), { headers: { Accept: "application/json" }, signal });
}

/** Changes something in Airflow with the user's own rights. */
export function changeAirflow(path, body) {
  return sendRequest(buildAirflowUrl(`api/v2/${path}`), {
    method: "PATCH",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

/** Triggers a DAG run with the user's own rights and returns Airflow's DAG run. */
export function triggerDagRun(dagId, conf) {
  return sendRequest(buildAirflowUrl(`api/v2/dags/${encodePathPart(dagId)}/dagRuns`), {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify({ logical_date: null, conf }),
  });
}
