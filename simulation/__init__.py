"""A simulated world in which a seed decides everything: who goes on, what fails, what time it is.

The real steps of Winnow run as processes, one at a time, over a real Iceberg table, store and catalog. At every call to
the outside a seed decides whether another process goes on, this one dies, stands still, or gets an error. After every
commit a judge reads the table without Winnow and compares it with what was acknowledged.
``python -m simulation --help``.
"""
