// Requests for erasures that take two persons: what was asked for, and what the other person says to it.

import { createEraseButton, openEraseDialog } from "../../actions.js";
import { encodePathPart, sendJson } from "../../api.js";
import { createInstant } from "../../components.js";
import { openDialog } from "../../dialog.js";
import { announceToScreenReader, h } from "../../dom.js";
import { formatBytes, formatCount, formatCountWithNoun, shortenId } from "../../format.js";
import { createReasonField } from "../../reason-field.js";
import { createTable } from "../../table.js";
import { formatInstant } from "../../time-zone.js";

/** Creates the table of ``requests``; ``done`` asks for them again. */
export function createRequestTable(topic, requests, done) {
  return createTable({
    caption: `Requests for erasures of ${topic}, newest first`,
    rows: requests,
    rowClass: (row) => (["pending", "approved"].includes(row.state) ? "is-tall" : "is-tall is-dim"),
    columns: [
      { key: "time", label: "Asked", heads: true, cell: (row) => createInstant(row.requested_at_ms) },
      { key: "who", label: "By", cell: (row) => row.requested_by },
      { key: "why", label: "Why", cell: (row) => h("span", { class: "clip", "data-tip": row.reason }, row.reason) },
      { key: "keys", label: "Keys", align: "right", cell: (row) => formatCount(row.keys) },
      { key: "records", label: "Records", align: "right", cell: (row) => formatCount(row.records) },
      { key: "state", label: "Request", cell: createStateCell },
      { key: "act", label: "", align: "right", cell: (row) => createRequestButtons(topic, row, done) },
    ],
  });
}

function createStateCell(row) {
  const by = row.decided_by ? ` by ${row.decided_by}` : "";
  return [
    h("div", {}, row.state === "used" ? "carried out" : row.state),
    by ? h("div", {}, h("small", {}, `${row.state === "used" ? "approved" : row.state}${by}`)) : null,
    row.erasure_id ? h("small", {}, `erasure ${shortenId(row.erasure_id)}`) : null,
  ];
}

function createRequestButtons(topic, row, done) {
  if (!["pending", "approved"].includes(row.state)) return null;
  const isPending = row.state === "pending";
  return h(
    "div",
    { class: "row" },
    isPending || row.keys_from
      ? createEraseButton(isPending ? "Approve…" : "Erase…", topic, {
          key: `approve-${row.request_id}`,
          kind: "small",
          disabledReason: isPending && row.own ? "You asked for it: another person approves it." : "",
          onPress: () => openApproval(topic, row, done),
        })
      : null,
    createEraseButton("Reject…", topic, {
      key: `reject-${row.request_id}`,
      kind: "small",
      onPress: () => openRejection(topic, row, done),
    }),
  );
}

function sendDecision(topic, row, verb, reason) {
  const path = `topics/${encodePathPart(topic)}/erasures/requests/${row.request_id}/${verb}`;
  return sendJson("POST", path, { plan_sha256: row.plan_sha256, reason });
}

/** Opens the dialog that approves a request and, where its keys are in a file, erases them by a DAG run. */
function openApproval(topic, row, done) {
  const isPending = row.state === "pending";
  const reason = createReasonField("In the audit log, with your name. Both names stand in the certificate.");
  const approve = () => sendDecision(topic, row, "approve", reason.read());
  const title = isPending
    ? `Approve the erasure of ${formatCountWithNoun(row.keys, "key")} of ${topic}?`
    : `Erase ${formatCountWithNoun(row.keys, "key")} of ${topic}?`;
  const body = [createPlan(row), isPending ? reason.elements : null];
  if (!row.keys_from) {
    openDialog({
      title,
      wide: true,
      body: [
        body,
        h("p", {}, "The keys were typed at a shell: whoever asked makes the same call again, which erases them."),
      ],
      confirmLabel: "Approve",
      confirm: async () => {
        await approve();
        announceToScreenReader("Approved");
        done();
      },
    });
    return;
  }
  openEraseDialog({
    title,
    wide: true,
    body: [
      body,
      h(
        "p",
        {},
        "The keys in the file are read again. If they are others by then, nothing is erased. An approval is used once, within seven days of the request. It cannot be undone.",
      ),
    ],
    confirmLabel: isPending ? "Approve and erase" : "Erase",
    before: isPending ? approve : null,
    conf: () => ({
      topic,
      keys_from: row.keys_from,
      reason: row.reason,
      with_tombstone: row.with_tombstone,
      break_pins: row.break_pins,
      request_id: row.request_id,
    }),
    done: `Erasing keys of ${topic}`,
    sent: done,
    ended: done,
  });
}

function openRejection(topic, row, done) {
  const reason = createReasonField("In the audit log, with your name.");
  openDialog({
    title: `Reject the erasure of ${formatCountWithNoun(row.keys, "key")} of ${topic}?`,
    body: [
      h("p", {}, "Nothing is erased for this request any more. The same keys can be asked for again."),
      reason.elements,
    ],
    confirmLabel: "Reject",
    confirm: async () => {
      await sendDecision(topic, row, "reject", reason.read());
      announceToScreenReader("Rejected");
      done();
    },
  });
}

function createPlan(row) {
  const options = [
    row.with_tombstone ? "leaves tombstones, which keep their keys" : null,
    row.break_pins ? "breaks pins" : null,
  ].filter(Boolean);
  const facts = [
    ["Asked by", `${row.requested_by}, ${formatInstant(row.requested_at_ms)}`],
    ["Why", row.reason],
    ["Keys", `${formatCount(row.keys_found)} of ${formatCount(row.keys)} were found`],
    ["Records", formatCount(row.records)],
    ["Files to delete", `${formatCount(row.files_total)}, ${formatBytes(row.size_bytes)}`],
    ["File with the keys", row.keys_from ?? "none: typed at a shell"],
    ["Options", options.join("; ") || "none"],
    ["Digest of this plan", h("code", {}, row.plan_sha256)],
  ];
  return [
    h(
      "dl",
      { class: "evidence" },
      facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
    createNames(
      "Files that hold a key",
      row.files.map((each) => `${each.path} (${each.place})`),
      row.files_total,
    ),
    createNames("Not reached", row.outside, row.outside.length),
  ];
}

function createNames(title, names, total) {
  if (names.length === 0) return null;
  const more = total - names.length;
  return h(
    "details",
    {},
    h("summary", {}, `${title} (${formatCount(total)})`),
    h(
      "ul",
      { class: "name-list is-scrolled is-long", tabindex: "0", "aria-label": title },
      names.map((each) => h("li", {}, each)),
      more > 0 ? h("li", { class: "quiet" }, `and ${formatCount(more)} more`) : null,
    ),
  );
}
