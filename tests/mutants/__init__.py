"""Deliberate breakages of the rules, each with the test that catches it."""
