// The page: its frame, its routes, and looking again while somebody looks.

import { prepare } from "./actions.js";
import { get, Problem } from "./api.js";
import { h, replace } from "./dom.js";
import { airflow, catchLinks, isFramed, leave } from "./frame.js";
import { icon } from "./icons.js";
import { link, problem, skeleton } from "./parts.js";
import { hashOf, here, start } from "./router.js";
import * as theme from "./theme.js";
import * as tooltip from "./tooltip.js";
import { quality } from "./views/quality.js";
import { run } from "./views/run.js";
import { runs } from "./views/runs.js";
import { topic } from "./views/topic.js";
import { topics } from "./views/topics.js";

const LOOK_AGAIN_MS = 30_000;
const SECTIONS = [
  ["topics", "Topics"],
  ["runs", "Runs"],
  ["quality", "Quality"],
];

/** What stands inside Airflow's own tabs has no header of its own. */
const BARE = ["dags", "dag-runs"];

const main = document.getElementById("main");
const bar = document.getElementById("bar");
let shown = { path: null, view: null };
let me = null;

function viewOf([first, second, third]) {
  if (first === "topics") return second ? topic(second) : topics();
  if (first === "runs") return second ? run(second) : runs();
  if (first === "quality") return quality();
  if (first === "dags") return runs({ dagId: second });
  if (first === "dag-runs") return runs({ dagId: second, dagRunId: third });
  return null;
}

function show({ segments, query }) {
  const path = JSON.stringify(segments);
  if (path !== shown.path) {
    shown.view?.stop();
    shown = { path, view: viewOf(segments) };
    drawBar(segments[0]);
    if (!shown.view) return notHere();
    document.title = `${shown.view.title} · Winnow`;
    replace(main, shown.view.element);
    scrollTo(0, 0);
  }
  return shown.view?.update(query);
}

function notHere() {
  replace(
    main,
    problem(new Problem("There is no such page.", { next: "The topics are the way in." })),
    h("p", {}, link(hashOf(["topics"]), "See the topics")),
  );
}

function lookAgain() {
  const typing = document.activeElement?.matches("input, textarea, select");
  if (document.hidden || document.querySelector("dialog[open]") || typing || getSelection()?.toString()) return;
  shown.view?.update(here().query);
}

function drawBar(first) {
  bar.hidden = BARE.includes(first);
  const tools = [
    h(
      "button",
      {
        type: "button",
        class: "button ghost",
        "aria-label": "Refresh",
        "data-tip": "Look again (it does by itself every 30 s)",
        "data-key": "refresh",
        on: { click: () => shown.view?.update(here().query) },
      },
      icon("refresh"),
    ),
    isFramed
      ? h(
          "button",
          {
            type: "button",
            class: "button ghost",
            "aria-label": "Open on its own",
            "data-tip": "Open on its own, in a new tab",
            "data-key": "own",
            on: { click: () => leave(location.href, { newTab: true }) },
          },
          icon("external"),
        )
      : h(
          "button",
          {
            type: "button",
            class: "button ghost",
            "aria-label": "Light or dark",
            "data-tip": "Light or dark, for Airflow too",
            "data-key": "theme",
            on: { click: theme.toggle },
          },
          icon("sun"),
          icon("moon"),
        ),
  ];
  replace(
    bar,
    isFramed
      ? null
      : h(
          "a",
          { class: "brand", href: airflow(""), "data-tip": "To Airflow" },
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
          { href: hashOf([name]), "aria-current": first === name ? "page" : null, "data-key": `tab-${name}` },
          label,
        ),
      ),
    ),
    h("div", { class: "bar-end" }, !isFramed && me ? h("span", { class: "quiet" }, me.user) : null, tools),
  );
}

function keys(event) {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, textarea, select") || document.querySelector("dialog[open]")) return;
  if (!shown.view?.focusSearch) return;
  event.preventDefault();
  shown.view.focusSearch();
}

async function begin() {
  theme.follow();
  tooltip.start();
  catchLinks();
  document.getElementById("skip").addEventListener("click", () => main.focus());
  document.addEventListener("keydown", keys);
  drawBar(here().segments[0] ?? "topics");
  replace(main, skeleton(16));
  try {
    me = await get("me");
  } catch (error) {
    replace(
      main,
      problem(error, () => location.reload()),
    );
    return;
  }
  prepare(me, () => shown.view?.update(here().query));
  start(show);
  setInterval(lookAgain, LOOK_AGAIN_MS);
}

begin();
