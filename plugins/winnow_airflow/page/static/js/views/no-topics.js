// Where a list of topics would be: what was not found, or how topics come here.

import { h } from "../dom.js";
import { command, empty } from "../parts.js";
import { setQuery } from "../router.js";

/** Nothing matches what was asked for. */
export function nothingFound(query) {
  const what = [query.state, query.search ? `"${query.search}"` : null].filter(Boolean).join(", ");
  return empty(
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
export function noTopics() {
  return empty(
    "No topics yet.",
    h("p", {}, "A topic appears here once it has been created and looked at:"),
    command("winnow topics create orders --partitions 6\nwinnow ingest files orders dump/\nwinnow assess orders"),
    h(
      "p",
      {},
      "From then on the DAG compact_topics looks at every topic each time it runs. Are there topics already? Then it has not run since this page exists, or the api-server reads another metadata store than the DAGs do: compare WINNOW_HOME and WINNOW_STORE__URL.",
    ),
  );
}
