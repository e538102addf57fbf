"""A topic as a whole: what is known of it, who holds it, how it is created, changed, deleted and recovered."""
