"""Finds the keys in a topic's files of which nothing but the keyed digests is known, each file once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from winnow.engine.key_erasure import list_keys_in_file, list_keys_in_segment
from winnow.errors import DamagedSegmentError
from winnow.files.checked_reading import make_damage_error
from winnow.pipeline.parallel import iterate_parallel
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.values.erasures import ErasureDocument, KeyDigester
from winnow.values.model import Segment

File = TypeVar("File", Segment, str)


@dataclass
class KeySearch:
    """Searches files for the keys whose digests are ``wanted``, each with the erasure that counts for it.

    ``found``: these keys, as far as the files that were read have them. Others are not kept.
    """

    topic: str
    digester: KeyDigester
    wanted: Mapping[bytes, ErasureDocument]
    found: dict[bytes, ErasureDocument] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    def search_segments(self, segments: Iterable[Segment]) -> None:
        """Search those of live ``segments`` that were not read yet.

        Raises:
            DamagedSegmentError: one is missing or damaged.
            ServiceError: the object store does not answer.
        """
        self._search(self._search_segment, {segment.path: segment for segment in segments})

    def search_files(self, paths: Iterable[str]) -> None:
        """Search files that left the log, or were never in it; one that is gone or cannot be read has no key to tell.

        Raises:
            ServiceError: the object store does not answer.
        """
        self._search(self._search_file, {path: path for path in paths})

    def _search(self, search: Callable[[File], dict[bytes, ErasureDocument]], files: Mapping[str, File]) -> None:
        unread = [file for path, file in files.items() if path not in self._read] if self.wanted else []
        for _, found in iterate_parallel(search, unread):
            self.found |= found
        self._read.update(files)

    def _search_segment(self, segment: Segment) -> dict[bytes, ErasureDocument]:
        try:
            return self._select(list_keys_in_segment(segment))
        except DamagedSegmentError as problem:
            raise make_damage_error(self.topic, segment, str(problem), NOTHING_ERASED) from problem
        except FileNotFoundError as problem:
            raise make_damage_error(self.topic, segment, "is missing", NOTHING_ERASED) from problem

    def _search_file(self, path: str) -> dict[bytes, ErasureDocument]:
        try:
            return self._select(list_keys_in_file(path))
        except (DamagedSegmentError, FileNotFoundError):
            return {}

    def _select(self, batches: Iterator[list[bytes]]) -> dict[bytes, ErasureDocument]:
        digested = ((key, self.wanted.get(self.digester.compute(key))) for keys in batches for key in keys)
        return {key: erasure for key, erasure in digested if erasure is not None}
