"""``winnow erase``: erases keys from everything that Winnow wrote of a topic; certificates of that."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from winnow.cli.erase_requests import APPROVE, REJECT, REQUESTS, decide_request, show_requests, tell_request
from winnow.cli.key_text import MAY_BE_BASE64
from winnow.cli.options import Json, Reason, open_for_command
from winnow.cli.output import (
    format_bytes,
    format_short_time,
    print_lines,
    print_message,
    print_table,
    write_json,
)
from winnow.cli.progress import ProgressBar
from winnow.clock import format_ms
from winnow.errors import UsageError
from winnow.sources.choices import check_choice
from winnow.values.counts import format_count
from winnow.values.typed_keys import parse_key

if TYPE_CHECKING:
    from winnow.pipeline.erase.certificate import Certificate
    from winnow.pipeline.erase.complete import EraseReport
    from winnow.pipeline.erase.purge import PurgedTopic
    from winnow.pipeline.erase.whereabouts import KeyWhereabouts
    from winnow.pipeline.installation import Installation
    from winnow.store.erase_requests import RequestedErasure

CERTIFICATE: Final = "certificate"
STANDARD_INPUT: Final = "-"
_NOTHING: Final = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class _Wish:
    """What the arguments ask for."""

    keys: str | None
    keys_from: str | None
    reason: str | None
    with_tombstone: bool
    break_pins: bool
    allow: bool
    registered: bool = False
    purge_deleted: bool = False
    engine: str | None = None


def erase(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC | certificate [ID] | requests [TOPIC] | approve ID | reject ID",
            help="The topic; or the word certificate and an erasure's id; or, where erasures take two persons, what is "
            "asked for, and the id of a request.",
        ),
    ],
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY|-",
            help="The key, as text, or as hex:… or base64:…; - reads it from standard input, since others on this "
            "machine can see arguments.",
            show_default=False,
        ),
    ] = None,
    keys_from: Annotated[
        str | None,
        typer.Option("--keys-from", metavar="FILE", help="A file with one key a line, up to 10^6.", show_default=False),
    ] = None,
    *,
    reason: Reason = None,
    with_tombstone: Annotated[
        bool,
        typer.Option(
            "--with-tombstone", help="Leave a tombstone at each key's newest record, so that consumers learn of it."
        ),
    ] = False,
    break_pins: Annotated[
        bool, typer.Option("--break-pins", help="Also where a restore at work, or a tag, keeps such a snapshot.")
    ] = False,
    allow: Annotated[
        bool, typer.Option("--allow", help="Lift the erasure: records of these keys may come again.")
    ] = False,
    registered: Annotated[
        bool,
        typer.Option(
            "--registered",
            help="Instead of keys: apply to the topic what the register of erasures has and the topic does not know, "
            "after an older state of it was put back by hand.",
        ),
    ] = False,
    purge_deleted: Annotated[
        bool,
        typer.Option("--purge-deleted", help="If the topic is deleted, remove it for good, with all its records."),
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="With certificate: read everything again now, and look for these keys.")
    ] = False,
    of_topic: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TOPIC", help="With certificate and --key: where a key still is.", show_default=False
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="With certificate: write a page to print.", show_default=False),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="local|spark",
            help="Read and write files in this process or on Spark. Default: by size (erase.spark_from_bytes).",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Erase keys from everything that Winnow wrote of a topic, now and for good.

    One commit without these keys, after Great Expectations has judged that every other record is there; then snapshots
    are expired and files deleted at once, without a grace. Old copies that come later are left out of every ingest.
    What Winnow cannot reach is listed, with what to do there. Cannot be undone. Killed at any moment, run it again.

    With erase.approvals=2 it only asks for it; once another person has approved that, the same call erases.

    Example: winnow erase orders --key - --reason "request 4711" < key.txt

    Example: winnow erase certificate 5f0c12ab --verify
    """
    check_choice("--engine", engine, ("local", "spark"))
    asks_certificate = words[0] == CERTIFICATE and (len(words) > 1 or of_topic is not None)
    if asks_certificate:
        _certify(words[1:], key, of_topic, verify=verify, html=html, as_json=as_json)
        return
    if _asks_about_requests(words, has_keys=key is not None or keys_from is not None):
        if words[0] == REQUESTS:
            show_requests(words[1] if len(words) > 1 else None, as_json=as_json)
        else:
            decide_request(words[1], approves=words[0] == APPROVE, reason=reason or "", as_json=as_json)
        return
    if len(words) > 1 or verify or html is not None or of_topic is not None:
        raise UsageError(
            "winnow erase takes one topic; --verify, --html and --for belong to: winnow erase certificate.",
            left=_NOTHING,
        )
    wish = _Wish(key, keys_from, reason, with_tombstone, break_pins, allow, registered, purge_deleted, engine)
    if registered:
        _apply_registered(words[0], wish, as_json=as_json)
        return
    _carry_out(words[0], wish, as_json=as_json)


