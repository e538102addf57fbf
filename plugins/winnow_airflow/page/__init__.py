"""Winnow's page in Airflow's UI: HTML, JSON API and Data Docs, read from the metadata store only."""
