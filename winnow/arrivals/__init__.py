"""Arriving records on their way into segment files, in any process: this one, a worker of it, or a task of Spark.

What is here reads a plan or an input and writes files that nothing refers to. It knows no catalog and no metadata
store: :mod:`winnow.pipeline.ingest` judges what was written, and commits it.
"""