def _carry_out(topic: str, wish: _Wish, *, as_json: bool) -> None:
    keys, reason = _read_keys(wish), wish.reason
    if not reason or not reason.strip():
        raise UsageError(
            "Why are these keys erased? The certificate says it.", left=_NOTHING, next='Add --reason "..."'
        )
    from winnow.pipeline.erase.complete import EraseReport
    from winnow.pipeline.erase.purge import PurgedTopic

    with open_for_command(reason=reason) as installation:
        if wish.allow:
            _lift(installation, topic, keys, reason, as_json=as_json)
            return
        purged = _purge(installation, topic, keys, reason) if wish.purge_deleted else None
        report = purged or _erase(installation, topic, keys, wish)
        approves_at_shell, now_ms = installation.settings.erase.shell_approval, installation.now_ms()
    if isinstance(report, PurgedTopic):
        _show_purged(report, as_json=as_json)
        return
    if not isinstance(report, EraseReport):
        tell_request(report, now_ms, approves_at_shell=approves_at_shell, as_json=as_json)
        return
    if not report.keys_found and not report.was_erased and _may_be_base64(wish):
        print_message(MAY_BE_BASE64)
    if as_json:
        write_json(asdict(report))
        return
    print_lines(_format_report(report))


def _asks_about_requests(words: list[str], *, has_keys: bool) -> bool:
    if has_keys:
        return False  # a topic may have such a name
    return words[0] == REQUESTS or (len(words) == 2 and words[0] in {APPROVE, REJECT})  # noqa: PLR2004 - word and id


def _erase(installation: Installation, topic: str, keys: list[bytes], wish: _Wish) -> EraseReport | RequestedErasure:
    from winnow.pipeline.erase.complete import describe_consequences, erase_or_ask
    from winnow.pipeline.erase.erase import EraseRequest

    request = EraseRequest(
        topic,
        keys,
        wish.reason or "",
        with_tombstone=wish.with_tombstone,
        break_pins=wish.break_pins,
        engine=wish.engine,
    )
    if consequences := describe_consequences(installation, topic):
        print_message(consequences)
    with ProgressBar("Searching files") as bar:
        return erase_or_ask(installation, request, bar.move)


def _apply_registered(topic: str, wish: _Wish, *, as_json: bool) -> None:
    if wish.keys is not None or wish.keys_from is not None or wish.with_tombstone or wish.allow or wish.purge_deleted:
        raise UsageError(
            "--registered takes no keys, and of the other options --break-pins and --engine alone.", left=_NOTHING
        )
    with open_for_command(reason=wish.reason) as installation:
        from winnow.pipeline.erase.older_states import apply_registered

        with ProgressBar("Searching files") as bar:
            applied = apply_registered(
                installation, topic, break_pins=wish.break_pins, engine=wish.engine, progress=bar.move
            )
    if as_json:
        write_json(asdict(applied))
    elif applied.erasure_id is None:
        print_lines(f"Topic {topic} knows every erasure that the register has of it; nothing was changed.")
    else:
        print_lines(
            f"Applied {format_count(applied.erasures, 'erasure')} of the register to {topic}: "
            f"{format_count(applied.records, 'record')} and {format_count(applied.files, 'file')} that held one are "
            f"gone.\nCertificate: winnow erase certificate {applied.erasure_id}"
        )


