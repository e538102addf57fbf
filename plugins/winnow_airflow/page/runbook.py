"""Reads the runbook, docs/operations.md, into sections and blocks of text that the page shows without any markup."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from winnow.embedded.bundle import find_bundled_folder
from winnow_airflow.dag_ids import name_dag

FILE: Final = "operations.md"

Block = dict[str, Any]
"""``kind``: paragraph or heading, with ``spans``; list, with ``items`` of spans; or code, with ``text``."""

_SPAN: Final = re.compile(r"\*\*(?P<strong>[^*]+)\*\*|`(?P<code>[^`]+)`|\[(?P<label>[^\]]+)\]\((?P<target>[^)]+)\)")
_FENCE: Final = "```"
_DAG: Final = re.compile(
    r"\b(?:(?:backfill|change|compact|ingest|scrub|sweep|watch)_topics|change_partitions|compact_now)\b"
)


@cache
def load_sections() -> dict[str, dict[str, Any]]:
    """Load the sections of the runbook by their anchors: title and blocks. DAGs have this installation's ids.

    Raises:
        ConfigurationError: the runbook did not come with this installation.
    """
    text = (find_bundled_folder("docs") / FILE).read_text("utf-8")
    sections = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        named = _DAG.sub(lambda found: name_dag(found[0]), body)
        sections[make_anchor(title)] = {"title": title, "blocks": parse_blocks(named)}
    return sections


def make_anchor(title: str) -> str:
    """Make the anchor of a heading, as renderers of Markdown do."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def parse_blocks(body: str) -> list[Block]:
    """Parse the body of a section; a table is shown as it is written."""
    blocks: list[Block] = []
    # Fenced blocks may hold blank lines, all others end at one.
    for number, part in enumerate(re.split(rf"^{_FENCE}\w*\n(.*?)^{_FENCE}$", body, flags=re.MULTILINE | re.DOTALL)):
        if number % 2:
            blocks.append({"kind": "code", "text": part.rstrip("\n")})
        else:
            blocks.extend(_parse_text(each) for each in re.split(r"\n\s*\n", part) if each.strip())
    return blocks


def _parse_text(part: str) -> Block:
    text = part.strip("\n")
    if text.startswith("|"):
        return {"kind": "code", "text": text}
    if text.startswith("### "):
        return {"kind": "heading", "spans": parse_spans(text.removeprefix("### "))}
    if text.startswith("- "):
        items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        return {"kind": "list", "items": [parse_spans(" ".join(each.split())) for each in items]}
    return {"kind": "paragraph", "spans": parse_spans(" ".join(text.split()))}


def parse_spans(text: str) -> list[dict[str, str]]:
    """Parse one paragraph: plain text, ``code``, ``strong``, and links to other sections (``anchor``)."""
    spans: list[dict[str, str]] = []
    at = 0
    for found in _SPAN.finditer(text):
        spans.append({"text": text[at : found.start()]})
        at = found.end()
        if found["strong"] is not None:
            spans.append({"text": found["strong"], "style": "strong"})
        elif found["code"] is not None:
            spans.append({"text": found["code"], "style": "code"})
        else:
            target = found["target"]
            link = {"anchor": target.removeprefix("#")} if target.startswith("#") else {}
            spans.append({"text": found["label"].replace("`", ""), **link})
    spans.append({"text": text[at:]})
    return [span for span in spans if span["text"]]
