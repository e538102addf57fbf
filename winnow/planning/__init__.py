"""Decides what to compact before anything is read or written: eligibility, estimates, plans. Pure."""
