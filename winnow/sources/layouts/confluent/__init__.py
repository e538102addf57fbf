"""The archives of Confluent's sinks, where values, keys and headers are objects beside each other."""
