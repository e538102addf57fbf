"""Takes back compactions, retention runs and deletions of records while the files that they replaced are there."""
