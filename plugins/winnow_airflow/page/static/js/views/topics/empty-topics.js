// What the list of topics shows if it is empty: no match, or how topics get here.

import { createCommand, createEmptyState } from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { h } from "../../dom.js";
import { setQuery } from "../../router.js";

/** Creates the message that no topic matches the filter. */
export function createNoMatch(query) {
  const what = [
    query.state,
    query.search ? `"${query.search}"` : null,
    query.owner ? `owner ${query.owner}` : null,
    query.tag ? `tag ${query.tag}` : null,
  ]
    .filter(Boolean)
    .join(", ");
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
          on: { click: () => setQuery({ search: null, state: null, owner: null, tag: null, page: null }) },
        },
        "Show all topics",
      ),
    ),
  );
}

/** Creates the message that there are no topics yet. */
export function createNoTopics() {
  return createEmptyState(
    "No topics yet.",
    h("p", {}, "A topic appears here after it is created and assessed:"),
    createCommand("winnow topics create orders --partitions 6\nwinnow ingest files orders dump/\nwinnow assess orders"),
    h(
      "p",
      {},
      `After that, every run of the DAG ${nameDag("compact_topics")} assesses all topics. If topics exist but none is shown, either the DAG has not run yet, or the api-server and the DAGs use different metadata stores: compare their WINNOW_HOME and WINNOW_STORE__URL.`,
    ),
  );
}
