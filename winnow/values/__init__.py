"""The values that travel between steps and processes, and their documents."""
