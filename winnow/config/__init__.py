"""Configuration: what a topic says (Kafka's names and errors) and what the installation says (settings)."""
