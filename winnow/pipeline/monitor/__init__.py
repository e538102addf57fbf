"""Deadlines, metrics and alerts of topics."""
