"""Use cases of Winnow: one subpackage per kind of command, over a shared context and topic leases."""
