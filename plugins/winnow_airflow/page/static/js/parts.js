// Small parts that every view is made of: times, bars, buttons, figures, callouts, and what stands in for an answer.

import { serverNow } from "./api.js";
import { h } from "./dom.js";
import { ago, deadline, NOTHING, percent, utc } from "./format.js";
import { airflow, leave } from "./frame.js";
import { icon } from "./icons.js";

function time(ms, text, extra = "") {
  return h("time", { datetime: new Date(ms).toISOString(), "data-tip": utc(ms), class: extra }, text);
}

/** How long ago something was, the absolute time on hover. */
export function since(ms) {
  return ms === null || ms === undefined ? h("span", { class: "quiet" }, "never") : time(ms, ago(ms, serverNow()));
}

/** The time to a compaction deadline; a passed one stands out. */
export function due(ms) {
  if (ms === null || ms === undefined)
    return h(
      "span",
      { class: "quiet", "data-tip": "No record waits: nothing is dirty, or no deadline is set" },
      NOTHING,
    );
  return time(ms, deadline(ms, serverNow()), ms < serverNow() ? "late" : "");
}

/** A future or past instant in words: in 2 h, 5 min ago. */
export function instant(ms) {
  return ms === null || ms === undefined ? h("span", { class: "quiet" }, NOTHING) : time(ms, ago(ms, serverNow()));
}

/** When a marked partition is tried again: in 2 h; once that has passed, by the run that comes next. */
export function nextAttempt(ms) {
  return ms !== null && ms <= serverNow()
    ? h("span", { "data-tip": `Since ${utc(ms)}` }, "by the next run")
    : instant(ms);
}

/** The dirty ratio as a bar with the threshold as a tick; above it compaction is worth while. */
export function ratioBar(ratio, threshold) {
  const above = ratio > threshold;
  const said = `Dirty ratio ${percent(ratio)}, threshold ${percent(threshold)}: ${above ? "above" : "not above"}`;
  return h(
    "span",
    { class: "ratio", "data-tip": said },
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
      percent(ratio),
      h("span", { class: "unseen" }, ` of at most ${percent(threshold)}`),
    ),
  );
}

/** A link within the page. */
export function link(hash, ...children) {
  return h("a", { href: hash }, children);
}

/** A link to another page of Airflow. */
export function airflowLink(path, ...children) {
  return h("a", { href: airflow(path), "data-leave": true }, children);
}

/** The address of a page of the Data Docs. */
export function dataDocs(path) {
  return `data-docs/${path}`;
}

/** A link that opens beside this page. */
export function documentLink(href, ...children) {
  return h(
    "a",
    { href, target: "_blank", rel: "noopener", "data-leave": true, class: "outward" },
    children,
    icon("external"),
  );
}

/** A button. One that may not be pressed says why, and stays reachable so that everybody can read it. */
export function button(label, { press, shape, kind = "", why = "", key, name } = {}) {
  return h(
    "button",
    {
      type: "button",
      class: `button ${kind}`,
      "data-key": key,
      "aria-label": name,
      "aria-disabled": why ? "true" : null,
      "data-tip": why || null,
      on: { click: () => !why && press() },
    },
    shape ? icon(shape) : null,
    label ? h("span", {}, label) : null,
  );
}

/** One key figure with its name. */
export function figure(name, value, note) {
  return h("div", { class: "figure" }, h("dt", {}, name), h("dd", {}, value, note ? h("small", {}, note) : null));
}

/** A part of a view with its heading. */
export function section(title, { tools, note, id } = {}, ...children) {
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

/** A box that says what is so and what follows from it. */
export function callout(kind, title, ...children) {
  return h(
    "div",
    { class: `callout is-${kind}`, role: kind === "uncleanable" || kind === "overdue" ? "alert" : "note" },
    icon(kind),
    h("div", {}, h("p", { class: "callout-title" }, title), children),
  );
}

/** An empty place that says how it fills. */
export function empty(title, ...children) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), children);
}

/** A command to type. */
export function command(text) {
  return h("pre", { class: "command" }, h("code", {}, text));
}

/** What went wrong and what to do about it. */
export function problem(error, retry) {
  const login = () => leave(airflow(`api/v2/auth/login?next=${encodeURIComponent(top.location.href)}`));
  return callout(
    "uncleanable",
    error.message,
    error.next ? h("p", {}, error.next) : null,
    h(
      "p",
      { class: "row" },
      error.login ? button("Log in", { press: login, kind: "solid" }) : null,
      retry && !error.login ? button("Try again", { press: retry, shape: "refresh" }) : null,
    ),
  );
}

/** Grey lines where an answer will be. */
export function skeleton(lines = 6) {
  return h(
    "div",
    { class: "skeleton", "aria-hidden": "true" },
    Array.from({ length: lines }, () => h("span", {})),
  );
}

/** Text that is copied by a click. */
export function copyable(text) {
  const press = async () => {
    await navigator.clipboard?.writeText(text).catch(() => null);
  };
  return h(
    "span",
    { class: "copyable" },
    h("code", {}, text),
    h(
      "button",
      {
        type: "button",
        class: "button ghost small",
        "aria-label": `Copy ${text}`,
        "data-tip": "Copy",
        on: { click: press },
      },
      icon("copy"),
    ),
  );
}

/** Where one is. */
export function crumbs(...links) {
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
