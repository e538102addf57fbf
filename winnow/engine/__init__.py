"""The data plane: picks winners, rewrites segments, and runs both in Spark. The only importer of PySpark."""
