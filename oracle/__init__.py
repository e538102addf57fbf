"""An independent model of Kafka's log compaction in plain Python, for tests and benchmarks to compare with."""
