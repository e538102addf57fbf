// How a run ended: what is safe, what to do next, and the buttons for it.

import { createChangeButton, createCompactButton } from "../actions.js";
import { createCallout, createNextAttempt } from "../components.js";
import { h } from "../dom.js";
import { formatCountWithNoun } from "../format.js";
import { isRunning } from "../state-badges.js";

const OUTCOMES = {
  failed: {
    title: "A partition could not be compacted. Nothing was published.",
    safe: "Readers see the log as it was before this run. Whatever was written is named by nothing and goes with the sweep.",
    next: "Mend what the message names, a damaged segment say, then release the partitions: the next run takes them.",
  },
  invalid: {
    title: "Validation failed. Nothing was published.",
    safe: "Readers see the log as it was before this run. The new files are named by nothing and go with the sweep; no record is lost.",
    next: "The failing expectations below and the Data Docs say what does not add up. Mend the cause, a damaged segment say, then release the partitions: the next run takes them.",
  },
  broken: {
    title: "Validation could not be carried out. Nothing was published.",
    safe: "Readers see the log as it was before this run. Nothing speaks against the data: a check raised an error.",
    next: "The log of the task validate has the error. Once its cause is gone, the next run judges again.",
  },
  refused: {
    title: "The log moved on while this run worked. Nothing was published.",
    safe: "Readers see the log as it is now. The files of this run go with the sweep.",
    next: "Nothing by hand: the next run plans anew.",
  },
  unknown: {
    title: "The catalog did not say whether the commit was made.",
    safe: "Nothing is cleaned up before that is known: every file of this run stays, and readers see either the log before or the log after, whole.",
    next: "Nothing by hand: the next run looks for this plan in the table's history first. Is the catalog away? Bring it back.",
  },
};

/** What a run that did not publish left behind, and the way on; of one that did, its message. */
export function createRunOutcome(row) {
  const end = OUTCOMES[row.status === "invalid" && row.verdicts.every((each) => each.passed) ? "failed" : row.status];
  if (isRunning(row.status))
    return createCallout(
      "due",
      "At work.",
      row.message ? h("p", {}, row.message) : null,
      h("p", {}, "This page looks again every few seconds."),
    );
  if (row.status === "void")
    return createCallout(
      "paused",
      "Left unfinished; a newer plan took its place.",
      row.message ? h("p", {}, row.message) : null,
      h("p", {}, "Nothing was published, and its files go with the sweep. There is nothing to do."),
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
      h("dt", {}, "What is safe"),
      h("dd", {}, end.safe),
      h("dt", {}, "What to do next"),
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
          `No partition of ${row.topic} is marked uncleanable now: it was released, or a later run went well.`,
        ),
    marked.length
      ? h(
          "ul",
          { class: "marks" },
          row.marked.map((each) =>
            h(
              "li",
              {},
              `${row.topic}-${each.partition} is marked uncleanable after ${formatCountWithNoun(each.uncleanable.attempts, "failure")}; it is tried again `,
              createNextAttempt(each.uncleanable.next_attempt_ms),
              ".",
            ),
          ),
        )
      : null,
  );
}
