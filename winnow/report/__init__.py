"""What people are told: receipts as paragraphs, alerts."""
