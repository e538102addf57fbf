"""Says what a run would do or has done, read-only: explain, why, compare, changes."""
