// The form that erases keys of a file. It has the file's place and no key: Airflow keeps and shows what it is sent.

import { openEraseDialog } from "../../actions.js";
import { encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import { createCallout } from "../../components.js";
import { createId, h } from "../../dom.js";
import { createReasonField, MAXIMUM_PARAM_REASON_CHARACTERS } from "../../reason-field.js";

/** Opens the form; ``ended`` is called when its DAG run has ended. */
export function openEraseForm(topic, ended) {
  const place = createId("field");
  const keysFrom = h("input", {
    id: place,
    name: "keys_from",
    required: true,
    autofocus: true,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": `${place}-hint`,
  });
  const reason = createReasonField("In the certificate and the audit log. Name a request, never a key.", {
    maximum: MAXIMUM_PARAM_REASON_CHARACTERS,
  });
  const tombstones = createOption("Leave a tombstone at each key's newest record, so that consumers learn of it");
  const pins = createOption("Also where a restore at work, or a tag, keeps a snapshot with such records");
  const preview = createAsyncPanel({ lines: 2 });
  const path = `topics/${encodePathPart(topic)}/erasures/preview`;
  const ready = preview.load((signal) => fetchJson(path, {}, signal), drawPreview).then(Boolean);
  openEraseDialog({
    title: `Erase keys of ${topic}?`,
    wide: true,
    ready,
    body: [
      h(
        "p",
        {},
        "Takes the keys of a file out of everything that Winnow wrote of this topic: one commit, then the files that held one are deleted without a grace. It cannot be undone.",
      ),
      preview.element,
      h("label", { for: place }, "File with the keys"),
      keysFrom,
      h(
        "p",
        { class: "quiet", id: `${place}-hint` },
        "Its path or URI, below a folder of the setting erase.roots; one key a line. Never a key itself: Airflow shows what is typed here.",
      ),
      reason.elements,
      tombstones.element,
      pins.element,
    ],
    watch: [keysFrom, reason.input, tombstones.input, pins.input],
    confirmLabel: "Erase keys",
    conf: () => ({
      topic,
      keys_from: keysFrom.value.trim(),
      reason: reason.read(),
      with_tombstone: tombstones.input.checked,
      break_pins: pins.input.checked,
    }),
    done: `Erasing keys of ${topic}`,
    ended,
  });
}

function createOption(label) {
  const id = createId("option");
  const input = h("input", { id, type: "checkbox" });
  return { input, element: h("label", { class: "option", for: id }, input, label) };
}

function drawPreview({ persons, consequences }) {
  return [
    consequences ? createCallout("overdue", "What it ends", h("p", {}, consequences)) : null,
    persons > 1
      ? createCallout(
          "due",
          "This takes two persons",
          h("p", {}, "The DAG run only asks for it, and erases nothing. Somebody else approves it on this tab."),
        )
      : null,
    consequences || persons > 1 ? null : h("p", { class: "quiet" }, "No run, ingest call or tag is in its way."),
  ];
}
