"""``winnow schemas``: which schemas the keys and values of a topic were written with, and keeping them with it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from winnow.cli.command_errors import exit_with, print_error
from winnow.cli.options import Json, Topic, open_for_command
from winnow.cli.output import format_names, print_message, print_table, write_json
from winnow.errors import ValidationFailedError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.read.schema_pull import SchemaPull


def list_schemas(topic: Topic, as_json: Json = False) -> None:
    """List the ids of the schemas that keys and values name, and how many records have each.

    Serializers that work with a schema registry begin each key or value with a zero byte and the id of its schema in
    four bytes, or with the byte 1 and its GUID, or name it in a header of the record. Other bytes may begin so, too:
    numbers, for example. The registry (schema_registry.url) says which subjects have a schema; GUIDs that it does not
    know are counted together.

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


def pull_schemas(topic: Topic, as_json: Json = False) -> None:
    """Keep the schemas that keys and values name with the topic, so that it can be read without the registry.

    Asks the registry (schema_registry.url) for every id and GUID that 'winnow schemas list' counts and that is not kept
    yet, with all that the schema refers to. What is kept is asked before the registry from then on, is part of backups,
    and goes with the topic. Run it again after new versions of a schema; where nothing is new, it changes nothing. Ids
    that the registry does not know are named, GUIDs counted (exit code 4).

    Example: winnow schemas pull orders
    """
    with open_for_command() as installation:
        from winnow.pipeline.read.schema_pull import pull_schemas as pull

        pulled = pull(installation, topic)
    if as_json:
        write_json(asdict(pulled))
    else:
        print_message(
            f"{topic}: {format_count(len(pulled.pulled), 'schema')} pulled; "
            f"{format_count(pulled.schemas, 'schema')} kept with the topic."
        )
    if not pulled.is_whole:
        error = _make_unkept_error(pulled)
        print_error(error)
        exit_with(error.exit_code)


def _make_unkept_error(pulled: SchemaPull) -> ValidationFailedError:
    """Make the error that names the schemas that are not kept."""
    missing = [
        f"the registry does not know {format_names(map(str, pulled.unknown))}" if pulled.unknown else "",
        f"it cannot give {format_names(map(str, pulled.unusable))} as a whole" if pulled.unusable else "",
        f"{format_count(pulled.unlisted, 'record')} name further ones" if pulled.unlisted else "",
        f"it does not give {format_count(pulled.guids, 'schema')} named by GUID" if pulled.guids else "",
    ]
    return ValidationFailedError(
        f"Not every schema that records of topic {pulled.topic} name is kept: {'; '.join(filter(None, missing))}.",
        left="The others are kept.",
        next=f"See how many records name them: winnow schemas list {pulled.topic}",
    )
