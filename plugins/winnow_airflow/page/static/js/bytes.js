// Bytes of records as text, JSON and hexadecimal digits. Numbers in JSON are never parsed, so large ones stay exact.

const HEX_BYTES_PER_LINE = 16;
const INDENT = "  ";

/** Decodes base64 into bytes. */
export function decodeBase64(text) {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}

/** Decodes bytes as UTF-8; null if they are not. Where bytes were cut, the last character may be incomplete. */
export function decodeText(bytes, isCut = false) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: isCut });
  } catch {
    return null;
  }
}

/** Formats bytes as hexadecimal digits with spaces. */
export function formatHex(bytes) {
  return Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join(" ");
}

/** Formats bytes as lines of position, hexadecimal digits and ASCII. */
export function formatHexDump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += HEX_BYTES_PER_LINE) {
    const part = bytes.subarray(at, at + HEX_BYTES_PER_LINE);
    const ascii = Array.from(part, (each) => (each > 31 && each < 127 ? String.fromCharCode(each) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${formatHex(part).padEnd(3 * HEX_BYTES_PER_LINE - 1)}  ${ascii}`);
  }
  return lines.join("\n");
}

/** Indents JSON without changing a name, a number or an escape; null if ``text`` is not JSON. */
export function indentJson(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  const line = () => `\n${INDENT.repeat(depth)}`;
  const tokens = text.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  return tokens
    .map((token, index) => {
      const next = tokens[index + 1];
      if (token === "{" || token === "[") {
        depth += 1;
        return next === "}" || next === "]" ? token : token + line();
      }
      if (token === "}" || token === "]") {
        depth -= 1;
        const before = tokens[index - 1];
        return before === "{" || before === "[" ? token : line() + token;
      }
      if (token === ",") return token + line();
      return token === ":" ? ": " : token;
    })
    .join("");
}
