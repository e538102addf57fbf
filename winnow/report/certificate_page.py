"""The certificate of an erasure as one HTML page to print or to file: no scripts, nothing loaded, no user byte."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from winnow.clock import format_ms

_STYLE: Final = """
body { font: 11pt/1.45 system-ui, sans-serif; color: #1a1a1a; max-width: 60rem; margin: 2rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 1.8rem 0 0.4rem; }
.state { display: inline-block; margin: 0.8rem 0; padding: 0.2rem 0.7rem; border: 2px solid; border-radius: 0.3rem; }
.closed { color: #14532d; } .open { color: #7c2d12; }
table { border-collapse: collapse; width: 100%; font-size: 0.9em; } th, td { text-align: left; vertical-align: top; }
th, td { padding: 0.25rem 0.9rem 0.25rem 0; border-bottom: 1px solid #ddd; } td.number { text-align: right; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2rem 1.2rem; margin: 0; } dt { color: #555; }
dd { margin: 0; } h1, dd, td.path, li { overflow-wrap: anywhere; } code { font-size: 0.85em; }
@media print { body { margin: 0; max-width: none; } tr, li { break-inside: avoid; } }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } dt { margin-top: 0.5rem; } }
"""


def render_certificate(document: Mapping[str, Any]) -> str:
    """Render the JSON document of a certificate (``winnow erase certificate ID --json``) as a page."""
    is_open = document["open_because"] is not None
    title = f"{'Lifting of an erasure' if document['lifts'] else 'Erasure'} {document['erasure_id']}"
    state = f"Open: {document['open_because']}" if is_open else "Closed"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="state {"open" if is_open else "closed"}">{escape(state)}</p>',
        _make_list(_list_facts(document)),
        *_make_files(document["files"]),
        *_make_section("Not touched", [f"<li>{escape(place)}</li>" for place in document["outside"]]),
        *_make_section(
            "Digests of the keys", [f"<li><code>{escape(digest)}</code></li>" for digest in document["hashes"]]
        ),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head>\n<body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _list_facts(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("Topic", f"{document['topic']} ({document['table_uuid']})"),
        ("Done by", document["by"]),
        ("At", document["at"]),
        ("Reason", document["reason"]),
        ("Keys", f"{document['keys_found']:,} of {document['keys']:,} found"),
        ("Records erased", f"{document['records']:,}"),
        ("Files gone", _format_time(document["deleted_at_ms"])),
        ("Closed", _format_time(document["closed_at_ms"])),
        ("In the chain", f"number {document['number']} of {document['chain_length']}"),
        ("Digest of this document", f"sha256 {document['sha256']}"),
        ("Digest of the one before", f"sha256 {document['previous']}" if document["previous"] else "none"),
        ("Keys stand as", f"HMAC-SHA-256 with the secret {document['key_id']}"),
    ]
    for each in document["approvals"]:
        asked = f"{each['requested_by']}, {format_ms(each['requested_at_ms'])}"
        facts += [
            ("Asked for by", asked),
            ("Approved by", f"{each['approved_by']}, {format_ms(each['approved_at_ms'])}"),
        ]
        facts.append(("Digest of what was approved", f"sha256 {each['plan_sha256']}"))
    scan, verified = document["scan"], document["verified"]
    if scan is not None:
        read = f"{scan['files']:,} files ({scan['quarantine_files']:,} quarantined), {scan['size_bytes']:,} bytes"
        facts.append(("Read to prove absence", f"{read}, at {format_ms(scan['at_ms'])}"))
    if verified is not None:
        found = (
            f"{verified['old_records']:,} old records of these keys, {verified['tombstones']:,} tombstones that were "
            f"asked for, {verified['later_records']:,} records that came later"
        )
        facts.append(("Verified", f"{format_ms(verified['at_ms'])}: {verified['files']:,} files hold {found}"))
    return facts


def _format_time(at_ms: int | None) -> str:
    return "not yet" if at_ms is None else format_ms(at_ms)


def _make_list(facts: Iterable[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts) + "</dl>"


def _make_files(files: Sequence[Mapping[str, Any]]) -> list[str]:
    if not files:
        return ["<h2>Files that held a key</h2>", "<p>There was none.</p>"]
    rows = [
        "<tr>"
        f"<td>{escape(each['place'])}</td>"
        f'<td class="number">{each["records"]:,}</td>'
        f"<td>{escape(each['answer'])}, {_format_time(each['deleted_at_ms'])}</td>"
        f'<td class="path"><code>{escape(each["sha256"])}</code><br>{escape(each["path"])}</td>'
        "</tr>"
        for each in files
    ]
    head = "<tr><th>Was</th><th>Records</th><th>Deleted</th><th>sha256, path</th></tr>"
    return ["<h2>Files that held a key</h2>", f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"]


def _make_section(title: str, items: Sequence[str]) -> list[str]:
    return [f"<h2>{title}</h2>", f"<ul>{''.join(items)}</ul>"] if items else []
