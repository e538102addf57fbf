"""What Winnow's DAGs are made of: steps, the Spark operator, the notifier, retries. Light to import at every parse."""
