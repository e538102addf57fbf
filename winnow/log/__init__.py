"""The topic log as an Iceberg table: open, segments, state, append, swap, sweep. The only user of PyIceberg."""
