"""Programs of the competitors; each prints its times as one JSON line."""