def _purge(installation: Installation, topic: str, keys: list[bytes], reason: str) -> PurgedTopic | None:
    from winnow.pipeline.erase.purge import purge_deleted_topic

    return purge_deleted_topic(installation, topic, keys, reason)


def _show_purged(removed: PurgedTopic, *, as_json: bool) -> None:
    if as_json:
        write_json(asdict(removed))
        return
    print_lines(
        f"Topic {removed.topic} was deleted, and is removed for good: {format_count(removed.files_deleted, 'file')} "
        f"({format_bytes(removed.bytes_deleted)}). Copies of it that are put back are without these keys; the register "
        f"has them under {removed.erasure_id}."
    )


def _may_be_base64(wish: _Wish) -> bool:
    typed = wish.keys if wish.keys != STANDARD_INPUT else None
    return typed is not None and parse_key(typed).other is not None


def _lift(installation: Installation, topic: str, keys: list[bytes], reason: str, *, as_json: bool) -> None:
    from winnow.pipeline.erase.lift import lift_erasure

    lifted = lift_erasure(installation, topic, keys, reason)
    if as_json:
        write_json(asdict(lifted))
        return
    text = f"Records of {format_count(lifted.keys, 'key')} may be ingested into {topic} again ({lifted.erasure_id})."
    if lifted.not_erased:
        text += f" {format_count(lifted.not_erased, 'key')} had not been erased."
    print_lines(text)


def _read_keys(wish: _Wish) -> list[bytes]:
    if (wish.keys is None) == (wish.keys_from is None):
        raise UsageError("Name the keys with --key or --keys-from, one of the two.", left=_NOTHING)
    from winnow.pipeline.erase.key_files import parse_key_lines, read_key_file

    if wish.keys_from is not None and wish.keys_from != STANDARD_INPUT:
        return read_key_file(wish.keys_from)
    if STANDARD_INPUT in {wish.keys_from, wish.keys}:
        return parse_key_lines(sys.stdin.buffer.read().split(b"\n"), "Standard input")
    assert wish.keys is not None
    return [parse_key(wish.keys).key]


def _certify(
    words: list[str], key: str | None, of_topic: str | None, *, verify: bool, html: Path | None, as_json: bool
) -> None:
    if of_topic is not None:
        if words or verify or html is not None or key is None:
            raise UsageError("--for takes a topic and --key, nothing else.", left=_NOTHING)
        _show_whereabouts(of_topic, _read_keys(_Wish(key, None, None, False, False, False)), as_json=as_json)
        return
    if len(words) != 1 or key is not None:
        raise UsageError("winnow erase certificate takes the id of one erasure.", left=_NOTHING)
    from winnow.pipeline.erase.certificate import make_certificate, make_certificate_document

    with open_for_command(to_read=True) as installation:
        found = make_certificate(installation, words[0], verify=verify)
    document = make_certificate_document(found)
    if html is not None:
        from winnow.report.certificate_page import render_certificate

        html.write_text(render_certificate(document), encoding="utf-8")
    if as_json:
        write_json(document)
    else:
        _show_certificate(found)
    if found.verified is not None and found.verified.old_records:
        from winnow.errors import ValidationFailedError

        raise ValidationFailedError(
            f"Topic {found.document.topic} has {format_count(found.verified.old_records, 'record')} of erased keys "
            "again.",
            left=_NOTHING,
            next=f"Erase them again: winnow erase {found.document.topic} --keys-from FILE --reason TEXT",
        )


