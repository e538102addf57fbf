// Starts the page: header, routes, and a refresh every 30 seconds while the page is visible.

import { initActions } from "./actions.js";
import { buildAirflowUrl, interceptLinks, isFramed, navigateParent } from "./airflow-frame.js";
import { alertCount, refreshAlertCount } from "./alert-count.js";
import { ApiError, fetchJson } from "./api.js";
import { createErrorMessage, createLink, createSkeleton } from "./components.js";
import { h, updateChildren } from "./dom.js";
import { createIcon } from "./icons.js";
import { buildHash, parseRoute, startRouter } from "./router.js";
import * as theme from "./theme.js";
import { watchTimeZone } from "./time-zone.js";
import * as tooltip from "./tooltip.js";
import { createAlertsView } from "./views/alerts/alerts.js";
import { createAuditView } from "./views/audit.js";
import { createOverviewView } from "./views/overview/overview.js";
import { createQualityView } from "./views/quality.js";
import { createRunView } from "./views/run/run.js";
import { createRunsView } from "./views/runs.js";
import { createTopicView } from "./views/topic/topic.js";
import { createTopicsView } from "./views/topics/topics.js";

const REFRESH_INTERVAL_MS = 30_000;
const LOOK_INTERVAL_MS = 2_000;
const SECTIONS = [
  ["overview", "Overview"],
  ["topics", "Topics"],
  ["runs", "Runs"],
  ["alerts", "Alerts"],
  ["quality", "Quality"],
];

/** Views that Airflow shows in its own tabs, so they have no header. */
const SECTIONS_WITHOUT_HEADER = ["dags", "dag-runs"];

const main = document.getElementById("main");
const bar = document.getElementById("bar");
let shown = { path: null, view: null };
let me = null;

function createView([first, second, third]) {
  if (first === "overview") return createOverviewView();
  if (first === "topics") return second ? createTopicView(second) : createTopicsView();
  if (first === "runs") return second ? createRunView(second) : createRunsView();
  if (first === "alerts") return createAlertsView();
  if (first === "audit") return createAuditView();
  if (first === "quality") return createQualityView();
  if (first === "dags") return createRunsView({ dagId: second });
  if (first === "dag-runs") return createRunsView({ dagId: second, dagRunId: third });
  return null;
}

function showRoute({ segments }) {
  const isTopic = segments[0] === "topics" && segments.length > 1;
  const path = JSON.stringify(isTopic ? segments.slice(0, 2) : segments);
  if (path !== shown.path) {
    shown.view?.stop();
    shown = { path, view: createView(segments) };
    renderHeader(segments[0]);
    if (!shown.view) return showNotFound();
    document.title = `${shown.view.title} · Winnow`;
    updateChildren(main, shown.view.element);
    scrollTo(0, 0);
  }
  return updateView();
}

/** Loads the data of the present route again. */
function updateView() {
  const { segments, query } = parseRoute();
  return shown.view?.update(query, segments[2]);
}

function showNotFound() {
  updateChildren(
    main,
    createErrorMessage(new ApiError("There is no such page.", { next: "Go to the list of topics." })),
    h("p", {}, createLink(buildHash(["topics"]), "See the topics")),
  );
}

function isInUse() {
  const typing = document.activeElement?.matches("input, textarea, select");
  return document.hidden || document.querySelector("dialog[open]") || typing || getSelection()?.toString();
}

function refreshView() {
  if (isInUse()) return;
  updateView();
  refreshAlertCount();
}

let isLooking = false;

/** Refreshes a view at once that says that something moved; a view without such a question waits for the next refresh. */
async function lookForChange() {
  const { view } = shown;
  if (isLooking || document.hidden || !view?.hasChanged) return;
  isLooking = true;
  const hasChanged = await view.hasChanged();
  isLooking = false;
  if (hasChanged && shown.view === view && !isInUse()) updateView();
}

function renderHeader(first) {
  bar.hidden = SECTIONS_WITHOUT_HEADER.includes(first);
  const tools = [
    h(
      "button",
      {
        type: "button",
        class: "button ghost",
        "aria-label": "Refresh",
        "data-tip": "Refresh (automatic every 30 s)",
        "data-key": "refresh",
        on: { click: updateView },
      },
      createIcon("refresh"),
    ),
    isFramed
      ? h(
          "button",
          {
            type: "button",
            class: "button ghost",
            "aria-label": "Open in a new tab",
            "data-tip": "Open in a new tab",
            "data-key": "own",
            on: { click: () => navigateParent(location.href, { newTab: true }) },
          },
          createIcon("external"),
        )
      : h(
          "button",
          {
            type: "button",
            class: "button ghost",
            "aria-label": "Switch theme",
            "data-tip": "Switch between light and dark theme, in Airflow too",
            "data-key": "theme",
            on: { click: theme.toggleTheme },
          },
          createIcon("sun"),
          createIcon("moon"),
        ),
  ];
  updateChildren(
    bar,
    isFramed
      ? null
      : h(
          "a",
          { class: "brand", href: buildAirflowUrl(""), "data-tip": "Back to Airflow" },
          h("img", { src: "static/icon.svg", alt: "", class: "only-light" }),
          h("img", { src: "static/icon-dark.svg", alt: "", class: "only-dark" }),
          "Winnow",
        ),
    h(
      "nav",
      { class: "tabs", "aria-label": "Winnow" },
      SECTIONS.map(([name, label]) =>
        h(
          "a",
          { href: buildHash([name]), "aria-current": first === name ? "page" : null, "data-key": `tab-${name}` },
          label,
          name === "alerts" ? alertCount : null,
        ),
      ),
    ),
    h("div", { class: "bar-end" }, !isFramed && me ? h("span", { class: "quiet" }, me.user) : null, tools),
  );
}

function handleKey(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  if (!shown.view?.focusSearch) return;
  event.preventDefault();
  shown.view.focusSearch();
}

async function startPage() {
  theme.watchTheme();
  watchTimeZone(updateView);
  tooltip.startTooltips();
  interceptLinks();
  document.getElementById("skip").addEventListener("click", () => main.focus());
  document.addEventListener("keydown", handleKey);
  renderHeader(parseRoute().segments[0] ?? "overview");
  updateChildren(main, createSkeleton(16));
  try {
    me = await fetchJson("me");
  } catch (error) {
    updateChildren(
      main,
      createErrorMessage(error, () => location.reload()),
    );
    return;
  }
  initActions(me, updateView);
  startRouter(showRoute);
  refreshAlertCount();
  setInterval(refreshView, REFRESH_INTERVAL_MS);
  setInterval(lookForChange, LOOK_INTERVAL_MS);
}

startPage();
