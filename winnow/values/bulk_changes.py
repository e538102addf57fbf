"""One change of many topics, as somebody reviewed it: what is changed, of which topics, as they were then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from winnow.values.documents import compute_digest

PAUSE, RESUME, ALTER = "pause", "resume", "alter"
ACTIONS: Final = (PAUSE, RESUME, ALTER)
TAGS_KEY: Final = "winnow.tags"
MAXIMUM_TOPICS: Final = 2_000
"""Maximum topics of one change: so many names fit into a request and an entry of the audit log."""
FINGERPRINT_CHARACTERS: Final = 16


@dataclass(frozen=True, slots=True)
class BulkChange:
    """What is done with each of many topics.

    ``config``, ``reset``: keys that each topic sets, or sets no more. ``add_tags``, ``remove_tags``: of the tags that
    each has.
    """

    action: str
    config: Mapping[str, str] = field(default_factory=dict)
    reset: tuple[str, ...] = ()
    add_tags: tuple[str, ...] = ()
    remove_tags: tuple[str, ...] = ()

    def apply(self, overrides: Mapping[str, str]) -> dict[str, str]:
        """Return what a topic sets after the change that sets ``overrides`` now."""
        after = {key: text for key, text in {**overrides, **self.config}.items() if key not in self.reset}
        if self.add_tags or self.remove_tags:
            present = {tag.strip() for tag in after.pop(TAGS_KEY, "").split(",") if tag.strip()}
            if tags := (present - set(self.remove_tags)) | set(self.add_tags):
                after[TAGS_KEY] = ",".join(sorted(tags))
        return after


def compute_fingerprint(location: str, overrides: Mapping[str, str]) -> str:
    """Compute what tells whether a topic is still as somebody saw it: the same life, the same configuration.

    ``location``: the table's folder, which no other life of the topic has. ``overrides``: what the topic sets.
    """
    stripped = {key: text.strip() for key, text in overrides.items()}
    return compute_digest([location, stripped])[:FINGERPRINT_CHARACTERS]


def compute_review_digest(change: BulkChange, topics: Mapping[str, str]) -> str:
    """Compute the digest of what was reviewed: the change, and the topics with their fingerprints."""
    asked = [change.action, dict(change.config), *map(sorted, (change.reset, change.add_tags, change.remove_tags))]
    return compute_digest([*asked, dict(topics)])
