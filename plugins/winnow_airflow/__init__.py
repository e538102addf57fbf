"""Helpers of Winnow's DAGs: steps, the Spark operator, the failure notifier, retries; cheap to import."""
