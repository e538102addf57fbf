"""``winnow sweep`` and ``winnow store rebuild``: what keeps disk and metadata store in order."""

from __future__ import annotations

from dataclasses import asdict

from winnow.cli.failures import exit_with, run_for_each_topic
from winnow.cli.options import Json, Topics
from winnow.cli.output import format_bytes, format_names, print_lines, write_json
from winnow.cli.world import choose_topics, open_installation


def sweep(topics: Topics = None, as_json: Json = False) -> None:
    """Remove replaced files whose grace has passed.

    The grace is winnow.retired.grace.ms, from the publish that replaced them. Only here do bytes leave the disk. A
    file that a snapshot still reaches stays. Sweeping again removes nothing more.

    Example: winnow sweep orders
    """
    with open_installation() as ctx:
        from winnow.pipeline.sweep import sweep_topics

        outcome = run_for_each_topic(choose_topics(ctx, topics), lambda topic: sweep_topics(ctx, [topic]))
    reports = [report for per_topic in outcome.results for report in per_topic]
    if as_json:
        if not outcome.all_failed:
            write_json([asdict(report) for report in reports])
    else:
        for report in reports:
            freed = f" {format_bytes(report.bytes_deleted)} freed." if report.files_deleted else ""
            print_lines(f"{report.message}{freed}")
    exit_with(outcome.exit_code)


def rebuild(topics: Topics = None) -> None:
    """Restore the metadata store from the tables.

    For a store that was lost or stems from an older backup: checkpoints, marks, retired files and receipts come
    back from each table and its state. Assessments and verdicts are history and are not invented.

    Example: winnow store rebuild
    """
    with open_installation() as ctx:
        from winnow.pipeline.rebuild import rebuild_store

        outcome = run_for_each_topic(choose_topics(ctx, topics), lambda topic: rebuild_store(ctx, [topic]))
    rebuilt = [topic for per_topic in outcome.results for topic in per_topic]
    if rebuilt:
        print_lines(f"Rebuilt the metadata store for {format_names(rebuilt)}.\nNext: winnow checkpoints")
    exit_with(outcome.exit_code)
