"""Mutants of integrity: how a change of what was written is found: digests, checksums, scrubs."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    drop_keyword,
    drop_statement,
    never,
    replace,
    return_value,
    set_keyword,
    swap_operator,
)
from tests.mutants.mutant import Mutant

INTEGRITY = (
    Mutant("segment-digest-not-compared", "what the manifests name is believed, whatever was committed")
    .changes("require_segments", replace("found == recorded", "True"))
    .caught_by("test_a_changed_bound_is_noticed_though_all_sums_are_right"),
    Mutant("damage-arrow-passes-over", "a byte of a segment that DuckDB alone cannot read is no damage")
    .changes("is_readable_by_duckdb", return_value("True", "describe_machine_fault"))
    .caught_by("test_byte_that_only_duckdb_minds_is_damage_too"),
    Mutant("segment-digest-made-anew", "a commit makes the digest from what it finds, and so accepts it")
    .changes("TopicLog._add_digests", always("live"))
    .caught_by("test_a_commit_in_between_does_not_heal_what_is_damaged"),
    Mutant("configuration-not-compared", "a configuration that another tool wrote holds at once")
    .changes("list_differences", replace("A is None", "True"))
    .caught_by("test_a_change_between_the_look_and_the_commit_is_found_by_the_next_look"),
    Mutant("configuration-accepted-by-any-commit", "a commit takes over the configuration that it finds")
    .changes("TopicLog._add_digests", always("accepts_configuration"))
    .caught_by("test_a_mark_or_a_pause_does_not_accept_a_changed_configuration"),
    Mutant("checksum-not-compared", "a manifest is decoded whatever the checksum in its name says")
    .changes("require_checksum", never("found"))
    .caught_by("test_every_changed_byte_is_found_before_anything_is_decoded"),
    Mutant("parsed-metadata-by-their-beginning", "a table's metadata are taken for others that begin alike")
    .changes("file_checksums._identify", return_value("data[:64]"))
    .caught_by("test_what_another_program_wrote_is_read_though_this_process_has_written_before"),
    Mutant("older-snapshots-unseen", "a commit adds a snapshot whose id an older one has")
    .changes("_concerns_newest", replace("A.snapshot_by_id(change.snapshot.snapshot_id) is None", "True"))
    .caught_by("test_updates_that_concern_older_snapshots_see_all_of_them"),
    Mutant("path-to-a-folder-is-no-damage", "a path in metadata that leads to a folder ends in Arrow's own error")
    .changes("make_missing_path_error", replace("str(problem).endswith(_FOLDER)", "False"))
    .caught_by("test_a_path_that_leads_to_a_folder_is_damage"),
    Mutant("no-current-snapshot-is-empty", "a table whose current snapshot cannot be found is an empty topic")
    .changes("find_contradiction", never("snapshots"))
    .caught_by("test_a_table_without_its_current_snapshot_is_not_an_empty_topic"),
    Mutant("entries-miscounted", "a block of a manifest may say that it has fewer entries than it has")
    .changes("manifests._read_rows", replace("A.tell() != B", "False"))
    .caught_by("test_a_block_that_says_it_has_fewer_entries_than_it_has_is_refused"),
    Mutant("read-without-checksums", "readers take pages as they come")
    .changes("read_segment", drop_keyword("page_checksum_verification"))
    .caught_by("test_segment_with_any_byte_changed_is_read_as_written_or_refused"),
    Mutant("row-group-cut-short", "pages that Arrow passed over are not missed")
    .changes("_read_group", swap_operator("!=", ">", "rows"))
    .caught_by("test_segment_with_any_byte_changed_is_read_as_written_or_refused"),
    Mutant("footer-at-shared-positions", "threads that read the footer of one file move each other's position")
    .changes("parquet_footer._read_end", never("SharedFile"))
    .caught_by("test_threads_that_share_a_file_of_arrow_read_its_footer_at_once"),
    Mutant("store-shares-positions", "threads that read ahead from an object store share one position")
    .changes("CheckedFile.__init__", replace("threading.local()", "type('Place', (), {})()"))
    .caught_by("test_each_thread_reads_from_where_it_has_sought"),
    Mutant("store-without-checksums", "what comes from an object store is handed over as it comes")
    .changes("CheckedFile.read", drop_statement("_check"))
    .caught_by("test_byte_that_changed_in_a_column_that_is_read_ends_the_query"),
    Mutant("quarantine-without-checksums", "quarantined records are read without their checksums")
    .changes("quarantine._read_rows", set_keyword("page_checksum_verification", "False"))
    .caught_by("test_quarantined_records_that_changed_are_refused"),
    Mutant("scrub-newest-first", "a scrub begins with what was checked last")
    .changes("_build_age_key", replace("-1 if A is None else A.checked_at_ms", "1 if A is None else -A.checked_at_ms"))
    .caught_by("test_budget_takes_the_files_that_were_checked_longest_ago_and_goes_on_where_it_was"),
    Mutant("scrub-skips-values", "a scrub leaves a column out")
    .changes("_read_group", set_keyword("columns", "ARROW_SCHEMA.names[:-1]"))
    .caught_by("test_sound_topic_is_read_in_full_and_nothing_is_found"),
    Mutant("scrub-tasks-skip-values", "a scrub on Spark takes a damaged file for a sound one")
    .changes("describe_file_fault", replace("FileFault(DAMAGED, A, B)", "FileFault(None, A, B)"))
    .caught_by("test_tasks_find_what_one_process_finds_and_leave_the_same_records"),
    Mutant("scrub-tasks-hide-failures", "a file that tasks could not read counts as read")
    .changes("Scrub._check_in_tasks", never("exit_code"))
    .caught_by("test_a_file_that_cannot_be_read_is_an_error_and_the_others_are_recorded"),
    Mutant("scrub-forgets-nothing", "segments that left the log keep their findings")
    .changes("Scrub.add", replace("A.keys() - B", "A.keys() - A.keys()"))
    .caught_by("test_segments_that_left_the_log_are_forgotten_and_their_alert_is_closed"),
    Mutant("audit-entry-overwritten", "an entry of another content with the same id is left out")
    .changes("AuditLog.record", replace("any(...)", "bool(known)"))
    .caught_by("test_entry_of_another_content_with_the_same_id_is_an_entry_of_its_own[sqlite]"),
    Mutant("dag-run-of-the-same-name", "a DAG run counts as the deleted one whose name it has")
    .changes("record_action", replace("installation.began", "''"))
    .caught_by("test_dag_run_that_was_deleted_and_triggered_again_under_its_name_is_recorded_beside_the_first"),
    Mutant("audit-digest-unchecked", "an entry that was changed counts as it was written")
    .changes("_ChainWalk._check", never("compute_entry_digest"))
    .caught_by("test_first_break_is_named[sqlite]"),
    Mutant("audit-end-unchecked", "the newest entries can go unnoticed")
    .changes("check_chain", never("last_digest"))
    .caught_by("test_first_break_is_named[sqlite]"),
    Mutant("audit-writers-beside-each-other", "two writers chain their entries to the same one")
    .changes("lock_chain", replace("session.get(A, B, with_for_update=True)", "session.get(A, B)"))
    .caught_by("test_writers_at_once_make_one_chain[postgresql]"),
    Mutant("audit-pruned-in-the-middle", "retention leaves a gap in the chain")
    .changes("remove_oldest", never("first_kept"))
    .caught_by("test_retention_removes_from_the_beginning_and_the_rest_holds[sqlite]"),
)
