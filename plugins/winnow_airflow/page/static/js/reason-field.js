// The field in which a dialog asks why something is done.

import { createId, h } from "./dom.js";

const MAXIMUM_REASON_CHARACTERS = 200;

/** Creates the field with its label, and a hint that says where the reason will stand. */
export function createReasonField(hint, { maximum = MAXIMUM_REASON_CHARACTERS } = {}) {
  const id = createId("field");
  const input = h("input", {
    id,
    name: "reason",
    maxlength: maximum,
    required: true,
    autofocus: true,
    autocomplete: "off",
    "aria-describedby": `${id}-hint`,
  });
  return {
    elements: [h("label", { for: id }, "Reason"), input, h("p", { class: "quiet", id: `${id}-hint` }, hint)],
    read: () => input.value.trim(),
  };
}
