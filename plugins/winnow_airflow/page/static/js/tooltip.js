// The page's tooltip, by mouse and keyboard: for elements with ``data-tip`` or with content that a function builds.

import { h } from "./dom.js";

const GAP_PX = 8;
const box = h("div", { class: "tooltip", role: "tooltip", id: "tooltip", hidden: true });
const drawings = new WeakMap();
let owner = null;

/** Attaches a tooltip whose content is built when it is shown. */
export function attachTooltip(element, build) {
  drawings.set(element, build);
  element.dataset.tipped = "";
  return element;
}

function showTooltip(target) {
  const build = drawings.get(target);
  const content = build ? build() : target.dataset.tip;
  if (!content) return;
  owner = target;
  box.replaceChildren(content);
  box.hidden = false;
  target.setAttribute("aria-describedby", box.id);
  const around = target.getBoundingClientRect();
  const own = box.getBoundingClientRect();
  const left = Math.min(
    Math.max(GAP_PX, around.left + around.width / 2 - own.width / 2),
    innerWidth - own.width - GAP_PX,
  );
  const below = around.bottom + GAP_PX;
  const top = below + own.height > innerHeight ? Math.max(GAP_PX, around.top - own.height - GAP_PX) : below;
  box.style.setProperty("--left", `${Math.round(left)}px`);
  box.style.setProperty("--top", `${Math.round(top)}px`);
}

function hideTooltip() {
  owner?.removeAttribute("aria-describedby");
  owner = null;
  box.hidden = true;
}

function findTooltipTarget(event) {
  return event.target instanceof Element ? event.target.closest("[data-tip], [data-tipped]") : null;
}

/** Starts showing tooltips. An open dialog covers everything else, so the tooltip's box moves into it. */
export function startTooltips() {
  document.body.append(box);
  const enter = (event) => {
    const target = findTooltipTarget(event);
    if (target === owner) return;
    hideTooltip();
    if (!target) return;
    (target.closest("dialog") ?? document.body).append(box);
    showTooltip(target);
  };
  document.addEventListener("mouseover", enter);
  document.addEventListener("focusin", (event) => {
    if (event.target.matches(":focus-visible")) enter(event);
  });
  document.addEventListener("focusout", hideTooltip);
  document.addEventListener("scroll", hideTooltip, { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTooltip();
  });
}
