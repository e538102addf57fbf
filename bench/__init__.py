"""The benchmark: Winnow's real path beside what a user would pick instead, on the same files, in one run.

``python -m bench --help`` says how to use it. Nothing in :mod:`winnow` imports this package.
"""
