"""Mutants of how old a table of the latest state may be: since when a record waits, and who looks at that."""

from __future__ import annotations

from tests.mutants.changes import drop_operand, drop_statement, never, replace, return_value, swap_operator
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
    Mutant("suite-only-warns", "a critical expectation over typed columns that does not hold stops nothing")
    .changes("latest_content._judge_partition", replace("A.severity", "type(A.severity).WARN"))
    .caught_by("test_rows_that_violate_the_suite_are_not_shown_and_named_by_field_count_and_offset"),
    Mutant("suite-of-unknown-columns", "an expectation on a column that there is not is passed over")
    .changes("latest_content._list_columns", never("path"))
    .caught_by("test_a_suite_that_names_a_column_that_there_is_not_leaves_the_table_as_it_was"),
    Mutant("suite-judges-undecoded", "rows without fields are judged by a suite over fields")
    .changes("latest_content._read_frames", replace("batch.filter(A)", "batch"))
    .caught_by("test_rows_that_could_not_be_decoded_are_no_matter_of_the_suite"),
    Mutant("undecoded-limit-ignored", "undecoded rows are alerted however many the topic allows")
    .changes("LatestJudge.merge", replace("A * max_undecoded_ratio", "0"))
    .caught_by("test_undecoded_rows_are_alerted_above_the_limit_with_their_partition_and_first_offsets"),
    Mutant("suspect-recovers-elsewhere", "an update of another partition closes the alert on undecoded rows")
    .changes("judgement._alert_suspect", replace("judged - {A for finding in B}", "{0, 1}"))
    .caught_by("test_undecoded_rows_are_alerted_above_the_limit_with_their_partition_and_first_offsets"),
    Mutant("fresh-watch-updates-nothing", "a tick of watch_topics leaves tables that are due as they are")
    .changes("monitoring.watch_topics", drop_statement("update_due_tables"))
    .caught_by("test_a_run_brings_a_table_of_the_latest_state_up_to_date_that_is_due"),
    Mutant("cause-by-name-alone", "an expectation of a team's suite is taken for Winnow's own of the same name")
    .changes("failure_causes.find_cause", never("suite"))
    .caught_by("test_alert_on_a_content_suite_names_the_suite_the_count_and_the_first_offsets_and_no_value"),
    Mutant("cause-of-warnings", "a warning sends the operator to another section")
    .changes("failure_causes.list_causes", replace("failure.severity is A", "True"))
    .caught_by("test_a_warning_is_the_cause_of_nothing"),
    Mutant("violations-of-the-last-chunk", "the first records that violate a suite are those of the last chunk")
    .changes("content_validation.find_violations", replace("[*A, *offsets]", "offsets"))
    .caught_by("test_bad_records_are_counted_and_the_first_three_named_by_offset"),
    Mutant("message-links-to-a-file", "a message links to a file of the machine that wrote it")
    .changes("evidence.remove_local_scheme", return_value("text"))
    .caught_by("test_no_message_has_a_link_to_a_file_of_one_machine[validation_failed]"),
    Mutant("runbook-of-any-segment", "of several damaged segments the runbook fills in the first")
    .changes("alerts.get_runbook", replace("len(damaged) == 1", "damaged"))
    .caught_by("test_runbook_of_an_alert_knows_the_path_of_its_only_damaged_segment"),
)
