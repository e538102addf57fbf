"""Questions about erasures: which there were, what one would end now, and the certificate of one. No user bytes."""

from __future__ import annotations

from typing import Final

from winnow.errors import UsageError
from winnow.log_reader.documents import describe
from winnow.log_reader.question import Answer, Parameters
from winnow.pipeline.installation import Installation

MAXIMUM_ERASURES: Final = 200


def list_erasures(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """List the newest ``limit`` erasures; ``has_more``: there are older ones. ``files_left``: of all of them."""
    from winnow.pipeline.erase.certificate import list_erasures as list_all

    limit = max(1, min(parameters.number("limit"), MAXIMUM_ERASURES))
    found = list_all(installation, topic, limit=limit + 1)
    waiting = installation.log.open(topic).head().state.list_erased_files()
    return Answer(
        {
            "topic": topic,
            "persons": installation.settings.erase.approvals,
            "files_left": len(waiting),
            "has_more": len(found) > limit,
            "erasures": [describe(each) for each in found[:limit]],
        }
    )


def preview(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Say what an erasure would end now; an empty text: nothing. Reads no file, and no key."""
    from winnow.pipeline.erase.complete import describe_consequences

    return Answer(
        {
            "topic": topic,
            "persons": installation.settings.erase.approvals,
            "consequences": describe_consequences(installation, topic),
        }
    )


def certify(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Make the certificate of ``erasure_id``, one of the topic's."""
    from winnow.pipeline.erase.certificate import make_certificate, make_certificate_document

    document = make_certificate_document(make_certificate(installation, parameters.text("erasure_id")))
    if document["topic"] != topic:
        raise UsageError(f"Topic {topic} has no such erasure.", left="Nothing was changed.")
    return Answer(document)
