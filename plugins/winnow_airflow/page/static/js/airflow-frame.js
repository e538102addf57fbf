// The page inside Airflow's iframe. Its sandbox allows scripts and this origin, but no popups and no navigation of the parent.
// So links out of the frame are followed in the parent's document, and a "load" event tells the parent about a new route.

/** Whether this page is inside Airflow's UI. */
export const isFramed = window.parent !== window;

/** Airflow's root URL, with its path if Airflow is not at the root of the host. */
const airflowRoot = new URL("../", new URL(".", document.baseURI)).href;

/** Builds the absolute URL of an Airflow page: ``buildAirflowUrl("dags/compact_topics")``. */
export function buildAirflowUrl(path) {
  return new URL(path, airflowRoot).href;
}

function parentDocument() {
  if (!isFramed) return document;
  try {
    return window.parent.document;
  } catch {
    return document;
  }
}

/** Opens a URL outside the frame, in this tab or a new one. */
export function navigateParent(href, { newTab = false } = {}) {
  const owner = parentDocument();
  const link = owner.createElement("a");
  link.href = href;
  link.rel = "noopener";
  if (newTab) link.target = "_blank";
  owner.body.append(link);
  link.click();
  link.remove();
}

/** Lets Airflow write the route into the address bar: it reads the frame's location on each "load" event of the frame. */
export function notifyParentOfRoute() {
  if (!isFramed) return;
  try {
    window.frameElement?.dispatchEvent(new Event("load"));
  } catch {
    // A parent of another origin cannot be told.
  }
}

/** Makes links that leave the frame work in its sandbox. */
export function interceptLinks() {
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-leave]") : null;
    if (!link || event.defaultPrevented || event.button !== 0) return;
    const newTab = link.target === "_blank" || event.ctrlKey || event.metaKey || event.shiftKey;
    if (!isFramed && (newTab || event.altKey)) return;
    event.preventDefault();
    navigateParent(link.href, { newTab });
  });
}
