"""Runs Winnow on a year of real flights. Started by `make demo`."""
