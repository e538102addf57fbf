// A form for topic configuration: one field per key, empty for the default.

import { createId, h, insertBreakPoints } from "../../dom.js";
import { describeSetting } from "../../format.js";
import { createIcon } from "../../icons.js";

/** Lists what a key of few values may be set to: [value, label]. */
function listChoices(key) {
  if (!key.is_list) return key.choices.map((each) => [each, each]);
  return [...key.choices.map((each) => [each, each]), [key.choices.join(","), key.choices.join(" and ")], ["", "none"]];
}

/**
 * Creates the form. ``keys``: as the server describes them; ``values``: what the topic sets. ``onChange(changes)`` is
 * called with ``{config, reset}`` after each edit.
 */
export function createConfigurationEditor(keys, values, onChange) {
  const edited = new Map();
  const isSet = (name) => Object.hasOwn(values, name);

  function getChanges() {
    const config = {};
    const reset = [];
    for (const [name, value] of edited) {
      if (value === null) {
        if (isSet(name)) reset.push(name);
      } else if (!isSet(name) || values[name] !== value) config[name] = value;
    }
    return { config, reset };
  }

  const rows = keys.map((key) => createRow(key));
  const search = h("input", {
    type: "search",
    placeholder: "Filter keys",
    "aria-label": "Filter keys",
    "data-key": "filter-keys",
    autocomplete: "off",
    on: { input: () => filterRows() },
  });

  function filterRows() {
    const wanted = search.value.trim().toLowerCase();
    for (const { element, key } of rows)
      element.hidden = !key.name.includes(wanted) && !key.sentence.toLowerCase().includes(wanted);
  }

  function createRow(key) {
    const id = createId("key");
    const note = h("span", { class: "quiet" });
    const shownDefault = key.default === null ? "not set" : key.default || "empty";
    const input = key.choices ? createSelect(key, id, shownDefault) : createField(key, id, shownDefault);
    const read = () => {
      if (key.choices) return input.value === "default" ? null : input.value.slice("set:".length);
      return input.value.trim() === "" ? null : input.value.trim();
    };
    const element = h("div", { class: "key-row", "data-config": key.name });
    const showNote = () => {
      const value = read();
      note.textContent = describeSetting(key.name, value ?? key.default ?? "");
      element.classList.toggle("is-edited", value !== (isSet(key.name) ? values[key.name] : null));
    };
    input.addEventListener("input", () => {
      edited.set(key.name, read());
      showNote();
      onChange(getChanges());
    });
    element.append(
      h("label", { for: id }, h("code", {}, insertBreakPoints(key.name))),
      h("div", { class: "key-value" }, input, note),
      h("p", { class: "quiet", id: `${id}-hint` }, key.sentence, ` Default: ${shownDefault}.`),
    );
    showNote();
    return { element, key };
  }

  function createSelect(key, id, shownDefault) {
    const value = isSet(key.name) ? values[key.name] : null;
    const choices = listChoices(key);
    if (value !== null && !choices.some(([each]) => each === value)) choices.push([value, value]);
    return h(
      "select",
      { id, "aria-describedby": `${id}-hint`, "data-key": `config-${key.name}` },
      h("option", { value: "default", selected: value === null }, `default (${shownDefault})`),
      choices.map(([each, label]) => h("option", { value: `set:${each}`, selected: value === each }, label)),
    );
  }

  function createField(key, id, shownDefault) {
    return h("input", {
      id,
      value: isSet(key.name) ? values[key.name] : "",
      placeholder: shownDefault,
      autocomplete: "off",
      spellcheck: "false",
      inputmode: ["INT", "LONG", "DOUBLE"].includes(key.type) ? "decimal" : null,
      "aria-describedby": `${id}-hint`,
      "data-key": `config-${key.name}`,
    });
  }

  return {
    element: h(
      "div",
      { class: "key-form" },
      h("div", { class: "search" }, createIcon("search"), search),
      rows.map(({ element }) => element),
    ),
    getChanges,
  };
}
