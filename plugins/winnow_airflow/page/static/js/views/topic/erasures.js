// The erasures tab of a topic: what was erased, with its certificates, what is asked for, and erasing keys of a file.
// The list starts a process on the server, so it is not asked again by the page's own refresh.

import { createEraseButton } from "../../actions.js";
import { buildApiUrl, encodePathPart, fetchJson } from "../../api.js";
import { createAsyncPanel } from "../../async-panel.js";
import {
  createButton,
  createCallout,
  createDocumentLink,
  createEmptyState,
  createInstant,
  createSection,
} from "../../components.js";
import { h } from "../../dom.js";
import { EMPTY_VALUE, formatCount, formatCountWithNoun, shortenId } from "../../format.js";
import { createTable } from "../../table.js";
import { openEraseForm } from "./erase-form.js";
import { createRequestTable } from "./erase-requests.js";

const FEW_ERASURES = 20;
const MANY_ERASURES = 200;

/** Creates the erasures tab of ``topic``. */
export function createErasuresTab(topic) {
  const path = `topics/${encodePathPart(topic)}/erasures`;
  const list = createAsyncPanel({ lines: 8 });
  let limit = 0;

  function ask(wanted = limit || FEW_ERASURES) {
    limit = wanted;
    return list.load(
      async (signal) => {
        const [answer, { requests }] = await Promise.all([
          fetchJson(path, { limit }, signal),
          fetchJson(`${path}/requests`, { size: FEW_ERASURES }, signal),
        ]);
        return { ...answer, requests };
      },
      (answer) => drawErasures(topic, answer, ask, askAgain),
    );
  }

  // A DAG run may end long after somebody went to another tab.
  const askAgain = () => (element.isConnected ? ask() : null);
  const element = createSection(
    "Erasures",
    {
      id: "erasures",
      note: "Keys that were taken out of everything that Winnow wrote of this topic, at once and for good",
      tools: h(
        "div",
        { class: "row" },
        createButton("Ask again", { shape: "refresh", key: "ask-again", onPress: () => ask() }),
        createEraseButton("Erase keys…", topic, { key: "erase", onPress: () => openEraseForm(topic, askAgain) }),
      ),
    },
    list.element,
  );
  const update = () => (limit ? null : ask());
  return { element, update, stop: list.stop };
}

function drawErasures(topic, answer, ask, askAgain) {
  return h(
    "div",
    { class: "lists" },
    answer.files_left
      ? createCallout(
          "overdue",
          `Erased for readers, not yet from disk: ${formatCountWithNoun(answer.files_left, "file")}`,
          h("p", {}, "No reader sees these records any more. Each sweep of the topic goes on with deleting the files."),
        )
      : null,
    answer.requests.length ? createRequestTable(topic, answer.requests, askAgain) : null,
    answer.erasures.length ? createErasureTable(topic, answer.erasures) : createNoErasures(topic),
    answer.has_more && answer.erasures.length < MANY_ERASURES
      ? h("div", {}, createButton("Show older erasures", { key: "more-erasures", onPress: () => ask(MANY_ERASURES) }))
      : null,
  );
}

function createNoErasures(topic) {
  return createEmptyState(
    "No key was erased from this topic.",
    h("p", {}, `winnow erase ${topic} --keys-from FILE --reason TEXT erases keys, as the button does.`),
  );
}

function createErasureTable(topic, erasures) {
  return createTable({
    caption: `Erasures of ${topic}, newest first`,
    rows: erasures,
    rowClass: () => "is-tall",
    columns: [
      { key: "time", label: "When", heads: true, cell: (row) => createInstant(row.at_ms) },
      { key: "who", label: "By", cell: createWhoCell },
      { key: "why", label: "Why", cell: (row) => h("span", { class: "clip", "data-tip": row.reason }, row.reason) },
      {
        key: "keys",
        label: "Keys",
        align: "right",
        hint: "How many were found, of those that were to be erased",
        cell: (row) =>
          row.lifts ? formatCount(row.keys) : `${formatCount(row.keys_found)} of ${formatCount(row.keys)}`,
      },
      {
        key: "records",
        label: "Records",
        align: "right",
        cell: (row) => (row.lifts ? EMPTY_VALUE : formatCount(row.records)),
      },
      { key: "files", label: "Files left", align: "right", cell: createFilesCell },
      { key: "state", label: "Certificate", cell: createStateCell },
      { key: "certificate", label: "", align: "right", cell: (row) => createCertificateLinks(topic, row) },
    ],
  });
}

function createWhoCell(row) {
  return [
    h("div", {}, row.by),
    row.approvals.map((each) => h("small", {}, `asked by ${each.requested_by}, approved by ${each.approved_by}`)),
  ];
}

function createFilesCell(row) {
  if (row.lifts) return EMPTY_VALUE;
  return `${formatCount(row.files_left)} of ${formatCount(row.files)}`;
}

function createStateCell(row) {
  if (row.lifts) return h("span", { "data-tip": "Records of these keys may come again" }, "lifts an erasure");
  if (row.open_because === null) return "closed";
  return [h("div", {}, "open"), h("small", {}, row.open_because)];
}

function createCertificateLinks(topic, row) {
  const path = `topics/${encodePathPart(topic)}/erasures/${row.erasure_id}`;
  return h(
    "div",
    { class: "row" },
    createDocumentLink(buildApiUrl(`${path}/certificate.html`), `Print ${shortenId(row.erasure_id)}`),
    h("a", { href: buildApiUrl(`${path}/certificate.json`), download: true, "data-leave": true }, "JSON"),
  );
}
