// Icons of 16 by 16 pixels, drawn with strokes in the colour of the text.

import { s } from "./dom.js";

const PATHS = {
  healthy: ["M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z", "M5.3 8.2l1.9 1.9 3.6-4"],
  due: ["M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z", "M8 4.6V8l2.3 1.5"],
  overdue: ["M8 2 14.4 13.4H1.6Z", "M8 6.4v3.2", "M8 11.6h.01"],
  uncleanable: ["M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4Z", "M5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2"],
  paused: ["M3.2 2.4h9.6v11.2H3.2Z", "M6.4 5.6v4.8M9.6 5.6v4.8"],
  running: ["M8 1.8a6.2 6.2 0 1 1-6 4.6", "M8 4.6V8l2.3 1.5"],
  pending: ["M8 3.4a4.6 4.6 0 1 0 0 9.2A4.6 4.6 0 0 0 8 3.4Z"],
  unknown: [
    "M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z",
    "M6.1 6.2a1.9 1.9 0 1 1 2.6 1.8c-.5.2-.7.5-.7 1",
    "M8 11.4h.01",
  ],
  void: ["M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8Z", "M3.7 12.3l8.6-8.6"],
  search: ["M7 2.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6Z", "M10.6 10.6l3.2 3.2"],
  refresh: ["M13.4 8a5.4 5.4 0 1 1-1.6-3.8", "M13.6 1.8v3h-3"],
  external: ["M9.4 2.4h4.2v4.2", "M13.4 2.6 7.6 8.4", "M11.6 9.4v4.2H2.4V4.4h4.2"],
  sun: [
    "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6Z",
    "M8 1.2v1.4M8 13.4v1.4M1.2 8h1.4M13.4 8h1.4M3.2 3.2l1 1M11.8 11.8l1 1M3.2 12.8l1-1M11.8 4.2l1-1",
  ],
  moon: ["M13.4 9.4A5.8 5.8 0 0 1 6.6 2.6a5.8 5.8 0 1 0 6.8 6.8Z"],
  play: ["M4.4 2.6v10.8l8.6-5.4Z"],
  pause: ["M5 3v10M11 3v10"],
  release: ["M3.4 7.2h9.2v6.4H3.4Z", "M5.4 7.2V4.8a2.6 2.6 0 0 1 5-1"],
  download: ["M8 2.4v7.2", "M4.8 6.6 8 9.8l3.2-3.2", "M2.6 13.4h10.8"],
  close: ["M3.6 3.6l8.8 8.8M12.4 3.6l-8.8 8.8"],
  copy: ["M5.6 5.6h8v8h-8Z", "M10.4 5.4V2.4h-8v8h3"],
  up: ["M8 13V3M4 7l4-4 4 4"],
  down: ["M8 3v10M4 9l4 4 4-4"],
  both: ["M5 6l3-3 3 3M5 10l3 3 3-3"],
  left: ["M10 3L5 8l5 5"],
  right: ["M6 3l5 5-5 5"],
};

/** Creates an icon. It is hidden from screen readers, so text must stand beside it. */
export function createIcon(name) {
  return s(
    "svg",
    { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" },
    (PATHS[name] ?? []).map((d) => s("path", { d })),
  );
}
