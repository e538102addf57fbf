"""The page in Airflow's UI: HTML, JSON and Data Docs, behind Airflow's login, read from the metadata store alone."""
