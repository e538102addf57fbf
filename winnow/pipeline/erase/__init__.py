"""Makes the records of keys gone from everything that Winnow wrote of a topic, and proves it."""
