// A dialog that says what will happen before it happens. The browser's dialog element keeps the focus and closes on Escape.

import { createButton } from "./components.js";
import { createId, h } from "./dom.js";

/**
 * Opens a dialog; ``confirm`` runs when it is accepted. If that fails, the dialog stays open and shows the reason. It cannot
 * be accepted before ``ready`` has resolved to true.
 */
export function openDialog({
  title,
  body,
  confirmLabel,
  confirm,
  kind = "solid",
  wide = false,
  dismissLabel = "Cancel",
  ready = null,
}) {
  const head = createId("dialog");
  const refusal = h("p", { class: "dialog-refusal", role: "alert", hidden: true });
  const close = () => dialog.close();
  const agree = h("button", { type: "submit", class: `button ${kind}` }, confirmLabel);
  const form = h(
    "form",
    { method: "dialog", on: { submit: send } },
    h("h2", { id: head }, title),
    h("div", { class: "dialog-body" }, body),
    refusal,
    h("div", { class: "dialog-buttons" }, createButton(dismissLabel, { onPress: close }), agree),
  );
  const dialog = h(
    "dialog",
    { class: `dialog${wide ? " is-wide" : ""}`, "aria-labelledby": head, on: { close: () => dialog.remove() } },
    form,
  );

  async function send(event) {
    event.preventDefault();
    if (agree.getAttribute("aria-disabled") === "true") return;
    agree.setAttribute("aria-disabled", "true");
    refusal.hidden = true;
    try {
      await confirm(new FormData(form));
      close();
    } catch (error) {
      refusal.textContent = [error.message, error.next].filter(Boolean).join(" ");
      refusal.hidden = false;
      agree.removeAttribute("aria-disabled");
    }
  }

  if (ready) {
    agree.setAttribute("aria-disabled", "true");
    ready.then((isReady) => isReady && agree.removeAttribute("aria-disabled"));
  }
  document.body.append(dialog);
  dialog.showModal();
  (form.querySelector("[autofocus]") ?? agree).focus();
  return dialog;
}
