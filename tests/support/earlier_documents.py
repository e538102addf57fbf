"""Documents in the formats of states before the present one, as a topic may still have them on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from winnow.files import storage
from winnow.log import document_copies
from winnow.log import state as carried
from winnow.log.document_copies import Document
from winnow.log.document_places import DocumentKind, DocumentPlaces
from winnow.values.topic_state import TopicState


@contextmanager
def write_without_copies() -> Iterator[None]:
    """Commit as before documents had copies, within the block."""
    genuine = carried.write_state

    def write_alone(places: DocumentPlaces, path: str, _copy: str, data: bytes) -> None:
        storage.write_bytes(path, data, below=places.location)

    def write_state(places: DocumentPlaces, state: TopicState) -> carried.StateReference:
        return replace(genuine(places, replace(state, copies=None)), copies=None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document_copies, "_write_both", write_alone)
        patch.setattr(carried, "write_state", write_state)
        yield


@contextmanager
def write_states_of_format_six() -> Iterator[None]:
    """Commit states as before epochs had leader epochs, within the block."""
    genuine = document_copies.write_document

    def write_document(places: DocumentPlaces, kind: DocumentKind, name: str, data: bytes) -> Document:
        if kind is DocumentKind.STATE:
            state = json.loads(data) | {"format_version": 6}
            for epoch in state["epochs"]:
                del epoch["begins"], epoch["leader_epochs"]
            data = json.dumps(state, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        return genuine(places, kind, name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(carried, "write_document", write_document)
        yield
