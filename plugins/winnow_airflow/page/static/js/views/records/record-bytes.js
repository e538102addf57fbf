// A key or value of a record as text, JSON or hexadecimal digits, with its true size and a button that copies it.

import { decodeBase64, decodeText, formatHex, formatHexDump, indentJson } from "../../bytes.js";
import { createButton } from "../../components.js";
import { announceToScreenReader, h, updateChildren } from "../../dom.js";
import { formatBytes } from "../../format.js";

const PREVIEW_CHARACTERS = 160;
const PREVIEW_HEX_BYTES = 40;

/** How bytes can be shown. */
export const BYTE_FORMATS = [
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hex"],
];

/** Creates the chips that choose a format; ``choose(format)``. */
export function createFormatChips(chosen, choose, key = "format", formats = BYTE_FORMATS) {
  return h(
    "div",
    { class: "chips", role: "group", "aria-label": "Show as" },
    formats.map(([name, label]) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(name === chosen),
          "data-key": `${key}-${name}`,
          on: { click: () => choose(name) },
        },
        label,
      ),
    ),
  );
}

/** Formats the bytes in full; ``note`` says why another format than ``format`` is used. */
function formatBytesAs(shown, format) {
  const bytes = decodeBase64(shown.base64);
  const text = decodeText(bytes, shown.is_cut);
  if (format === "hex") return { content: formatHexDump(bytes), plain: formatHex(bytes), note: "" };
  if (text === null) return { content: formatHexDump(bytes), plain: formatHex(bytes), note: "no UTF-8 text" };
  if (format === "text") return { content: text, plain: text, note: "" };
  const indented = indentJson(text);
  if (indented !== null) return { content: indented, plain: indented, note: "" };
  return { content: text, plain: text, note: shown.is_cut ? "cut, so JSON is not indented" : "not JSON" };
}

function describeCut(shown) {
  return [formatBytes(shown.size_bytes), shown.is_cut ? "cut" : "", shown.is_masked ? "parts are masked" : ""].filter(
    Boolean,
  );
}

/** Creates a short preview for a cell of a table. */
export function createBytesPreview(shown, format, { absent = "null" } = {}) {
  if (!shown) return h("span", { class: "quiet" }, absent);
  if (shown.size_bytes === 0) return h("span", { class: "quiet" }, "empty");
  const bytes = decodeBase64(shown.base64);
  const text = format === "hex" ? null : decodeText(bytes, shown.is_cut);
  const preview = text === null ? formatHex(bytes.subarray(0, PREVIEW_HEX_BYTES)) : text.slice(0, PREVIEW_CHARACTERS);
  return h("code", { class: "bytes-preview", "data-tip": describeCut(shown).join(", ") }, preview);
}

/** Creates the whole of a key or value under its ``title``, with its own choice of format. */
export function createBytesView(title, shown, format, { absent = "null", key = title } = {}) {
  const head = (...tools) => h("figcaption", { class: "row" }, h("strong", {}, title), tools);
  if (!shown) return h("figure", { class: "bytes-view" }, head(h("span", { class: "quiet" }, absent)));
  const element = h("figure", { class: "bytes-view" });
  const draw = (chosen) => {
    const { content, plain, note } = formatBytesAs(shown, chosen);
    const copy = async () => {
      await navigator.clipboard?.writeText(plain).catch(() => null);
      announceToScreenReader(`${title} copied`);
    };
    updateChildren(
      element,
      head(
        createFormatChips(chosen, draw, `${key}-as`),
        createButton("Copy", {
          shape: "copy",
          kind: "ghost",
          key: `${key}-copy`,
          name: `Copy ${title}`,
          onPress: copy,
        }),
        h("span", { class: "quiet" }, [...describeCut(shown), note].filter(Boolean).join(", ")),
      ),
      h("pre", { class: "bytes", tabindex: "0", "aria-label": title }, content),
    );
  };
  draw(format);
  return element;
}
