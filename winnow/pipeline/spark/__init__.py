"""Starts Spark applications and follows their progress."""
