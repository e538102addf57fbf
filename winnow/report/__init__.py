"""Formats receipts; defines alerts, events and metrics."""
