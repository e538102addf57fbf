"""``winnow backup create``, ``verify``, ``restore`` and ``erase``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import exit_with, print_error
from winnow.cli.options import Json, Reason, open_for_command
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    format_short_time,
    print_lines,
    print_message,
    print_table,
    write_json,
)
from winnow.cli.progress import JobBar
from winnow.errors import ValidationFailedError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winnow.pipeline.backup.create import BackupReport
    from winnow.pipeline.backup.erased_backups import ErasedBackups
    from winnow.pipeline.backup.restore import RestoreReport
    from winnow.pipeline.backup.verify import VerifyReport

Destination = Annotated[
    str,
    typer.Argument(metavar="DEST", help="A folder for backups: a path, or a URI such as s3://bucket/backups."),
]

BackupId = Annotated[
    str | None,
    typer.Option("--backup", metavar="ID", help="This backup instead of the newest.", show_default=False),
]


def create(destination: Destination, reason: Reason = None, as_json: Json = False) -> None:
    """Back up all topics, what the catalog says of them, and the metadata store.

    Nothing has to stop meanwhile. The first backup in a folder copies everything, each later one what is new since;
    each of them can be restored. A topic that is damaged is left out and named (exit code 4). A call that was killed is
    no backup; the next one goes on with what it has copied.

    Example: winnow backup create s3://backups/winnow
    """
    with open_for_command(reason=reason) as installation, _Progress() as progress:
        from winnow.pipeline.backup.create import create_backup

        report = create_backup(installation, destination, progress)
    if as_json:
        write_json(asdict(report))
    else:
        _show_created(report)
    _end_with_left_out(report.left_out, "was left out")


def verify(destination: Destination, backup: BackupId = None, as_json: Json = False) -> None:
    """Read every file of a backup, compare it with what was written, and open every table from it.

    Needs neither the catalog nor the store. Damage ends with exit code 4 and the names of the files.

    Example: winnow backup verify s3://backups/winnow
    """
    with open_for_command(to_read=True), _Progress() as progress:
        from winnow.pipeline.backup.verify import verify_backup

        report = verify_backup(destination, backup, progress)
    if as_json:
        write_json(asdict(report))
    else:
        _show_verified(report)
    if report.findings:
        exit_with(ValidationFailedError.exit_code)


def restore(destination: Destination, backup: BackupId = None, reason: Reason = None, as_json: Json = False) -> None:
    """Restore a backup into an empty warehouse, catalog and metadata store.

    To the warehouse that it was made of; a place with anything in it is refused. Every file is compared with what was
    written. Topics are there at the end only: a call that was killed goes on when it is run again.

    Example: winnow backup restore s3://backups/winnow
    """
    with open_for_command(reason=reason) as installation, _Progress() as progress:
        from winnow.pipeline.backup.restore import restore_backup

        report = restore_backup(installation, destination, backup, progress)
    if as_json:
        write_json(asdict(report))
    else:
        _show_restored(report)


def erase(
    destination: Destination,
    only_list: Annotated[
        bool, typer.Option("--list", help="List the backups that would be deleted, and why; delete nothing.")
    ] = False,
    with_last_copies: Annotated[
        bool,
        typer.Option(
            "--with-last-copies",
            help="Also where the newest backup that stays lacks a topic that one to be deleted has.",
        ),
    ] = False,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Delete the backups that still hold records of erased keys.

    Those that were made before an erasure (winnow erase) had deleted its files, with every file that no other backup of
    the folder names, and its versions in a bucket that keeps them. A newer complete backup has to be there, with every
    topic of those that go; make one first. A call that was killed is completed by the next one.

    Example: winnow backup erase s3://backups/winnow --list
    """
    with open_for_command(to_read=only_list, reason=reason) as installation, _Progress() as progress:
        from winnow.pipeline.backup.erased_backups import erase_backups

        report = erase_backups(
            installation, destination, is_preview=only_list, with_last_copies=with_last_copies, watch=progress
        )
    if as_json:
        write_json(asdict(report))
    else:
        _show_erased(report)


