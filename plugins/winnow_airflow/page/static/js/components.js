// Small components that all views share: times, bars, buttons, figures, callouts, empty states, errors.

import { buildAirflowUrl, navigateParent } from "./airflow-frame.js";
import { getServerTimeMs } from "./api.js";
import { h } from "./dom.js";
import { EMPTY_VALUE, formatAge, formatDeadline, formatPercent, formatRemainingTime } from "./format.js";
import { createIcon } from "./icons.js";
import { formatInstant } from "./time-zone.js";

function createTime(ms, text, extra = "") {
  return h("time", { datetime: new Date(ms).toISOString(), "data-tip": formatInstant(ms), class: extra }, text);
}

/** Creates the age of something, with the absolute time on hover. */
export function createAge(ms) {
  return ms === null || ms === undefined
    ? h("span", { class: "quiet" }, "never")
    : createTime(ms, formatAge(ms, getServerTimeMs()));
}

/** Creates the time to a compaction deadline; a missed deadline stands out. */
export function createDeadline(ms) {
  if (ms === null || ms === undefined)
    return h(
      "span",
      { class: "quiet", "data-tip": "No deadline: nothing is dirty, or max.compaction.lag.ms is not set" },
      EMPTY_VALUE,
    );
  return createTime(ms, formatDeadline(ms, getServerTimeMs()), ms < getServerTimeMs() ? "late" : "");
}

/** Creates a past or future instant in words: in 2 h, 5 min ago. */
export function createInstant(ms) {
  return ms === null || ms === undefined
    ? h("span", { class: "quiet" }, EMPTY_VALUE)
    : createTime(ms, formatAge(ms, getServerTimeMs()));
}

/** Creates how long something still holds: for 6 d 3 h, with its end on hover. */
export function createRemainingTime(ms) {
  return createTime(ms, formatRemainingTime(ms, getServerTimeMs()));
}

/** Creates the time of the next attempt: in 2 h, or "by the next run" if that time has passed. */
export function createNextAttempt(ms) {
  return ms !== null && ms <= getServerTimeMs()
    ? h("span", { "data-tip": `Since ${formatInstant(ms)}` }, "by the next run")
    : createInstant(ms);
}

/** Creates the dirty ratio as a bar with the threshold as a tick. */
export function createRatioBar(ratio, threshold) {
  const above = ratio > threshold;
  const description = `Dirty ratio ${formatPercent(ratio)}, threshold ${formatPercent(threshold)}: ${above ? "above" : "not above"}`;
  return h(
    "span",
    { class: "ratio", "data-tip": description },
    h(
      "span",
      {
        class: `ratio-bar${above ? " is-above" : ""}`,
        vars: { "--share": String(Math.min(1, ratio)), "--threshold": String(Math.min(1, threshold)) },
        "aria-hidden": "true",
      },
      h("span", { class: "ratio-fill" }),
      h("span", { class: "ratio-tick" }),
    ),
    h(
      "span",
      { class: "ratio-text" },
      formatPercent(ratio),
      h("span", { class: "unseen" }, `, threshold ${formatPercent(threshold)}`),
    ),
  );
}

/** Creates a link within the page. */
export function createLink(hash, ...children) {
  return h("a", { href: hash }, children);
}

/** Creates a link to another page of Airflow. */
export function createAirflowLink(path, ...children) {
  return h("a", { href: buildAirflowUrl(path), "data-leave": true }, children);
}

/** Builds the URL of a page of the Data Docs. */
export function buildDataDocsUrl(path) {
  return `data-docs/${path}`;
}

/** Creates a link that opens in a new tab. */
export function createDocumentLink(href, ...children) {
  return h(
    "a",
    { href, target: "_blank", rel: "noopener", "data-leave": true, class: "outward" },
    children,
    createIcon("external"),
  );
}

/** Creates a button. A disabled one says why, and can still be focused so that the reason can be read. */
export function createButton(label, { onPress, shape, kind = "", disabledReason = "", key, name } = {}) {
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}`,
      "data-key": key,
      "aria-label": name,
      "aria-disabled": disabledReason ? "true" : null,
      "data-tip": disabledReason || null,
      on: { click: () => !disabledReason && onPress() },
    },
    shape ? createIcon(shape) : null,
    label ? h("span", {}, label) : null,
  );
}

/** Creates one key figure with its name. */
export function createFigure(name, value, note) {
  return h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null));
}

/** Creates a section of a view with its heading. */
export function createSection(title, { tools, note, id } = {}, ...children) {
  return h(
    "section",
    { class: "section", "aria-label": title, id },
    h(
      "div",
      { class: "section-head" },
      h("h2", {}, title),
      note ? h("p", { class: "quiet" }, note) : null,
      tools ?? null,
    ),
    children,
  );
}

/** Creates a box with a statement and what follows from it. */
export function createCallout(kind, title, ...children) {
  return h(
    "div",
    { class: `callout is-${kind}`, role: kind === "uncleanable" || kind === "overdue" ? "alert" : "note" },
    createIcon(kind),
    h("div", {}, h("p", { class: "callout-title" }, title), children),
  );
}

/** Creates a message for an empty list that says how it fills. */
export function createEmptyState(title, ...children) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), children);
}

/** Creates a block with commands to type, and a button that copies them. */
export function createCommand(text) {
  return h("div", { class: "command" }, h("pre", {}, h("code", {}, text)), createCopyButton(text, "the commands"));
}

/** Creates an error message with what to do about it. */
export function createErrorMessage(error, retry) {
  const login = () =>
    navigateParent(buildAirflowUrl(`api/v2/auth/login?next=${encodeURIComponent(top.location.href)}`));
  return createCallout(
    "uncleanable",
    error.message,
    error.next ? h("p", {}, error.next) : null,
    h(
      "p",
      { class: "row" },
      error.login ? createButton("Log in", { onPress: login, kind: "solid" }) : null,
      retry && !error.login ? createButton("Try again", { onPress: retry, shape: "refresh" }) : null,
    ),
  );
}

/** Creates grey lines as a placeholder while content loads. */
export function createSkeleton(lines = 6) {
  return h(
    "div",
    { class: "skeleton", "aria-hidden": "true" },
    Array.from({ length: lines }, () => h("span", {})),
  );
}

/** Creates text that a click copies; ``shown`` stands for it where it is too long. */
export function createCopyable(text, shown = text) {
  return h("span", { class: "copyable" }, h("code", {}, shown), createCopyButton(text));
}

function createCopyButton(text, name = text) {
  const press = async () => {
    await navigator.clipboard?.writeText(text).catch(() => null);
  };
  return h(
    "button",
    {
      type: "button",
      class: "button ghost small",
      "aria-label": `Copy ${name}`,
      "data-tip": "Copy",
      on: { click: press },
    },
    createIcon("copy"),
  );
}

/** Creates the breadcrumb navigation. */
export function createBreadcrumbs(...links) {
  return h(
    "nav",
    { class: "crumbs", "aria-label": "Breadcrumb" },
    h(
      "ol",
      {},
      links.map((each) => h("li", {}, each)),
    ),
  );
}
