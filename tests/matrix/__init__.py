"""``make matrix``: Winnow's wheel in environments of other versions, compared with the oracle."""
