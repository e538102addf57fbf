"""Answers one read-only question of the page in Airflow, in a process of its own with limits: JSON in, JSON out.

``python -m winnow.log_reader`` reads one request from standard input, because keys are user bytes and arguments of
processes are public, and answers on standard output. It logs nothing.
"""
