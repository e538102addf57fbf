"""The compaction run: assess, plan, stage with Spark, validate, publish, checkpoint."""
