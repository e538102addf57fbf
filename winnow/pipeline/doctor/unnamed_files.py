"""Reports the files and links in topics' folders that nothing of Winnow's names: no sweep deletes them."""

from __future__ import annotations

from winnow.config.settings import Settings
from winnow.errors import WinnowError, join_first
from winnow.pipeline.doctor.check_runner import CheckResult, build_ok, build_warning
from winnow.store import Store
from winnow.values.counts import format_count

MAXIMUM_SHOWN_TOPICS = 5

CHECK = "unnamed-files"


def check_unnamed_files(settings: Settings) -> list[CheckResult]:
    """Report what the last sweep of each topic came across; nothing is listed for it."""
    try:
        with Store.open_to_read(settings.store_url) as store:
            found = store.table_health.list_unnamed() if store.exists else {}
    except WinnowError:
        return []  # the check of the store says why
    if not found:
        return [build_ok(CHECK, "The last sweeps came across nothing that no record names.")]
    shown = join_first([f"{topic} ({count:,})" for topic, count in found.items()], MAXIMUM_SHOWN_TOPICS, ", ")
    return [
        build_warning(
            CHECK,
            f"{format_count(sum(found.values()), 'path')} that nothing names, seen by the last sweep of {shown}. They "
            "stay: somebody else put them there, or a record of them is lost.",
            f"See which they are, and remove by hand what nobody needs: winnow sweep {next(iter(found))} --json",
        )
    ]
