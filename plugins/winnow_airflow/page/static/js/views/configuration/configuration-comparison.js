// Compares the values in the editor with those that most topics of a tag have; one press takes such a value over.

import { fetchJson } from "../../api.js";
import { createButton } from "../../components.js";
import { createId, h, updateChildren } from "../../dom.js";
import { describeSetting, formatCount, formatCountWithNoun } from "../../format.js";

/** Creates the choice of a tag. ``editor`` shows what its topics have; ``own``: the tags of ``topic``, which come first. */
export function createComparison(topic, own, tags, editor) {
  if (tags.length === 0) return null;
  const id = createId("compare");
  const said = h("span", { class: "quiet", role: "status" });
  const select = h(
    "select",
    { id, "data-key": "compare", on: { change: compare } },
    h("option", { value: "" }, "nothing"),
    [...own, ...tags.filter((tag) => !own.includes(tag))].map((tag) => h("option", { value: tag }, tag)),
  );

  async function compare() {
    const tag = select.value;
    if (tag === "") {
      editor.showComparison(null);
      updateChildren(said);
      return;
    }
    try {
      const found = await fetchJson("configuration/commonest", { tag, without: topic });
      if (select.value !== tag) return;
      const differing = editor.showComparison(found.topics ? found : null);
      updateChildren(said, describe(found.topics, differing));
    } catch (error) {
      updateChildren(said, error.message);
    }
  }

  return h("div", { class: "row" }, h("label", { for: id }, "Compare with topics of the tag"), select, said);
}

function describe(topics, differing) {
  if (topics === 0) return "No other topic has this tag.";
  const keys = differing === 1 ? "1 key differs" : `${formatCountWithNoun(differing, "key")} differ`;
  return `${keys} from what most of ${formatCountWithNoun(topics, "other topic")} have; they are marked.`;
}

/** Creates the line of one key: what most have, and the button that takes it over; ``isSame``: the topic has it, too. */
export function createCommonest(name, { value, count, is_default: isDefault }, topics, isSame, onTake) {
  const unit = value === null ? "" : describeSetting(name, value);
  return [
    h(
      "span",
      {},
      `${formatCount(count)} of ${formatCount(topics)} have `,
      value === null ? "it not set" : h("code", {}, value || "(empty)"),
      unit ? h("small", {}, ` ${unit}`) : null,
      isDefault && value !== null ? " by default" : null,
    ),
    isSame
      ? null
      : createButton("Take over", {
          kind: "small",
          key: `take-${name}`,
          name: `Take over ${name}`,
          onPress: () => onTake(isDefault ? null : value),
        }),
  ];
}
