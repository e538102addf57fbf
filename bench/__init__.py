"""Benchmark of Winnow against other ways to compact the same files.

``python -m bench --help`` says how to use it. Nothing in :mod:`winnow` imports this package.
"""
