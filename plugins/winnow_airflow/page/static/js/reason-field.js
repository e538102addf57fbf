// The field in which a dialog asks why something is done.

import { createId, h } from "./dom.js";

const MAXIMUM_REASON_CHARACTERS = 200;
/** Of the DAGs' Param. */
export const MAXIMUM_PARAM_REASON_CHARACTERS = 100;

/**
 * Creates the field with its label. ``hint``: where the reason will stand; ``value`` and ``names``: what is proposed;
 * ``isFirst``: whether the dialog begins in it.
 */
export function createReasonField(
  hint,
  { label = "Reason", maximum = MAXIMUM_REASON_CHARACTERS, value = "", names = [], isFirst = true } = {},
) {
  const id = createId("field");
  const input = h("input", {
    id,
    name: "reason",
    value: value.slice(0, maximum),
    list: names.length ? `${id}-names` : null,
    maxlength: maximum,
    required: true,
    autofocus: isFirst,
    autocomplete: "off",
    "aria-describedby": hint ? `${id}-hint` : null,
  });
  return {
    elements: [
      h("label", { for: id }, label),
      input,
      names.length
        ? h(
            "datalist",
            { id: `${id}-names` },
            names.map((name) => h("option", { value: name })),
          )
        : null,
      hint ? h("p", { class: "quiet", id: `${id}-hint` }, hint) : null,
    ].filter((element) => element !== null),
    input,
    read: () => input.value.trim(),
  };
}
