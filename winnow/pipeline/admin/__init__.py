"""Commands about checkpoints, deleted records, and stored files: sweep, scrub, an older head."""
