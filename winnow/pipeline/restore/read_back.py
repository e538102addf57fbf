"""Reads restored partitions back, compares them with the log, and finds out which offset became which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from winnow.files.private_files import translate_disk_errors
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.range_reader import RangeReader
from winnow.pipeline.restore.offset_translation import OffsetTranslator, TranslationFile
from winnow.pipeline.restore.restore_state import RestoreState
from winnow.pipeline.restore.source_log import SourceLog
from winnow.pipeline.restore.verify_records import PartitionFigures, verify_records

_NO_WAIT = {"fetch.wait.max.ms": "10"}
"""Everything that is read back is there already, so a broker need not hold an answer back for more to come."""


@dataclass(frozen=True, slots=True)
class PartitionOffset:
    """An offset of a partition of the log."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class TargetContent:
    """What is to be read back of a target, and where its offsets are kept.

    ``ends``: the stable offsets of its partitions. ``wanted``: offsets of the log to be translated. ``translation``: a
    file's path.
    """

    name: str
    ends: Mapping[int, int]
    wanted: tuple[PartitionOffset, ...]
    translation: str

    def select(self, partitions: Iterable[int], translation: str) -> TargetContent:
        """Return what is to be read back of some of its partitions."""
        own = set(partitions)
        return TargetContent(
            self.name,
            {number: end for number, end in self.ends.items() if number in own},
            tuple(each for each in self.wanted if each.partition in own),
            translation,
        )


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What was read back. ``translated``: the target's offset for each that was wanted, in their order."""

    figures: Mapping[int, PartitionFigures]
    translated: tuple[int, ...]


def read_back(
    source: SourceLog,
    settings: ClientSettings,
    content: TargetContent,
    state: RestoreState,
    on_progress: Callable[[int], None],
) -> ReadBack:
    """Compare the partitions of ``state`` with the log and write their offset translation.

    Raises:
        ValidationFailedError: the target does not hold what was written.
        TruncatedRangeError: the brokers lost records of the target.
        DamagedSegmentError: a segment of the log cannot be read.
        ServiceError: the cluster cannot be reached.
    """
    file = Path(content.translation)
    translator = OffsetTranslator((each.partition, each.offset) for each in content.wanted)
    patient = replace(settings, properties={**settings.properties, **_NO_WAIT})
    with (
        translate_disk_errors(file.absolute().parent, "--offsets"),
        TranslationFile(file) as translation,
        RangeReader(patient, left="") as reader,
    ):
        listeners = (translation, translator)
        figures = verify_records(source, reader, content.name, content.ends, state, listeners, on_progress)
    translated = (
        translator.translate(each.partition, each.offset, state.partitions[each.partition].target_start)
        for each in content.wanted
    )
    return ReadBack(figures, tuple(translated))
