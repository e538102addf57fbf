"""Opens what the paths of an ingest call name: files of Winnow's own layout, or an archive of another one.

Objects that an earlier call ingested as a whole are not read again: the ledgers know them by name, size and time of
their last change. What the user decided in the last call for the same layout holds unless decided anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from winnow.log.reference_chains import read_ledgers
from winnow.model import KnownObject, TopicState
from winnow.pipeline.ingest.commit import InputDescription
from winnow.sources.archive import Archive, ArchiveInput, open_archive, select_objects
from winnow.sources.choices import Choices
from winnow.sources.input_files import expand_paths
from winnow.sources.layouts.objects import ArchiveObject
from winnow.sources.layouts.winnow_layout import WINNOW
from winnow.sources.record_input import FilesInput, RecordInput

Progress = Callable[[int, int], None]


@dataclass
class OpenedInput:
    """An input, and what the ledger is to say of it. ``known_objects``: those that are not read again."""

    source: RecordInput
    describe: Callable[[], InputDescription]
    known_objects: int = 0
    notices: list[str] = field(default_factory=list)

    def list_notices(self) -> list[str]:
        """Return what a user should know about how the input was read."""
        source = self.source
        found = list(self.notices)
        if not isinstance(source, ArchiveInput):
            return found
        layout = source.archive.layout
        found.append(f"Read as {layout.description.title} (--layout {layout.name}).")
        found += source.archive.notices
        if self.known_objects:
            found.append(f"{self.known_objects:,} objects were ingested before and were not read again.")
        if source.rendered:
            fields = " and ".join(sorted(source.rendered))
            found.append(f"The {fields} were structures here and are JSON text now: their original bytes are gone.")
        if source.empty_values:
            kept = "kept as empty values" if source.choices.empty_values == "keep" else "taken as tombstones"
            found.append(f"{source.empty_values:,} empty values, which this format writes as null too, were {kept}.")
        if source.deletions:
            found.append(f"{source.deletions:,} values that stand for a deletion became tombstones.")
        found += [finding.text for finding in source.archive.findings]
        return found


def open_input(
    state: TopicState,
    paths: Sequence[str],
    *,
    layout: str,
    choices: Choices,
    source_topic: str | None,
    progress: Progress | None = None,
) -> OpenedInput:
    """Open the input of an ingest call for the topic of ``state``; arguments as :func:`.ingest.ingest_files`.

    Raises:
        BadInputError: nothing is there to read, or a decision is missing.
        UsageError: there is no such layout.
        ServiceError: an object store cannot be reached.
    """
    ledgers = list(read_ledgers(state, of_archives=True))
    exclude = choices.fill_from(ledgers[-1].choices).exclude if ledgers else choices.exclude
    archive = None if layout == WINNOW.name else open_archive(paths, layout, exclude)
    if archive is None or archive.layout is WINNOW:
        source = FilesInput(state.topic, expand_paths(paths, exclude), source_topic)
        return OpenedInput(source, lambda: InputDescription(source_topic=source_topic))
    ledgers = [each for each in ledgers if (each.layout, each.source_topic) == (archive.layout.name, source_topic)]
    if ledgers:
        choices = choices.fill_from(ledgers[-1].choices)
    selected = select_objects(archive, state.topic, source_topic)
    known = {each for ledger in ledgers for each in ledger.objects}
    fresh = [each for each in selected if not known.issuperset(list_parts(each))]
    placed = archive.layout.place(fresh, choices) if archive.layout.place is not None else fresh
    return open_archive_input(archive, placed, state.topic, source_topic, choices, len(selected) - len(fresh))


def open_archive_input(
    archive: Archive,
    objects: Sequence[ArchiveObject],
    topic: str,
    source_topic: str | None,
    choices: Choices,
    known_objects: int = 0,
) -> OpenedInput:
    """Make the input of the objects ``objects`` of an archive."""
    source = ArchiveInput(archive, objects, topic, source_topic, choices)

    def describe() -> InputDescription:
        return InputDescription(
            layout=archive.layout.name,
            choices=source.describe_choices(),
            source_topic=source_topic,
            objects=tuple(part for each in objects for part in list_parts(each)),
        )

    return OpenedInput(source, describe, known_objects)


def list_parts(obj: ArchiveObject) -> list[KnownObject]:
    """List the stored objects of ``obj`` as a ledger knows them: a local path is absolute there."""
    return [KnownObject(_name_part(part.uri), part.size_bytes, part.modified_ns) for part in obj.parts.values()]


def _name_part(uri: str) -> str:
    return uri if "://" in uri else str(Path(uri).absolute())
