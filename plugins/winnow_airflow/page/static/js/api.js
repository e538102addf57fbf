// Asking the page's own API and Airflow's. Every answer that is not what was asked for becomes a Problem with a way on.

import { airflow } from "./frame.js";

const root = new URL("api/", new URL(".", document.baseURI));

/** What went wrong: ``message`` says what, ``next`` what to do about it. */
export class Problem extends Error {
  constructor(message, { status = 0, next = "", login = false, away = false } = {}) {
    super(message);
    this.name = "Problem";
    this.status = status;
    this.next = next;
    this.login = login;
    this.away = away;
  }
}

let behindMs = 0;

/** The server's clock, which all times come from, as far as this browser can tell. */
export function serverNow() {
  return Date.now() + behindMs;
}

function problemOf(status, detail) {
  if (status === 401)
    return new Problem("You are logged out of Airflow.", {
      status,
      login: true,
      next: "Log in again; you come back here.",
    });
  if (status === 403)
    return new Problem(detail || "Your role in Airflow may not do this.", {
      status,
      next: "Ask whoever administers this Airflow for the right, or a colleague who has it.",
    });
  if (status === 404) return new Problem(detail || "There is no such thing here.", { status });
  if (status === 409) return new Problem(detail || "There is one already.", { status });
  if (status < 500) return new Problem(detail || `The server refused the request (${status}).`, { status });
  return new Problem(detail || `The server failed to answer (${status}).`, {
    status,
    next: "The api-server's log has the cause; the command winnow doctor checks the metadata store.",
  });
}

function detailOf(body) {
  const detail = body?.detail;
  if (typeof detail === "string") return detail;
  if (Array.isArray(detail)) return detail.map((each) => each.msg).join("; ");
  return "";
}

async function ask(url, options) {
  let answer;
  try {
    answer = await fetch(url, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem("Airflow's api-server did not answer.", {
      away: true,
      next: "See that it runs and that this machine reaches it. What was shown before is kept; this page tries again.",
    });
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw problemOf(answer.status, detailOf(body));
  if (body && Number.isFinite(body.now_ms)) behindMs = body.now_ms - Date.now();
  return body;
}

/** Part of a path, safe whatever a topic is named. */
export const part = encodeURIComponent;

/** GET from the page's own API; parameters that are empty are left out. */
export function get(path, parameters = {}, signal) {
  const url = new URL(path, root);
  for (const [name, value] of Object.entries(parameters))
    if (value !== null && value !== undefined && value !== "") url.searchParams.set(name, value);
  return ask(url, { headers: { Accept: "application/json" }, signal });
}

/** GET from Airflow's API with the user's own rights. */
export function getAirflow(path, signal) {
  return ask(airflow(`api/v2/${path}`), { headers: { Accept: "application/json" }, signal });
}

/** Trigger a DAG run with the user's own rights; answers with Airflow's DAG run. */
export function trigger(dagId, conf) {
  return ask(airflow(`api/v2/dags/${part(dagId)}/dagRuns`), {
    method: "POST",
    headers: { Accept: "application/json", "Content-Type": "application/json" },
    body: JSON.stringify({ logical_date: null, conf }),
  });
}
