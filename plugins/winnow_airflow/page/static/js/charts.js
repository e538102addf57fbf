// Bar charts as inline SVG, drawn to the available width: one stack of bars per run or day, each reachable by keyboard.

import { h, s } from "./dom.js";
import { attachTooltip } from "./tooltip.js";

const LEFT = 64;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 22;
/** Room that the label of a column needs. */
const LABEL_ROOM_PX = 84;

/**
 * Rounds ``value`` up to a number whose half is round too, in steps of ``base`` (10, or 1024 for bytes). ``units``: where
 * numbers have names for more than their powers, such as the 60 000 ms of a minute, the smallest first.
 */
export function roundUpAxis(value, base, units = []) {
  const named = units.findLast((each) => value >= each);
  if (named) return roundUpAxis(value / named, base) * named;
  if (value <= 0) return 1;
  const unit = base ** Math.floor(Math.log(value) / Math.log(base));
  const steps =
    base === 10
      ? [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10]
      : [1, 2, 4, 6, 8, 10, 16, 20, 32, 40, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024];
  return Math.max(1, (steps.find((step) => step * unit >= value) ?? base) * unit);
}

/**
 * Creates a chart. ``columns``: [{key, label, stacks: [[{kind, value}], …], mark, href, description, tip()}]. Several stacks of
 * a column are drawn side by side. ``format`` writes the values of the axis.
 */
export function createBarChart({
  title,
  columns,
  format,
  base = 10,
  units,
  height = 150,
  legend = [],
  labelRoom = LABEL_ROOM_PX,
}) {
  const holder = h("div", { class: "plot-canvas" });
  const draw = (width) =>
    holder.replaceChildren(drawChart({ title, columns, format, base, units, height, labelRoom, width }));
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width > LEFT + RIGHT && holder.dataset.width !== String(width)) {
      holder.dataset.width = String(width);
      draw(width);
    }
  }).observe(holder);
  return h(
    "figure",
    { class: "plot" },
    h("figcaption", {}, h("span", { class: "plot-title" }, title), createLegend(legend)),
    holder,
  );
}

function createLegend(legend) {
  return h(
    "ul",
    { class: "legend" },
    legend.map(([kind, label]) =>
      h(
        "li",
        {},
        s(
          "svg",
          { class: "swatch", viewBox: "0 0 12 12", "aria-hidden": "true" },
          s("rect", { class: `bar-${kind}`, width: 12, height: 12 }),
        ),
        label,
      ),
    ),
  );
}

function drawChart({ title, columns, format, base, units, height, labelRoom, width }) {
  const most = Math.max(
    0,
    ...columns.flatMap((column) => column.stacks.map((stack) => stack.reduce((sum, { value }) => sum + value, 0))),
  );
  const ceiling = roundUpAxis(most, base, units);
  const inner = height - TOP - BOTTOM;
  const y = (value) => TOP + inner - (inner * value) / ceiling;
  const step = (width - LEFT - RIGHT) / Math.max(1, columns.length);
  const grid = [0, 0.5, 1].map((share) => {
    const value = ceiling * share;
    return [
      s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }),
      s(
        "text",
        { class: "axis", x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" },
        Number.isInteger(value) || base !== 10 || units ? format(value).replace(/\.0+(?=\D)/, "") : "",
      ),
    ];
  });
  const every = Math.max(1, Math.ceil(labelRoom / step));
  const bars = columns.map((column, index) => drawColumn(column, LEFT + step * index, step, y, height));
  const labels = columns.map((column, index) => {
    // Counted from the newest, so that the last column always has its label.
    if ((columns.length - 1 - index) % every !== 0) return null;
    const x = LEFT + step * (index + 0.5);
    const anchor = x > width - labelRoom / 2 ? "end" : x < LEFT + labelRoom / 2 ? "start" : "middle";
    return s(
      "text",
      { class: "axis", x: anchor === "end" ? width - RIGHT : x, y: height - 6, "text-anchor": anchor },
      column.label,
    );
  });
  return s(
    "svg",
    { class: "plot-svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": title },
    grid,
    bars,
    labels,
  );
}

function drawColumn(column, x, step, y, height) {
  const gap = Math.min(8, step * 0.24);
  const room = Math.min(step - gap, 56);
  const begin = x + (step - room) / 2;
  const each = room / column.stacks.length;
  const rects = column.stacks.flatMap((stack, at) => {
    let sum = 0;
    return stack
      .filter(({ value }) => value > 0)
      .map(({ kind, value }) => {
        const bottom = y(sum);
        sum += value;
        const top = y(sum);
        return s("rect", {
          class: `bar-${kind}`,
          x: begin + each * at,
          y: Math.min(top, bottom - 1),
          width: Math.max(1, each - (column.stacks.length > 1 ? 1 : 0)),
          height: Math.max(1, bottom - top),
        });
      });
  });
  const mark = column.mark ? s("path", { class: "bar-mark", d: buildCrossPath(x + step / 2, y(0) - 8) }) : null;
  const hit = s("rect", { class: "bar-hit", x, y: TOP, width: step, height: height - TOP - BOTTOM });
  const attributes = { class: "bar-group", "aria-label": column.description, "data-key": column.key };
  const group = column.href
    ? s("a", { ...attributes, href: column.href }, hit, rects, mark)
    : s("g", { ...attributes, role: "img", tabindex: "0" }, hit, rects, mark);
  return column.tip ? attachTooltip(group, column.tip) : group;
}

function buildCrossPath(x, y) {
  return `M${x - 3.5} ${y - 3.5}l7 7M${x + 3.5} ${y - 3.5}l-7 7`;
}

/** Creates a row of small bars, one per day, scaled to ``most``. */
export function createSparkline(values, most, description) {
  const width = 100 / Math.max(1, values.length);
  return s(
    "svg",
    { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img", "aria-label": description },
    s("line", { class: "grid", x1: 0, x2: 100, y1: 19.5, y2: 19.5 }),
    values.map((value, index) =>
      value
        ? s("rect", {
            class: "bar-failed",
            x: index * width + width * 0.15,
            width: width * 0.7,
            y: 20 - Math.max(3, (19 * value) / most),
            height: Math.max(3, (19 * value) / most),
          })
        : null,
    ),
  );
}
