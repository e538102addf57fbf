"""Many rounds of everything that leaves something behind, to see that nothing grows but what must."""
