"""``winnow settings``: what is in force and where each value came from."""

from __future__ import annotations

from winnow.cli.options import Json
from winnow.cli.output import write_json
from winnow.cli.tables import print_table
from winnow.cli.world import load_settings_in_force


def settings(as_json: Json = False) -> None:
    """Print what is in force and where each value came from.

    Secrets are masked. Environment variables come before winnow.toml, and that before the defaults below WINNOW_HOME.

    Example: winnow settings
    """
    rows = load_settings_in_force().rows()
    if as_json:
        write_json([{"name": row.name, "value": row.value, "source": row.source} for row in rows])
        return
    print_table(["setting", "value", "from"], [[row.name, row.value, row.source] for row in rows])
