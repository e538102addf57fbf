"""A Kafka broker on this machine, with its jars and addresses, for tests, measurements and trials; in no wheel."""
