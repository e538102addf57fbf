"""One module per arrow of the path: ingest, assess, plan, compact, validate, publish, checkpoint, report, sweep."""
