// Where a list of topics would be: what was not found, or how topics come here.

import { createCommand, createEmptyState } from "../components.js";
import { h } from "../dom.js";
import { setQuery } from "../router.js";

/** Nothing matches what was asked for. */
export function createNoMatch(query) {
  const what = [query.state, query.search ? `"${query.search}"` : null].filter(Boolean).join(", ");
  return createEmptyState(
    `No topic matches ${what}.`,
    h(
      "p",
      {},
      h(
        "button",
        {
          type: "button",
          class: "button",
          "data-key": "show-all",
          on: { click: () => setQuery({ search: null, state: null, page: null }) },
        },
        "Show all topics",
      ),
    ),
  );
}

/** There are none at all. */
export function createNoTopics() {
  return createEmptyState(
    "No topics yet.",
    h("p", {}, "A topic appears here once it has been created and looked at:"),
    createCommand("winnow topics create orders --partitions 6\nwinnow ingest files orders dump/\nwinnow assess orders"),
    h(
      "p",
      {},
      "From then on the DAG compact_topics looks at every topic each time it runs. Are there topics already? Then it has not run since this page exists, or the api-server reads another metadata store than the DAGs do: compare WINNOW_HOME and WINNOW_STORE__URL.",
    ),
  );
}
