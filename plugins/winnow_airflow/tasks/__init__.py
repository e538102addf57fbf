"""What the tasks of Winnow's DAGs do: steps of the pipeline, one module for each kind of run."""
