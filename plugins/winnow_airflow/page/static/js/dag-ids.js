// Ids of this installation's DAGs: the setting airflow.dag_prefix stands before their names.

let prefix = "";

/** Sets the prefix, as the server tells it. */
export function setDagPrefix(text) {
  prefix = text;
}

/** Returns the id of the DAG ``name`` in this installation. */
export function nameDag(name) {
  return `${prefix}${name}`;
}
