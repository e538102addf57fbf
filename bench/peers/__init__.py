"""The competitors: each a program that runs as a process of its own and prints its times as one JSON line."""
