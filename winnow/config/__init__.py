"""Configuration of topics (Kafka's names and errors) and of the installation (settings)."""
