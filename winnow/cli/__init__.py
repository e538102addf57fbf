"""The command line ``winnow``. Reads arguments, asks the pipeline, shows the answer; decides nothing itself.

Importing it loads no heavy library: every command imports what it needs when it runs.
"""

from __future__ import annotations

from winnow.cli.app import app, main

__all__ = ["app", "main"]
