"""Mutants of how old a table of the latest state may be: since when a record waits, and who looks at that."""

from __future__ import annotations

from tests.mutants.changes import drop_operand, drop_statement, never, replace, swap_operator
from tests.mutants.mutant import Mutant

FRESHNESS = (
    Mutant("fresh-youngest-counts", "a table is late by its youngest missing record")
    .changes("latest_progress._advance", replace("min(times, default=None)", "max(times, default=None)"))
    .caught_by("test_a_table_is_late_once_its_oldest_missing_record_is_older_than_the_limit"),
    Mutant("fresh-shown-still-waits", "an append that is noted after the update that shows it counts as missing")
    .changes("latest_progress._advance", swap_operator(">", ">=", "shown_sequence"))
    .caught_by("test_an_append_that_is_noted_after_the_update_that_shows_it_is_not_missing"),
    Mutant("fresh-update-hides-append", "an update says that all is shown, though records came since it looked")
    .changes("LatestTables.record_shown", never("seen_sequence"))
    .caught_by("test_an_update_that_saw_an_older_log_is_told_to_look_again"),
    Mutant("fresh-gap-unnoticed", "an append whose process died before the store knew hides behind the next one")
    .changes("latest_progress._advance", drop_operand("follows"))
    .caught_by("test_a_commit_after_one_that_nobody_noted_is_not_accounted_for"),
    Mutant("fresh-unaccounted-unwatched", "a watch does not look where a commit is not accounted for")
    .changes("watch._check_latest_tables", replace("{*A.list_unaccounted()}", "set()"))
    .caught_by("test_an_append_whose_process_died_before_the_store_knew_is_found_by_the_next_watch"),
    Mutant("fresh-alert-unchecked", "a watch alerts by the store's word, without a look at the table")
    .changes("watch._check_latest_tables", replace("measure_progress(A, B)", "store.find(topic)"))
    .caught_by("test_an_assessment_of_a_store_that_was_lost_finds_the_table_again"),
    Mutant("fresh-update-unrecorded", "an update leaves the record of what was missing before it")
    .changes("table.update_latest_table", drop_statement("record_update"))
    .caught_by("test_an_idle_topic_whose_table_shows_everything_is_never_late"),
    Mutant("fresh-due-taken-twice", "two processes update the same table at once")
    .changes("LatestTables.claim", replace("A == due.due_ms", "A == A"))
    .caught_by("test_of_many_processes_one_takes_an_update_that_is_due"),
)
