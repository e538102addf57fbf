"""Prints programs with which other engines read a topic."""
