"""``winnow schemas``: which schemas the keys and values of a topic were written with."""

from __future__ import annotations

from dataclasses import asdict

from winnow.cli.options import Json, Topic, open_for_command
from winnow.cli.output import print_message, print_table, write_json


def list_schemas(topic: Topic, as_json: Json = False) -> None:
    """List the ids of the schemas that keys and values begin with, and how many records have each.

    Serializers that work with a schema registry begin each key or value with a zero byte and the id of its schema in
    four bytes. Other bytes may begin so, too: numbers, for example. The registry (schema_registry.url) says which
    subjects have a schema.

    Example: winnow schemas list orders
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.read.schema_ids import report_schema_ids

        report = report_schema_ids(installation, topic)
    if as_json:
        write_json(asdict(report))
        return
    rows = [
        [use.column, str(use.schema_id), f"{use.records:,}", use.kind, ", ".join(use.subjects)] for use in report.uses
    ]
    rows += [[column, "others", f"{records:,}", "", ""] for column, records in report.unlisted.items() if records]
    rows += [[column, "none", f"{records:,}", "", ""] for column, records in report.unframed.items() if records]
    if rows:
        print_table(["of", "schema", "records", "kind", "subjects"], rows, right=(2,), sentences=(4,))
    else:
        print_message(f"{topic} has no records.")
    if report.problem and report.uses:
        print_message(report.problem)
