// A line chart as inline SVG, drawn to the available width. Arrow keys and the pointer move along it; the reading is text.

import { roundUpAxis } from "./charts.js";
import { h, s } from "./dom.js";
import { formatShortDay } from "./format.js";
import { formatInstant } from "./time-zone.js";

const LEFT = 64;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 22;
const DAY_MS = 86_400_000;
const MINIMUM_LABEL_DISTANCE_PX = 84;
const MINIMUM_TICK_DISTANCE_PX = 14;

/**
 * Creates a chart of one figure over time. ``points``: [{ms, value}], oldest first; a value of null interrupts the line.
 * ``format`` writes values; ``ceiling`` is the top of the axis, if it is fixed; ``lowest`` its bottom, 0 unless given.
 */
export function createLineChart({
  title,
  points,
  sinceMs,
  untilMs,
  format,
  base = 10,
  units,
  ceiling,
  height = 150,
  key,
}) {
  const known = points.filter(({ value }) => value !== null && value !== undefined);
  const last = known.at(-1);
  const reading = h("span", { class: "plot-reading" }, last ? describePoint(last, format) : "");
  const holder = h("div", {
    class: "plot-canvas line-canvas",
    role: "slider",
    tabindex: "0",
    "aria-label": `${title}, over time`,
    "aria-valuemin": 0,
    "aria-valuemax": Math.max(0, known.length - 1),
    "data-key": key,
  });
  const state = { at: known.length - 1, drawing: null };

  function show(index) {
    state.at = Math.min(Math.max(0, index), known.length - 1);
    const text = describePoint(known[state.at], format);
    reading.textContent = text;
    holder.setAttribute("aria-valuenow", String(state.at));
    holder.setAttribute("aria-valuetext", text);
    state.drawing?.mark(known[state.at]);
  }

  function draw(width) {
    state.drawing = drawChart({ points, known, sinceMs, untilMs, format, base, units, ceiling, height, width });
    holder.replaceChildren(state.drawing.svg);
    show(state.at);
  }

  if (known.length === 0) {
    holder.removeAttribute("role");
    holder.removeAttribute("tabindex");
    holder.append(h("p", { class: "quiet" }, "Nothing was recorded in this time."));
  } else {
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width > LEFT + RIGHT && holder.dataset.width !== String(width)) {
        holder.dataset.width = String(width);
        draw(width);
      }
    }).observe(holder);
    holder.addEventListener("pointermove", (event) => {
      const ms = state.drawing?.findTime(event.clientX - holder.getBoundingClientRect().left);
      if (ms !== undefined) show(findNearest(known, ms));
    });
    holder.addEventListener("pointerleave", () => show(known.length - 1));
    holder.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -24, PageDown: 24, Home: -known.length, End: known.length };
      if (!(event.key in step)) return;
      event.preventDefault();
      show(state.at + step[event.key]);
    });
  }
  return h(
    "figure",
    { class: "plot" },
    h("figcaption", {}, h("span", { class: "plot-title" }, title), reading),
    holder,
  );
}

function describePoint(point, format) {
  return `${format(point.value)} · ${formatInstant(point.ms).replace(/:\d\d /, " ")}`;
}

function findNearest(points, ms) {
  let nearest = 0;
  for (const [index, point] of points.entries())
    if (Math.abs(point.ms - ms) < Math.abs(points[nearest].ms - ms)) nearest = index;
  return nearest;
}

function drawChart({ points, known, sinceMs, untilMs, format, base, units, ceiling, height, width }) {
  const lowest = Math.min(0, ...known.map(({ value }) => value));
  const floor = lowest < 0 ? -roundUpAxis(-lowest, base, units) : 0;
  const top = ceiling ?? roundUpAxis(Math.max(0, ...known.map(({ value }) => value)), base, units);
  const inner = height - TOP - BOTTOM;
  const room = width - LEFT - RIGHT;
  const x = (ms) => LEFT + (room * (ms - sinceMs)) / Math.max(1, untilMs - sinceMs);
  const y = (value) => TOP + inner - (inner * (value - floor)) / Math.max(Number.MIN_VALUE, top - floor);
  const cursor = s("line", { class: "line-cursor", y1: TOP, y2: height - BOTTOM });
  const dot = s("circle", { class: "line-dot", r: 3.5 });
  const svg = s(
    "svg",
    { class: "plot-svg", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    listTicks(floor, top, y).map((value) => [
      s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      s(
        "text",
        { class: "axis", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" },
        format(value).replace(/\.0+(?=\D|$)/, ""),
      ),
    ]),
    drawDays(sinceMs, untilMs, x, height),
    s("path", { class: "line-path", d: buildPath(points, x, y) }),
    cursor,
    dot,
  );
  return {
    svg,
    findTime: (px) => sinceMs + ((px - LEFT) / Math.max(1, room)) * (untilMs - sinceMs),
    mark(point) {
      for (const name of ["x1", "x2"]) cursor.setAttribute(name, String(x(point.ms)));
      dot.setAttribute("cx", String(x(point.ms)));
      dot.setAttribute("cy", String(y(point.value)));
    },
  };
}

/** Lists the values at the axis; the lowest one only if its text has room below that of 0. */
function listTicks(floor, top, y) {
  if (floor === 0) return [0, top / 2, top];
  return y(floor) - y(0) < MINIMUM_TICK_DISTANCE_PX ? [0, top] : [floor, 0, top];
}

function drawDays(sinceMs, untilMs, x, height) {
  const days = Math.max(1, Math.round((untilMs - sinceMs) / DAY_MS));
  const perDay = x(sinceMs + DAY_MS) - x(sinceMs);
  const every = Math.max(1, Math.ceil(MINIMUM_LABEL_DISTANCE_PX / perDay));
  return Array.from({ length: days }, (_, index) => {
    // Counted from the newest, as in charts of bars.
    if ((days - 1 - index) % every !== 0) return null;
    const at = x(sinceMs + index * DAY_MS);
    const anchor = at < LEFT + MINIMUM_LABEL_DISTANCE_PX / 2 ? "start" : "middle";
    return s(
      "text",
      { class: "axis", x: at, y: height - 6, "text-anchor": anchor },
      formatShortDay(sinceMs + index * DAY_MS),
    );
  });
}

function buildPath(points, x, y) {
  let draws = false;
  const parts = [];
  for (const { ms, value } of points) {
    const has = value !== null && value !== undefined;
    if (has) parts.push(`${draws ? "L" : "M"}${x(ms).toFixed(1)} ${y(value).toFixed(1)}`);
    draws = has;
  }
  return parts.join("");
}