def _show_erased(report: ErasedBackups) -> None:
    rows = [[each.backup_id, each.topic, each.erasure_id] for each in report.held[:MAXIMUM_ROWS]]
    if rows:
        print_table(["backup", "topic", "erasure"], rows)
    if report.last_copies:
        print_message(f"notice: the last copies of {', '.join(report.last_copies[:MAXIMUM_ROWS])} are among them")
    if not report.deleted:
        print_lines(
            f"No backup in {report.destination} holds records of erased keys; it has "
            f"{format_count(len(report.kept), 'backup')}."
        )
        return
    verb = "would be deleted" if report.is_preview else "deleted"
    print_lines(
        f"{format_count(len(report.deleted), 'backup')} {verb}, with {format_count(report.files, 'file')} of "
        f"{format_bytes(report.size_bytes)}; {format_count(len(report.kept), 'backup', 'stay')}."
    )


def _show_created(report: BackupReport) -> None:
    print_lines(
        f"Backup {report.backup_id} in {report.destination}: {format_count(report.topics, 'topic')} with "
        f"{format_count(report.records, 'record')}, {format_count(report.files, 'file')} of "
        f"{format_bytes(report.size_bytes)}, of which {report.files_copied:,} with {format_bytes(report.bytes_copied)} "
        f"are new; {format_count(report.store_rows, 'row')} of the metadata store."
    )
    print_lines(f"Next: winnow backup verify {report.destination}")


def _show_verified(report: VerifyReport) -> None:
    rows = [
        [each.topic, f"{each.records:,}", f"{each.files:,}", format_bytes(each.size_bytes)]
        for each in report.topics[:MAXIMUM_ROWS]
    ]
    if rows:
        print_table(["topic", "records", "files", "bytes"], rows, right=(1, 2, 3))
    for topic, why in report.left_out.items():
        print_message(f"notice: this backup does not have {topic}: {why}")
    made = f"Backup {report.backup_id} of {format_short_time(report.created_at_ms)}"
    if not report.findings:
        print_lines(f"{made} is complete: every file is what was written.")
        return
    table = [[each.topic, each.path, each.text] for each in report.findings[:MAXIMUM_ROWS]]
    print_table(["topic", "file", "what is wrong"], table)
    print_lines(
        f"{made} is damaged: {format_count(len(report.findings), 'file')}. If the installation is still there, delete "
        f"them and run: winnow backup create {report.destination}"
    )


def _show_restored(report: RestoreReport) -> None:
    for topic in report.topics:
        if topic.notice:
            print_message(f"notice: {topic.topic} is restored as it was: {topic.notice}")
    for name, why in report.left_out.items():
        print_message(f"notice: the backup does not have {name}: {why}")
    records = sum(topic.records for topic in report.topics)
    print_lines(
        f"Restored backup {report.backup_id} of {format_short_time(report.created_at_ms)}: "
        f"{format_count(len(report.topics), 'topic')} with {format_count(records, 'record')}, "
        f"{format_count(report.store_rows, 'row')} of the metadata store.\nNext: winnow doctor"
    )


def _end_with_left_out(left_out: Mapping[str, str], what: str) -> None:
    for topic, why in left_out.items():
        print_error(ValidationFailedError(f"{topic} {what}: {why}"))
    if left_out:
        exit_with(ValidationFailedError.exit_code)


class _Progress(JobBar):
    """A bar over the bytes of the topic at hand on a terminal; elsewhere a line as each topic begins."""

    def __init__(self) -> None:
        super().__init__("Looking up what is there")
        self._phase = ""

    def __call__(self, phase: str, done_bytes: int, total_bytes: int) -> None:
        """Take in how far it is."""
        if phase != self._phase:
            self._phase = phase
            if not self._bar.is_shown and total_bytes:
                print_message(f"{phase}: {format_bytes(total_bytes)}")
        self._bar.move(done_bytes, total_bytes or None, phase)
