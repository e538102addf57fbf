"""``winnow watch``: alerts about what no single run can see."""

from __future__ import annotations

from dataclasses import asdict

from winnow.cli.options import Json
from winnow.cli.output import print_lines, write_json
from winnow.cli.world import open_installation


def watch(as_json: Json = False) -> None:
    """Alert of deadlines that are near or missed and of sweeps that are stuck; say what has recovered.

    Every run of the DAG compact_topics ends with it; where something else schedules winnow compact, run it after each.
    What was alerted is not alerted again until it has recovered. Alerts that their channel did not take are sent again.

    Example: winnow watch
    """
    with open_installation() as ctx:
        from winnow.pipeline.watch import watch_topics as look_around

        done = look_around(ctx)
    if as_json:
        write_json(asdict(done))
        return
    print_lines(done.sentence)
