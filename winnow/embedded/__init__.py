"""The embedded Airflow, the Java that Spark runs on, and the folders bundled with the package."""
