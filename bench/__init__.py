"""Benchmark of Winnow against other ways to compact the same files.

For usage see ``python -m bench --help``. Nothing in :mod:`winnow` imports this package.
"""
