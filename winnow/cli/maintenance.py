"""``winnow sweep`` and ``winnow store rebuild``: what keeps disk and metadata store in order."""

from __future__ import annotations

from dataclasses import asdict

from winnow.cli.failures import each_topic, finish
from winnow.cli.options import Json, Topics
from winnow.cli.output import human_bytes, names, tell, write_json
from winnow.cli.world import named_or_all, world


def sweep(topics: Topics = None, as_json: Json = False) -> None:
    """Remove replaced files whose grace has passed.

    The grace is winnow.retired.grace.ms, from the publish that replaced them. Only here do bytes leave the disk. A
    file that a snapshot still reaches stays. Sweeping again removes nothing more.

    Example: winnow sweep orders
    """
    with world() as ctx:
        from winnow.pipeline.sweep import sweep as sweep_topics

        outcome = each_topic(named_or_all(ctx, topics), lambda topic: sweep_topics(ctx, [topic]))
    reports = [report for per_topic in outcome.results for report in per_topic]
    if as_json:
        if not outcome.all_failed:
            write_json([asdict(report) for report in reports])
    else:
        for report in reports:
            freed = f" {human_bytes(report.bytes_deleted)} freed." if report.files_deleted else ""
            tell(f"{report.message}{freed}")
    finish(outcome.exit_code)


def rebuild(topics: Topics = None) -> None:
    """Restore the metadata store from the tables.

    For a store that was lost or stems from an older backup: checkpoints, marks, retired files and receipts come
    back from each table and its state. Assessments and verdicts are history and are not invented.

    Example: winnow store rebuild
    """
    with world() as ctx:
        from winnow.pipeline.rebuild import rebuild_store

        outcome = each_topic(named_or_all(ctx, topics), lambda topic: rebuild_store(ctx, [topic]))
    rebuilt = [topic for per_topic in outcome.results for topic in per_topic]
    if rebuilt:
        tell(f"Rebuilt the metadata store for {names(rebuilt)}.\nNext: winnow checkpoints")
    finish(outcome.exit_code)
