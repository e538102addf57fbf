// Creates elements by calls: data becomes text nodes and attributes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const OPENED = "details[open] > summary[data-key]";

function applyAttributes(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "vars") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  appendChildren(element, children);
  return element;
}

function appendChildren(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/** Creates an HTML element: ``h("a", {href}, "text", node)``; ``on`` takes listeners, ``vars`` custom properties. */
export function h(tag, attributes, ...children) {
  return applyAttributes(document.createElement(tag), attributes, children);
}

/** Creates an SVG element. */
export function s(tag, attributes, ...children) {
  return applyAttributes(document.createElementNS(SVG, tag), attributes, children);
}

/** Replaces the children of ``element``. By ``data-key``, the focus stays where it was and opened details stay open. */
export function updateChildren(element, ...children) {
  const held = element.contains(document.activeElement) ? document.activeElement : null;
  const key = held?.closest("[data-key]")?.dataset.key;
  const opened = new Set([...element.querySelectorAll(OPENED)].map((each) => each.dataset.key));
  element.replaceChildren();
  appendChildren(element, children);
  if (opened.size)
    for (const each of element.querySelectorAll("summary[data-key]"))
      if (opened.has(each.dataset.key)) each.parentElement.open = true;
  if (key) focusByKey(element, key);
  return element;
}

/** Moves the focus to the element with this ``data-key`` within ``element``, without scrolling; false if there is none. */
export function focusByKey(element, key) {
  const found = [...element.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
  found?.focus({ preventScroll: true });
  return Boolean(found);
}

/** Announces a sentence to screen readers. */
export function announceToScreenReader(sentence) {
  document.getElementById("live").textContent = sentence;
}

/** Lets a long name break after its separators first. */
export function insertBreakPoints(name) {
  return name.split(/(?<=[._-])/).flatMap((piece, index) => (index ? [h("wbr"), piece] : [piece]));
}

let numbers = 0;

/** Creates an id that is unique on the page. */
export function createId(prefix) {
  numbers += 1;
  return `${prefix}-${numbers}`;
}
