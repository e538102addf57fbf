"""Receipts as paragraphs, alerts, events, metrics."""
