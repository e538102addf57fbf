"""The parity certificate: random logs that a real broker's cleaner and Winnow clean, compared record by record."""
