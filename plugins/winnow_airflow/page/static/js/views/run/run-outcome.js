// How a run ended: what is safe, what to do next, and the buttons for it.

import { createChangeButton, createCompactButton } from "../../actions.js";
import { createCallout, createNextAttempt } from "../../components.js";
import { h } from "../../dom.js";
import { formatCountWithNoun } from "../../format.js";
import { isRunning } from "../../state-badges.js";

const OUTCOMES = {
  spark_failed: {
    title: "Spark failed. Nothing was published.",
    safe: "Readers see the log as it was before this run; no record is lost. The next sweep deletes the orphan files.",
    next: "Fix the cause that the message names, for example a damaged segment. If partitions are marked uncleanable, release them; the next run compacts what is due.",
  },
  invalid: {
    title: "Validation failed. Nothing was published.",
    safe: "Readers see the log as it was before this run; no record is lost. The next sweep deletes the orphan files.",
    next: "See the failing expectations below and in the Data Docs. Fix the cause, for example a damaged segment. Then release the partitions, and the next run compacts them.",
  },
  broken: {
    title: "Validation could not run. Nothing was published.",
    safe: "Readers see the log as it was before this run. A check raised an error, so the new data files were not validated.",
    next: "See the error in the log of the task validate. When its cause is fixed, the next run validates again.",
  },
  refused: {
    title: "The log changed while this run was in progress. Nothing was published.",
    safe: "Readers see the current log. The next sweep deletes the files of this run.",
    next: "No action is needed: the next run makes a new plan.",
  },
  unknown: {
    title: "The catalog did not answer, so it is not known whether the commit succeeded.",
    safe: "Readers see either the complete old snapshot or the complete new one. No file of this run is deleted until it is known which.",
    next: "If the catalog is up, no action is needed: the next run looks for this plan in the table's snapshots first. If the catalog is down, restart it.",
  },
};

/** Creates advice for a run that did not publish; of a published run, its message. */
export function createRunOutcome(row) {
  const end = OUTCOMES[row.status];
  if (isRunning(row.status))
    return row.message
      ? createCallout("overdue", "Spark failed; Airflow may try it again.", h("p", { class: "message" }, row.message))
      : null;
  if (row.status === "void")
    return createCallout(
      "paused",
      "Void: this run was closed before it published anything.",
      row.message ? h("p", {}, row.message) : null,
      h("p", {}, "Nothing was published. The next sweep deletes its files. No action is needed."),
    );
  if (!end) return row.message ? h("p", { class: "message" }, row.message) : null;
  const marked = row.marked.map((each) => each.partition);
  return createCallout(
    row.status === "refused" || row.status === "unknown" ? "overdue" : "uncleanable",
    end.title,
    row.message ? h("p", { class: "message" }, row.message) : null,
    h(
      "dl",
      { class: "advice" },
      h("dt", {}, "Effect on readers"),
      h("dd", {}, end.safe),
      h("dt", {}, "Next step"),
      h("dd", {}, end.next),
    ),
    marked.length
      ? h(
          "p",
          { class: "row" },
          createChangeButton("release", row.topic, marked, {
            label: `Release ${formatCountWithNoun(marked.length, "partition")}`,
            kind: "solid",
            key: "release",
          }),
          createCompactButton(() => [row.topic], { kind: "" }),
        )
      : h(
          "p",
          { class: "quiet" },
          row.status === "spark_failed"
            ? `No partition of ${row.topic} is marked uncleanable: the next run tries all that are due again.`
            : `No partition of ${row.topic} is marked uncleanable any more: all were released, or a later run compacted them.`,
        ),
    marked.length
      ? h(
          "ul",
          { class: "marks" },
          row.marked.map((each) =>
            h(
              "li",
              {},
              `${row.topic}-${each.partition} is marked uncleanable after ${formatCountWithNoun(each.uncleanable.attempts, "failure")}; next attempt `,
              createNextAttempt(each.uncleanable.next_attempt_ms),
              ".",
            ),
          ),
        )
      : null,
  );
}
