"""Layouts: how sinks, brokers and tools name the objects of an archive, and what is in them."""
