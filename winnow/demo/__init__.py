"""The demo: Winnow on a year of real flights. Run by `make demo`."""
