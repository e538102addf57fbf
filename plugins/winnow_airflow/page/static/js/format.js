// Numbers and times as words. Times are UTC; offsets arrive as text, since they may be larger than 2^53.

const NARROW = "\u202f";
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export const EMPTY_VALUE = "–";

/** 1 234 567, whatever the size. */
export function formatCount(value) {
  if (value === null || value === undefined) return EMPTY_VALUE;
  return BigInt(value)
    .toString()
    .replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);
}

/** ``count`` with its noun: 1 topic, 2 topics. */
export function formatCountWithNoun(value, noun, plural = `${noun}s`) {
  return `${formatCount(value)} ${Number(value) === 1 ? noun : plural}`;
}

/** Three digits and a binary unit: 1.24 GiB. */
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

/** A share of one: 63%; what is neither none nor all is never shown as either. */
export function formatPercent(share) {
  if (share === null || share === undefined) return EMPTY_VALUE;
  const whole = Math.round(share * 100);
  if (whole === 0 && share > 0) return "<1%";
  if (whole === 100 && share < 1) return ">99%";
  return `${whole}%`;
}

/** A deviation from what was expected: +4%, −2%, ±0%. */
export function formatDeviation(actual, expected) {
  if (expected === null || expected === undefined) return EMPTY_VALUE;
  if (expected === 0) return actual === 0 ? "±0%" : EMPTY_VALUE;
  const share = Math.round(((actual - expected) / expected) * 100);
  return share === 0 ? "±0%" : `${share > 0 ? "+" : "−"}${Math.abs(share)}%`;
}

/** A length of time in at most two units: 3 h 20 min. */
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

/** Seconds with the digits that matter: 0.42 s, 8.1 s, 3 min 5 s. */
export function formatSeconds(value) {
  if (value === null || value === undefined) return EMPTY_VALUE;
  if (value >= 60) return formatDuration(value * SECOND);
  return `${value.toFixed(value >= 10 ? 0 : value >= 1 ? 1 : 2)}${NARROW}s`;
}

/** A length of time as people say it of what is not now: nobody counts the seconds. */
function formatRoughDuration(ms) {
  return ms < MINUTE ? formatDuration(ms) : ms < HOUR ? `${Math.floor(ms / MINUTE)}${NARROW}min` : formatDuration(ms);
}

/** How long ago: 5 min ago. */
export function formatAge(ms, nowMs) {
  if (ms === null || ms === undefined) return "never";
  const past = nowMs - ms;
  if (past < 0) return `in ${formatRoughDuration(-past)}`;
  return past < 5 * SECOND ? "just now" : `${formatRoughDuration(past)} ago`;
}

/** When something is due: in 3 h 20 min, overdue by 3 h. */
export function formatDeadline(ms, nowMs) {
  if (ms === null || ms === undefined) return "none";
  return ms < nowMs ? `overdue by ${formatRoughDuration(nowMs - ms)}` : `in ${formatRoughDuration(ms - nowMs)}`;
}

/** 2026-11-21 19:45:03 UTC. */
export function formatUtc(ms) {
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** 2026-11-21. */
export function formatDay(ms) {
  return new Date(ms).toISOString().slice(0, 10);
}

/** Nov 21. */
export function formatShortDay(ms) {
  return new Date(ms).toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" });
}

/** A plan's id, short enough for a table. */
export function shortenId(id) {
  return id.length > 20 ? id.slice(0, 12) : id;
}

/** What a configuration value means in the unit that its key names: 604800000 ms are 7 d. Empty where it says enough. */
export function describeSetting(key, value) {
  if (!/^\d{4,15}$/.test(value)) return "";
  if (key.endsWith(".ms")) return formatDuration(Number(value));
  return key.endsWith(".bytes") ? formatBytes(value) : "";
}

/** A sentence begins with a capital letter. */
export function capitalize(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** validation_failed as words: validation failed. */
export function splitWords(name) {
  return name.replaceAll("_", " ");
}
