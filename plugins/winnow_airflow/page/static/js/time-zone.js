// The time zone of all times on the page: the one that is chosen in Airflow's UI, else the browser's.

const KEY = "timezone";
const OWN = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

function readChosen() {
  try {
    const stored = localStorage.getItem(KEY);
    return stored ? JSON.parse(stored) : OWN;
  } catch {
    return OWN;
  }
}

function createFormatter(timeZone) {
  return new Intl.DateTimeFormat("en-GB", {
    timeZone,
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    timeZoneName: "short",
  });
}

let chosen = OWN;
let formatter = null;

function getFormatter() {
  const wanted = readChosen();
  if (formatter && wanted === chosen) return formatter;
  try {
    formatter = createFormatter(wanted);
    chosen = wanted;
  } catch {
    // A name that this browser does not know.
    formatter = createFormatter("UTC");
    chosen = "UTC";
  }
  return formatter;
}

/** Formats an instant in that zone: 2026-11-21 20:45:03 CET. */
export function formatInstant(ms) {
  const parts = Object.fromEntries(
    getFormatter()
      .formatToParts(ms)
      .map(({ type, value }) => [type, value]),
  );
  const { year, month, day, hour, minute, second, timeZoneName } = parts;
  return `${year}-${month}-${day} ${hour}:${minute}:${second} ${timeZoneName}`;
}

/** Formats an instant in that zone to the minute, without its year: 11-21 20:45. */
export function formatShortInstant(ms) {
  return formatInstant(ms).slice(5, 16);
}

/** Reads a time of that zone, as a field for date and time has it (2026-11-21T20:45); null if there is none. */
export function parseInstant(text) {
  const wanted = Date.parse(`${text}Z`);
  if (Number.isNaN(wanted)) return null;
  // Twice, because the offset at the first guess may be that of the other side of a change of clocks.
  let ms = wanted;
  for (let round = 0; round < 2; round += 1) ms += wanted - readAsUtc(ms);
  return ms;
}

function readAsUtc(ms) {
  const parts = Object.fromEntries(
    getFormatter()
      .formatToParts(ms)
      .map(({ type, value }) => [type, Number(value)]),
  );
  return Date.UTC(parts.year, parts.month - 1, parts.day, parts.hour, parts.minute, parts.second);
}

/** Calls ``changed`` when another time zone is chosen in Airflow's UI. */
export function watchTimeZone(changed) {
  window.addEventListener("storage", (event) => {
    if (event.key === KEY || event.key === null) changed();
  });
}
