"""Step of the DAG ingest_topics that appends files."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from winnow.errors import WinnowError
from winnow.values.counts import format_count
from winnow_airflow.task_defaults import combine_errors, describe_error
from winnow_airflow.xcom_values import IngestRow

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

log = logging.getLogger("airflow.task")


def ingest_entries(installation: Installation, entries: Sequence[IngestRow], *, as_of_ms: int) -> list[str]:
    """Append the files of each entry, one commit each. Returns a sentence per entry.

    Raises:
        WinnowError: of the entries that failed, naming their topics. Later entries of the same topic were not tried:
            their offsets would have made those before them late. All others are appended.
    """
    errors: dict[str, Exception] = {}
    done = []
    for entry in entries:
        topic = entry["topic"]
        if topic in errors:
            log.warning("%s: an entry was not tried, because the one before it failed.", topic)
            continue
        try:
            done.append(_ingest_entry(installation, entry, as_of_ms=as_of_ms))
        except Exception as problem:  # raised when the other entries are done
            errors[topic] = problem
            known = isinstance(problem, WinnowError)
            log.error("Topic %s: %s", topic, describe_error(problem), exc_info=not known)
    if errors:
        raise combine_errors(list(errors.items()))
    return done


def _ingest_entry(installation: Installation, entry: IngestRow, *, as_of_ms: int) -> str:
    from winnow.pipeline.ingest.ingest import ingest_files
    from winnow.sources.ingest_roots import check_ingest_paths

    check_ingest_paths(entry["paths"], installation.settings.ingest.roots)
    done = ingest_files(
        installation, entry["topic"], entry["paths"], as_of_ms=as_of_ms, source_topic=entry.get("source_topic")
    )
    for notice in done.notices:
        log.warning("%s: %s", done.topic, notice)
    text = (
        f"{done.topic}: {done.records_appended:,} records appended from {format_count(done.files, 'file')}, "
        f"{done.records_skipped:,} were there already, {done.records_quarantined:,} went to quarantine."
    )
    if done.records_left_out:
        text += f" {done.records_left_out:,} of other topics than {done.source_topic} were left out."
    log.info("%s", text)
    return text
