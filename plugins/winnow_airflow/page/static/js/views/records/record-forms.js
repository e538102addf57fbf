// The forms of the records tab: where in a partition to begin, and the key to look for.

import { createButton } from "../../components.js";
import { createId, h } from "../../dom.js";

const ENCODINGS = [
  ["text", "Text"],
  ["json", "JSON"],
  ["base64", "Base64"],
  ["hex", "Hex"],
];
const STARTS = [
  ["newest", "Newest records"],
  ["offset", "Offset"],
  ["time", "Time"],
];
/** Stands in the address in place of a partition's number. */
export const ALL_PARTITIONS = "all";
const PLACEHOLDERS = { newest: "", offset: "12345", time: "2026-11-21T19:45:03Z" };

/** Parses an instant: ISO 8601, in UTC if it names no offset, or ms since the epoch; null if it is neither. */
export function parseInstant(text) {
  const wanted = text.trim();
  if (/^\d{5,15}$/.test(wanted)) return Number(wanted);
  const hasZone = /(?:[zZ]|[+-]\d\d:?\d\d)$/.test(wanted);
  const ms = Date.parse(hasZone || /^\d{4}-\d\d-\d\d$/.test(wanted) ? wanted : `${wanted.replace(" ", "T")}Z`);
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}

function createSelect(id, options, key) {
  return h(
    "select",
    { id, "data-key": key },
    options.map(([value, label]) => h("option", { value }, label)),
  );
}

/** Creates the form that browses; ``browse({partition, offset, time})``. ``show(query)`` fills it from the address. */
export function createBrowseForm(browse) {
  const ids = { partition: createId("partition"), start: createId("start"), at: createId("at") };
  const partition = h("input", {
    id: ids.partition,
    type: "number",
    min: 0,
    step: 1,
    value: 0,
    required: true,
    class: "is-number",
    "data-key": "partition",
  });
  const everywhere = h("input", { type: "checkbox", "data-key": "all-partitions" });
  const start = createSelect(ids.start, STARTS, "start");
  const at = h("input", {
    id: ids.at,
    autocomplete: "off",
    spellcheck: "false",
    "aria-label": "Where",
    "data-key": "at",
  });
  const adapt = () => {
    partition.disabled = everywhere.checked;
    start.disabled = everywhere.checked;
    if (everywhere.checked) start.value = "newest";
    at.hidden = start.value === "newest";
    at.required = !at.hidden;
    at.placeholder = PLACEHOLDERS[start.value];
    at.setCustomValidity("");
  };
  start.addEventListener("change", adapt);
  everywhere.addEventListener("change", adapt);
  at.addEventListener("input", () => at.setCustomValidity(""));
  const send = (event) => {
    event.preventDefault();
    const text = at.value.trim();
    const isValid =
      start.value === "newest" || (start.value === "offset" ? /^\d{1,19}$/.test(text) : parseInstant(text) !== null);
    if (!isValid) {
      at.setCustomValidity(
        start.value === "offset" ? "An offset is a whole number." : "A time like 2026-11-21T19:45:03Z.",
      );
      at.reportValidity();
      return;
    }
    browse({
      partition: everywhere.checked ? ALL_PARTITIONS : partition.value,
      offset: start.value === "offset" ? text : null,
      time: start.value === "time" ? text : null,
    });
  };
  adapt();
  return {
    element: h(
      "form",
      { class: "record-form", "aria-label": "Browse a partition", on: { submit: send } },
      h("label", { for: ids.partition }, "Partition"),
      partition,
      h(
        "label",
        { class: "toggle", "data-tip": "The newest records of all partitions, by timestamp" },
        everywhere,
        "all",
      ),
      h("label", { for: ids.start }, "from"),
      start,
      at,
      h("button", { type: "submit", class: "button solid", "data-key": "browse" }, "Show"),
    ),
    show: (query) => {
      if (document.activeElement === at || document.activeElement === partition) return;
      everywhere.checked = query.partition === ALL_PARTITIONS;
      if (!everywhere.checked) partition.value = query.partition ?? 0;
      start.value = query.time ? "time" : query.offset ? "offset" : "newest";
      at.value = query.time ?? query.offset ?? "";
      adapt();
    },
  };
}

/** Creates the form that looks for a key; ``find({key, encoding, everywhere})``. The key goes into no address. */
export function createKeyForm(find) {
  const everywhere = h("input", { type: "checkbox", "data-key": "everywhere" });
  const toggle = h(
    "label",
    { class: "toggle", "data-tip": "Search the other partitions too, even if the key was found in its own" },
    everywhere,
    "in all partitions",
  );
  return createForm("Find a key", "Find its versions", toggle, (wanted) =>
    find({ ...wanted, everywhere: everywhere.checked }),
  );
}

/** Creates the form that looks for the row of a key; ``find({key, encoding})``. The key goes into no address. */
export function createRowKeyForm(find) {
  return createForm("Find the row of a key", "Find its row", null, find);
}

function createForm(label, action, option, find) {
  const ids = { key: createId("key"), encoding: createId("encoding") };
  const key = h("input", {
    id: ids.key,
    autocomplete: "off",
    spellcheck: "false",
    class: "is-key",
    "data-key": "key",
    placeholder: "Key",
  });
  const encoding = createSelect(ids.encoding, ENCODINGS, "encoding");
  encoding.setAttribute("aria-label", "The key is typed as");
  const clear = createButton("", {
    shape: "close",
    kind: "ghost",
    key: "clear-key",
    name: "Clear the key",
    onPress: () => {
      key.value = "";
      key.focus();
    },
  });
  const send = (event) => {
    event.preventDefault();
    find({ key: key.value, encoding: encoding.value });
  };
  return h(
    "form",
    { class: "record-form", "aria-label": label, autocomplete: "off", on: { submit: send } },
    h("label", { for: ids.key }, "Key"),
    key,
    clear,
    encoding,
    option,
    h("button", { type: "submit", class: "button", "data-key": "find" }, action),
  );
}
