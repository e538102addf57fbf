"""Soak test: many rounds of work, to check that nothing grows that should not."""