def _show_certificate(found: Certificate) -> None:
    document = found.document
    what = "lifting" if document.lifts else "erasure"
    state = "closed" if found.open_because is None else f"open: {found.open_because}"
    lines = [
        f"Certificate of {what} {document.erasure_id}",
        f"Topic {document.topic} ({document.table_uuid}); number {found.number} of {found.chain_length} in its chain",
        f"By {document.by} at {format_ms(document.at_ms)}: {document.reason}",
        f"State: {state}",
        f"{document.keys_found:,} of {format_count(document.keys, 'key')} found, {document.records:,} records erased",
        f"Digests: HMAC-SHA-256 with the secret {document.key_id} (--json has them)",
        f"sha256 of this document: {found.sha256}; of the one before: {document.previous or 'none'}",
    ]
    lines += [
        f"Asked for by {each.requested_by} at {format_ms(each.requested_at_ms)}, approved by {each.approved_by} at "
        f"{format_ms(each.approved_at_ms)}; sha256 of the plan: {each.plan_sha256}"
        for each in document.approvals
    ]
    if document.scan is not None:
        lines.append(
            f"Read to prove absence: {format_count(document.scan.files, 'file')}, "
            f"{format_bytes(document.scan.size_bytes)}, {document.scan.quarantine_files:,} of them quarantined records"
        )
    print_lines("\n".join(lines))
    if found.files:
        rows = [
            [
                each.file.place,
                "" if each.file.partition is None else str(each.file.partition),
                f"{each.file.records:,}",
                each.answer,
                format_short_time(each.deleted_at_ms) if each.deleted_at_ms is not None else "",
                each.file.sha256[:16],
                each.file.path,
            ]
            for each in found.files
        ]
        print_table(
            ["was", "partition", "records", "is", "deleted", "sha256", "file"], rows, right=(2,), sentences=(6,)
        )
    for place in document.outside:
        print_lines(f"Not touched: {place}")
    if found.verified is not None:
        print_lines(
            f"Verified at {format_ms(found.verified.at_ms)}: {format_count(found.verified.files, 'file')} "
            f"({format_bytes(found.verified.size_bytes)}) hold {found.verified.old_records:,} old records of these "
            f"keys, {found.verified.tombstones:,} tombstones that were asked for, and {found.verified.later_records:,} "
            "records that came later."
        )


def _show_whereabouts(topic: str, keys: list[bytes], *, as_json: bool) -> None:
    if len(keys) != 1:
        raise UsageError("--for is about one key.", left=_NOTHING)
    with open_for_command(to_read=True) as installation, ProgressBar("Searching files") as bar:
        from winnow.pipeline.erase.whereabouts import find_key

        found = find_key(installation, topic, keys[0], bar.move)
    if as_json:
        write_json(asdict(found))
        return
    _print_whereabouts(found)


def _print_whereabouts(found: KeyWhereabouts) -> None:
    read = f"{format_count(found.files_read, 'file')} ({format_bytes(found.bytes_read)}) were read"
    if found.is_gone:
        print_lines(f"No file of topic {found.topic} holds the key; {read}.")
    else:
        print_lines(f"{format_count(len(found.files), 'file')} of topic {found.topic} with the key; {read}.")
        rows = [
            [
                each.place,
                f"{each.records:,}",
                "" if each.until_ms is None else format_short_time(each.until_ms),
                each.path,
            ]
            for each in found.files
        ]
        print_table(["is", "records", "may go from", "file"], rows, right=(1,), sentences=(3,))
    if found.erasure_id is not None:
        print_lines(f"Erased by {found.erasure_id}: winnow erase certificate {found.erasure_id}")
    print_lines("What won, and in which run: winnow why with the same key.")


def _format_report(report: EraseReport) -> str:
    certificate = f"winnow erase certificate {report.erasure_id}"
    if report.was_erased:
        done = f"These keys were erased from {report.topic} before, by {report.erasure_id}."
    elif not report.records and not report.files:
        done = f"No file of {report.topic} holds one of {format_count(report.keys, 'key')}. Later old copies stay out."
    else:
        done = (
            f"Erased {report.keys_found:,} of {format_count(report.keys, 'key')} from {report.topic}: "
            f"{format_count(report.records, 'record')}. {format_count(report.files, 'file')} "
            f"({format_bytes(report.bytes)}) that held one are deleted."
        )
    if report.tombstones:
        done += f" {format_count(report.tombstones, 'tombstone', 'stay')}, with their keys: erase them again later."
    lines = [done]
    if not report.closed and not report.tombstones:
        lines.append(
            "The certificate is open until sweeps have looked twice for what earlier processes may still write."
        )
    lines += [f"Not touched: {place}" for place in report.outside]
    return "\n".join([*lines, f"Certificate: {certificate}"])
