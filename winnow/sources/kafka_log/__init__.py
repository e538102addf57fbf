"""The logs of brokers as they lie on a disk or in tiered storage: segments of record batches."""
