// What somebody last asked of a topic through a DAG run, and what came of it: by the audit log, and what tasks left.

import { fetchJson } from "../../api.js";
import { createAge, createAirflowLink } from "../../components.js";
import { buildDagRunPath, createOutcomeList, fetchOutcome } from "../../dag-run-outcome.js";
import { h, updateChildren } from "../../dom.js";
import { splitWords } from "../../format.js";

/** How many of the topic's newest entries are looked through; those of shells and of the page have no DAG run. */
const ENTRIES_READ = 10;

/** Fills ``element`` with the last request for ``topic``; with nothing if there is none. */
export async function showLastRequest(element, topic) {
  const answer = await fetchJson("audit", { topic, size: ENTRIES_READ }).catch(() => ({ entries: [] }));
  const entry = answer.entries.find((row) => row.dag_run !== null);
  if (!entry) return updateChildren(element);
  const { dag_id: dagId, run_id: runId } = entry.dag_run;
  // A role that may not read XComs, or an Airflow that has removed the DAG run, leaves the request alone.
  const outcome = await fetchOutcome(dagId, runId).catch(() => null);
  const list = outcome && createOutcomeList({ outcomes: selectOwn(outcome.outcomes, topic), further: 0 });
  return updateChildren(
    element,
    h(
      "p",
      { class: "quiet facts" },
      h("span", {}, `Last request: ${splitWords(entry.action)} by ${entry.actor}, `, createAge(entry.at_ms)),
      createAirflowLink(buildDagRunPath(dagId, runId), "Open the DAG run"),
    ),
    list,
  );
}

/** Selects what is about ``topic``, or about all topics; it need not be named on its own page. */
function selectOwn(outcomes, topic) {
  return outcomes.filter((row) => row.topic === topic || row.topic === "").map((row) => ({ ...row, topic: "" }));
}
