// The tabs of a topic's page, in their order. A tab's ``create(topic)`` returns {element, update(query), stop()}.

import { createAuditTab } from "../audit.js";
import { createConfigurationTab } from "../configuration/configuration.js";
import { createLatestTab } from "../records/latest-state.js";
import { createRecordsTab } from "../records/records.js";
import { createTrendsTab } from "../trends.js";
import { createErasuresTab } from "./erasures.js";
import { createExplainTab } from "./explain.js";
import { createIngestsTab } from "./ingests.js";
import { createLogTab } from "./log-tab.js";
import { createTableHealthTab } from "./table-health.js";
import { createUndoTab } from "./undo.js";

/** The tab of an address without one. */
export const FIRST_TAB = "log";

/** {name, label, create}: ``name`` is the last part of the tab's address, ``#/topics/orders/configuration``. */
export const TOPIC_TABS = [
  { name: FIRST_TAB, label: "Log", create: createLogTab },
  { name: "trends", label: "Trends", create: createTrendsTab },
  { name: "records", label: "Records", create: createRecordsTab },
  { name: "latest", label: "Latest", create: createLatestTab },
  { name: "explain", label: "Explain", create: createExplainTab },
  { name: "ingests", label: "Ingests", create: createIngestsTab },
  { name: "undo", label: "Undo", create: createUndoTab },
  { name: "erasures", label: "Erasures", create: createErasuresTab },
  { name: "table", label: "Table", create: createTableHealthTab },
  { name: "configuration", label: "Configuration", create: createConfigurationTab },
  { name: "audit", label: "Audit", create: createAuditTab },
];
