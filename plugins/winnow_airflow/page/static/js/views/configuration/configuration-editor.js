// A form for topic configuration: one field per key, empty for the default.

import { sendJson } from "../../api.js";
import { createId, h, insertBreakPoints, updateChildren } from "../../dom.js";
import { describeSetting } from "../../format.js";
import { createIcon } from "../../icons.js";
import { createCommonest } from "./configuration-comparison.js";

const CHECK_AFTER_MS = 250;
const GROUPS = [
  ["usual", "Usual"],
  ["lags", "Lags and deadlines"],
  ["latest_table", "Table of the latest state"],
  ["kafka_only", "Kafka only"],
];

/** Lists what a key of few values may be set to: [value, label]. */
function listChoices(key) {
  if (!key.is_list) return key.choices.map((each) => [each, each]);
  return [...key.choices.map((each) => [each, each]), [key.choices.join(","), key.choices.join(" and ")], ["", "none"]];
}

function describeUnits(key) {
  if (key.unit === "ms") return " Units: ms, s, min, h, d, w.";
  return key.unit === "bytes" ? " Units: B, KiB, MiB, GiB, MB, GB." : "";
}

/**
 * Creates the form. ``keys``: as the server describes them; ``values``: what the topic sets. ``onChange(changes)`` is
 * called with ``{config, reset}`` after each edit, and once the server has said of each value whether it is valid and
 * what it is in Kafka's unit. ``getTrouble()`` says why the changes cannot be sent, empty: nothing hinders;
 * ``finishCheck()`` resolves when the server has answered for all that was typed. ``showComparison(found)`` shows at each
 * key what most other topics have, null: nothing, and returns how many keys differ from it. ``fill(values)`` types values
 * into the fields of their keys; null: the default.
 */
export function createConfigurationEditor(keys, values, onChange) {
  const edited = new Map();
  const answers = new Map();
  let timer = null;
  const isSet = (name) => Object.hasOwn(values, name);

  function getChanges() {
    const config = {};
    const reset = [];
    for (const [name, value] of edited) {
      if (value === null) {
        if (isSet(name)) reset.push(name);
      } else {
        const answer = answers.get(name);
        const converted = answer?.text === value ? answer.value : value;
        if (!isSet(name) || values[name] !== converted) config[name] = converted;
      }
    }
    return { config, reset };
  }

  function getTrouble() {
    const wrong = rows.filter((row) => row.hasError()).map((row) => row.key.name);
    return wrong.length ? `Correct ${wrong.join(", ")} first` : "";
  }

  function checkSoon() {
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_AFTER_MS);
  }

  /** Asks the server at once about what was typed just now. */
  function finishCheck() {
    clearTimeout(timer);
    return check();
  }

  async function check() {
    const mine = timer;
    const asked = Object.fromEntries([...edited].filter(([, value]) => value !== null));
    // Without an answer the review, and the task after it, still check the values.
    const found = await sendJson("POST", "configuration/values", { config: asked }).catch(() => ({ values: {} }));
    if (mine !== timer) return;
    for (const [name, answer] of Object.entries(found.values)) answers.set(name, { ...answer, text: asked[name] });
    for (const row of rows) row.showAnswer();
    onChange(getChanges());
  }

  function showComparison(found) {
    return rows.filter((row) => row.showCommonest(found)).length;
  }

  function fill(wanted) {
    for (const row of rows) if (Object.hasOwn(wanted, row.key.name)) row.takeOver(wanted[row.key.name]);
  }

  const rows = keys.map((key) => createRow(key));
  const groups = GROUPS.map(([name, label]) => {
    const members = rows.filter(({ key }) => key.group === name);
    const title = h("h2", { class: "group-title", id: createId("group") }, label);
    const place = { class: "key-group", role: "group", "aria-labelledby": title.id };
    return {
      members,
      element: h(
        "div",
        place,
        title,
        members.map(({ element }) => element),
      ),
    };
  });
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
    for (const { element, members } of groups) element.hidden = members.every((row) => row.element.hidden);
  }

  function createRow(key) {
    const id = createId("key");
    const note = h("span", { class: "quiet" });
    const trouble = h("p", { class: "field-error", id: `${id}-error`, hidden: true });
    const shownDefault = key.default === null ? "not set" : key.default || "empty";
    const input = key.choices ? createSelect(key, id, shownDefault) : createField(key, id, shownDefault);
    const read = () => {
      if (key.choices) return input.value === "default" ? null : input.value.slice("set:".length);
      return input.value.trim() === "" ? null : input.value.trim();
    };
    const element = h("div", { class: "key-row", "data-config": key.name });
    const commonest = h("p", { class: "commonest", hidden: true });
    const showNote = () => {
      const value = read();
      const answer = answers.get(key.name);
      note.textContent = describeSetting(
        key.name,
        (answer?.text === value ? answer.value : value) ?? key.default ?? "",
      );
      element.classList.toggle("is-edited", value !== (isSet(key.name) ? values[key.name] : null));
    };
    const takeOver = (value) => {
      if (key.choices) {
        const chosen = value === null ? "default" : `set:${value}`;
        if (![...input.options].some((each) => each.value === chosen))
          input.append(h("option", { value: chosen }, value));
        input.value = chosen;
      } else input.value = value ?? "";
      input.dispatchEvent(new Event("input"));
    };
    const takeOverAndFocus = (value) => {
      takeOver(value);
      input.focus();
    };
    let compared = null;
    const showCommonest = (found) => {
      compared = found;
      if (found === null) {
        commonest.hidden = true;
        element.classList.remove("is-different");
        return false;
      }
      // A key without a default that none of them sets is in no topic's configuration.
      const most = found.keys[key.name] ?? { value: null, count: found.topics, is_default: true };
      const isSame = (read() ?? key.default) === most.value;
      element.classList.toggle("is-different", !isSame);
      commonest.hidden = false;
      updateChildren(commonest, createCommonest(key.name, most, found.topics, isSame, takeOverAndFocus));
      return !isSame;
    };
    const hasError = () => answers.get(key.name)?.text === read() && Boolean(answers.get(key.name)?.error);
    const showAnswer = () => {
      const isWrong = hasError();
      trouble.hidden = !isWrong;
      trouble.textContent = isWrong ? answers.get(key.name).error : "";
      input.setAttribute("aria-invalid", String(isWrong));
      showNote();
    };
    input.addEventListener("input", () => {
      edited.set(key.name, read());
      showAnswer();
      showCommonest(compared);
      checkSoon();
      onChange(getChanges());
    });
    element.append(
      h("label", { for: id }, h("code", {}, insertBreakPoints(key.name))),
      h("div", { class: "key-value" }, input, note),
      h("p", { class: "quiet", id: `${id}-hint` }, key.sentence, ` Default: ${shownDefault}.`, describeUnits(key)),
      trouble,
      commonest,
    );
    showNote();
    return { element, key, hasError, showAnswer, showCommonest, takeOver };
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
      "aria-describedby": `${id}-hint ${id}-error`,
      "data-key": `config-${key.name}`,
    });
  }

  return {
    element: h(
      "div",
      { class: "key-form" },
      h("div", { class: "search" }, createIcon("search"), search),
      groups.map(({ element }) => element),
    ),
    getChanges,
    getTrouble,
    finishCheck,
    showComparison,
    fill,
  };
}
