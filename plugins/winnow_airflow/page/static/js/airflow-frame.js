// Living inside Airflow's frame. Its sandbox gives scripts and this origin, but neither popups nor the parent's location:
// so links out of the frame are followed in the parent's document, and the parent learns of the route by a "load" event.

/** Whether this page stands inside Airflow's UI. */
export const isFramed = window.parent !== window;

/** The root of Airflow, with its path when it does not live at the root of the host. */
const airflowRoot = new URL("../", new URL(".", document.baseURI)).href;

/** The absolute address of something of Airflow's: ``airflow("dags/compact_topics")``. */
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

/** Open an address outside the frame, in this tab or a new one. */
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

/** Let Airflow write the route into the address bar: it reads the frame's location whenever the frame has loaded. */
export function notifyParentOfRoute() {
  if (!isFramed) return;
  try {
    window.frameElement?.dispatchEvent(new Event("load"));
  } catch {
    // A parent of another origin cannot know.
  }
}

/** Make links that leave the frame work in its sandbox. */
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
