// Acknowledging and muting open alerts: the page's own routes do it, with the user's rights, and the audit log has it.

import { explainRefusal } from "../../actions.js";
import { getServerTimeMs, sendJson } from "../../api.js";
import { createButton } from "../../components.js";
import { nameDag } from "../../dag-ids.js";
import { openDialog } from "../../dialog.js";
import { announceToScreenReader, createId, h } from "../../dom.js";
import { formatCountWithNoun, splitWords } from "../../format.js";
import { createReasonField } from "../../reason-field.js";
import { formatInstant, parseInstant } from "../../time-zone.js";

const HOUR = 3_600_000;
const DURATIONS = [
  [HOUR, "1 hour"],
  [4 * HOUR, "4 hours"],
  [12 * HOUR, "12 hours"],
  [24 * HOUR, "1 day"],
  [72 * HOUR, "3 days"],
  [168 * HOUR, "7 days"],
];
const DEFAULT_DURATION = 4 * HOUR;

/** Names an alert for a sentence: validation failed of orders-0. */
export function nameAlert({ kind, topic, partition }) {
  const place = partition === null || partition === undefined ? topic : `${topic}-${partition}`;
  return `${splitWords(kind)} of ${place}`;
}

function nameAlerts(alerts) {
  return alerts.length === 1 ? nameAlert(alerts[0]) : formatCountWithNoun(alerts.length, "alert");
}

/** Creates "Acknowledge" for open alerts; ``done`` refreshes the view. */
export function createAcknowledgeButton(alerts, done, { label = "Acknowledge", kind = "small", key } = {}) {
  return createButton(label, {
    kind,
    key: key ?? `acknowledge-${alerts[0]?.key}`,
    name: `Acknowledge ${nameAlerts(alerts)}`,
    disabledReason: explainRefusal(
      "change",
      alerts.map((each) => each.topic),
    ),
    onPress: () =>
      openAlertDialog("acknowledge", alerts, done, {
        title: `Acknowledge ${nameAlerts(alerts)}?`,
        text: "Tells everybody who looks here that you deal with it. It stays open until the problem is over, and its recovery is reported.",
        verb: "Acknowledge",
      }),
  });
}

/** Creates "Mute" for an open alert, or "Unmute" if it is muted. */
export function createMuteButton(alert, done) {
  const isMuted = alert.muted_until_ms !== null;
  return createButton(isMuted ? "Unmute" : "Mute", {
    kind: "small",
    key: `mute-${alert.key}`,
    name: `${isMuted ? "Unmute" : "Mute"} ${nameAlert(alert)}`,
    disabledReason: explainRefusal("change", [alert.topic]),
    onPress: () => (isMuted ? openUnmuteDialog(alert, done) : openMuteDialog(alert, done)),
  });
}

function openUnmuteDialog(alert, done) {
  openAlertDialog("unmute", [alert], done, {
    title: `Unmute ${nameAlert(alert)}?`,
    text: `Ends the mute now. The next run of ${nameDag("compact_topics")} sends the alert once more, if it is still open.`,
    verb: "Unmute",
  });
}

function openMuteDialog(alert, done) {
  const ids = { span: createId("span"), until: createId("until") };
  const until = h("input", { id: ids.until, type: "datetime-local", step: 60, hidden: true });
  const span = h(
    "select",
    { id: ids.span, name: "span" },
    DURATIONS.map(([ms, label]) => h("option", { value: ms, selected: ms === DEFAULT_DURATION }, label)),
    h("option", { value: "" }, "Until …"),
  );
  const ends = h("p", { class: "quiet" });
  const readEndMs = () => (span.value ? getServerTimeMs() + Number(span.value) : parseInstant(until.value));
  const show = () => {
    until.hidden = span.value !== "";
    until.required = !until.hidden;
    const endMs = readEndMs();
    ends.textContent = endMs === null ? "" : `Until ${formatInstant(endMs)}.`;
  };
  for (const each of [span, until]) each.addEventListener("input", show);
  show();
  openAlertDialog("mute", [alert], done, {
    title: `Mute ${nameAlert(alert)}?`,
    text: "No channel gets this alert before the mute ends; if it is still open then, it is sent once. Its recovery is sent at any time and ends the mute. The problem itself goes on.",
    verb: "Mute",
    fields: [
      h("label", { for: ids.span }, "For"),
      span,
      h("label", { for: ids.until, class: "unseen" }, "Until"),
      until,
      ends,
    ],
    more: () => ({ until_ms: Math.round(readEndMs()) }),
  });
}

function openAlertDialog(action, alerts, done, { title, text, verb, fields = [], more = () => ({}) }) {
  const reason = createReasonField("Shown with the alert, in its history and in the audit log.");
  openDialog({
    title,
    body: [
      h("p", {}, text),
      alerts.length > 1
        ? h(
            "ul",
            { class: "name-list is-scrolled", tabindex: "0", "aria-label": "Alerts" },
            alerts.map((each) => h("li", {}, nameAlert(each))),
          )
        : null,
      fields,
      reason.elements,
    ],
    confirmLabel: verb,
    confirm: async () => {
      const keys = alerts.map((each) => each.key);
      await sendJson("POST", `alerts/${action}`, { keys, reason: reason.read(), ...more() });
      announceToScreenReader(`${verb}: ${nameAlerts(alerts)}`);
      done();
    },
  });
}
