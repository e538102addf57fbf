// Numbers, ages and durations as text. Days are UTC, as the server counts them. Offsets arrive as text, because they may be larger than 2^53.

const NARROW = "\u202f";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const EMPTY_VALUE = "–";

/** Formats a whole number of any size: 1 234 567. */
export function formatCount(value) {
  if (value === null || value === undefined) return EMPTY_VALUE;
  return BigInt(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);
}

/** Formats a large number with two digits and a letter: 1.2 M. */
export function formatShortCount(value) {
  const steps = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ];
  const [unit, letter] = steps.find(([least]) => value >= least) ?? [1, ""];
  return `${Number((value / unit).toFixed(1))}${letter ? `${NARROW}${letter}` : ""}`;
}

/** Formats a number with its noun: 1 topic, 2 topics. */
export function formatCountWithNoun(value, noun, plural = `${noun}s`) {
  return `${formatCount(value)} ${Number(value) === 1 ? noun : plural}`;
}

/** Formats bytes with three digits and a binary unit: 1.24 GiB. */
export function formatBytes(value) {
  if (value === null || value === undefined) return EMPTY_VALUE;
  let rest = Math.abs(Number(value));
  let unit = 0;
  while (rest >= 1023.5 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2;
  return `${value < 0 ? "−" : ""}${rest.toFixed(digits)}${NARROW}${UNITS[unit]}`;
}

/** Formats the bytes that a compaction of a topic would free: at least so many, where some partitions are unknown. */
export function formatReclaimable({ reclaimable_bytes: bytes, partitions_unestimated: unknown }) {
  return `${bytes !== null && unknown ? "at least " : ""}${formatBytes(bytes)}`;
}

/** Formats a share of one: 63%. Only exactly 0 and 1 become 0% and 100%. */
export function formatPercent(share) {
  if (share === null || share === undefined) return EMPTY_VALUE;
  const whole = Math.round(share * 100);
  if (whole === 0 && share > 0) return "<1%";
  if (whole === 100 && share < 1) return ">99%";
  return `${whole}%`;
}

/** Formats the deviation from an expected value: +4%, −2%, ±0%. */
export function formatDeviation(actual, expected) {
  if (expected === null || expected === undefined) return EMPTY_VALUE;
  if (expected === 0) return actual === 0 ? "±0%" : EMPTY_VALUE;
  const share = Math.round(((actual - expected) / expected) * 100);
  return share === 0 ? "±0%" : `${share > 0 ? "+" : "−"}${Math.abs(share)}%`;
}

/** Formats a duration in at most two units: 3 h 20 min. */
export function formatDuration(ms) {
  const rest = Math.max(0, ms);
  if (rest < SECOND) return `${Math.round(rest)}${NARROW}ms`;
  if (rest < MINUTE) return `${Math.floor(rest / SECOND)}${NARROW}s`;
  const pairs = [
    [DAY, "d", HOUR, "h"],
    [HOUR, "h", MINUTE, "min"],
    [MINUTE, "min", SECOND, "s"],
  ];
  const [large, name, small, part] = pairs.find(([unit]) => rest >= unit);
  const whole = Math.floor(rest / large);
  const left = Math.floor((rest % large) / small);
  const few = whole < 10 && left > 0 ? ` ${left}${NARROW}${part}` : "";
  return `${whole}${NARROW}${name}${few}`;
}

/** Formats seconds with the digits that matter: 0.42 s, 8.1 s, 3 min 5 s. */
export function formatSeconds(value) {
  if (value === null || value === undefined) return EMPTY_VALUE;
  if (value >= 60) return formatDuration(value * SECOND);
  return `${value.toFixed(value >= 10 ? 0 : value >= 1 ? 1 : 2)}${NARROW}s`;
}

/** Formats a duration for ages and deadlines, without seconds above a minute. */
function formatRoughDuration(ms) {
  return ms < MINUTE ? formatDuration(ms) : ms < HOUR ? `${Math.floor(ms / MINUTE)}${NARROW}min` : formatDuration(ms);
}

/** Formats how long ago something was: 5 min ago. */
export function formatAge(ms, nowMs) {
  if (ms === null || ms === undefined) return "never";
  const past = nowMs - ms;
  if (past < 0) return `in ${formatRoughDuration(-past)}`;
  return past < 5 * SECOND ? "just now" : `${formatRoughDuration(past)} ago`;
}

/** Formats a deadline: in 3 h 20 min, overdue by 3 h. */
export function formatDeadline(ms, nowMs) {
  if (ms === null || ms === undefined) return "none";
  return ms < nowMs ? `overdue by ${formatRoughDuration(nowMs - ms)}` : `in ${formatRoughDuration(ms - nowMs)}`;
}

/** Formats how long something still holds: for 6 d 3 h. */
export function formatRemainingTime(ms, nowMs) {
  return `for ${formatRoughDuration(Math.max(0, ms - nowMs))}`;
}

/** Formats a day, counted in UTC: 2026-11-21. */
export function formatDay(ms) {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Formats a day for an axis: Nov 21. */
export function formatShortDay(ms) {
  return new Date(ms).toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" });
}

/** Shortens a plan's id for a table. */
export function shortenId(id) {
  return id.length > 20 ? id.slice(0, 12) : id;
}

/** Describes a configuration value by the unit in its key: 604800000 ms is 7 d. Empty if the value is clear by itself. */
export function describeSetting(key, value) {
  if (!/^\d{4,15}$/.test(value)) return "";
  if (key.endsWith(".ms")) return formatDuration(Number(value));
  return key.endsWith(".bytes") ? formatBytes(value) : "";
}

/** Makes the first letter a capital. */
export function capitalize(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Turns an identifier into words: validation_failed becomes "validation failed". */
export function splitWords(name) {
  return name.replaceAll("_", " ");
}
