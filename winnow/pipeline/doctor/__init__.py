"""The checks of winnow doctor: machine, services and Airflow."""
