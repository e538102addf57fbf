"""The data plane: picking winners and rewriting segments, and its Spark runner. The only importer of PySpark."""
