"""What programs that read the log are promised, what is put into other people's folders, and files of HDFS."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    assign,
    drop_element,
    drop_operand,
    drop_statement,
    never,
    replace,
    replace_text,
    return_value,
    set_keyword,
)
from tests.mutants.mutant import Mutant

READERS = (
    Mutant("latest-shows-deleted-keys", "the latest value of a key that was deleted is the tombstone")
    .changes("read_partition_latest", always("null_count"))
    .caught_by("test_latest_of_a_deleted_key_is_nothing_also_where_an_older_value_is_still_in_the_log"),
    Mutant("latest-without-checksums", "the latest state is read without the checksums of its pages")
    .changes("read_latest_records", drop_statement("check_local_pages"))
    .caught_by("test_damaged_value_is_found_and_the_segment_named"),
    Mutant("changes-within-a-file", "records of a file that both sides have, between the two offsets, change no key")
    .changes("key_changes.create_candidates", drop_statement("selects", "append"))
    .caught_by("test_bounds_inside_one_file_are_between_its_records"),
    Mutant("undone-record-unnoticed", "a record at the offset of an undone one counts as the same")
    .changes("find_snapshot_extents", set_keyword("compares_records", "False"))
    .caught_by("test_record_at_the_offset_of_an_undone_one_is_an_update"),
    Mutant("changes-from-what-is-gone", "changes are told from an offset whose records a compaction has removed")
    .changes("changes._choose_bounds", never("cleaned"))
    .caught_by("test_state_before_a_compaction_is_asked_by_snapshot_and_refused_by_offset"),
    Mutant("folder-of-a-failure", "files of a reading that failed stay beside the folder")
    .changes("private_files._hold_folder", drop_statement("_remove"))
    .caught_by("test_a_damaged_segment_leaves_the_folder_empty[local]"),
    Mutant("folder-keeps-copies", "copies of records stay in the staging area")
    .changes("folder._write_on_spark", drop_statement("remove_staged_files"))
    .caught_by("test_a_damaged_segment_leaves_the_folder_empty[spark]"),
    Mutant("folder-drafts-of-the-killed-stay", "records that a killed reading wrote stay beside the folder for ever")
    .changes("make_draft_folder", drop_statement("_remove_abandoned"))
    .caught_by("test_a_draft_beside_a_folder_goes_when_its_writer_was_killed_and_nothing_else_there_does"),
    Mutant("folder-neighbours-deleted", "what people named like a draft is deleted")
    .changes("private_files._remove_abandoned", replace("_OWN_NAME.fullmatch(A) is None", "False"))
    .caught_by("test_a_draft_beside_a_folder_goes_when_its_writer_was_killed_and_nothing_else_there_does"),
    Mutant("quarantine-footer-unread", "a changed byte in a quarantined file's footer ends the process of who reads it")
    .changes("quarantine._read_rows", drop_statement("require_readable_footer"))
    .caught_by("test_a_changed_byte_of_a_footer_never_ends_the_process"),
    Mutant("job-without-note", "nothing names the files of a call that is killed, and they stay")
    .changes("run_plan_job", drop_statement("write_job_note"))
    .caught_by("test_what_a_killed_reading_left_goes_with_a_sweep_after_the_grace_and_with_the_next_reading"),
    Mutant("job-at-work-swept", "a sweep deletes the files of a job that is at work")
    .changes("sweep_jobs", never("began_ms"))
    .caught_by("test_what_a_killed_reading_left_goes_with_a_sweep_after_the_grace_and_with_the_next_reading"),
    Mutant("job-of-many-topics-swept-early", "a sweep of a topic with a short grace takes the plan of a long scrub")
    .changes("sweep_jobs", replace("A if note.topic else MANY_TOPICS_GRACE_MS", "A"))
    .caught_by("test_what_a_killed_call_left_goes_with_the_first_sweep_after_the_grace_and_its_note_with_the_next"),
    Mutant("job-note-goes-first", "what tasks write after their command was killed is named by nothing")
    .changes("sweep_jobs", replace("grace_ms is None or not named", "True"))
    .caught_by("test_what_a_killed_reading_left_goes_with_a_sweep_after_the_grace_and_with_the_next_reading"),
    Mutant("job-note-believed", "a note leads to files of another job than its own")
    .changes("sweep_jobs", never("_locate_note"))
    .caught_by("test_a_note_that_says_something_else_than_its_name_names_nothing"),
    Mutant("job-documents-of-others-go", "a sweep deletes the plan of a job that is at work")
    .changes("is_job_document", drop_operand("startswith"))
    .caught_by("test_documents_of_an_erasure_that_was_killed_go_with_a_sweep"),
    Mutant("folder-for-everybody", "a folder that was for its owner is readable for others, or the other way round")
    .changes("write_folder", drop_statement("copymode"))
    .caught_by("test_the_folder_keeps_its_rights"),
    Mutant("folder-with-files", "files are written beside those of somebody else")
    .changes("choose_folder", never("iterdir"))
    .caught_by("test_spark_and_one_file_are_refused_and_a_folder_with_files_stays[read]"),
    Mutant("folder-parts-overlap", "a part of a cut segment reads what the next one reads")
    .changes("read_parts._read_records", replace("batch.slice(A, B)", "batch"))
    .caught_by("test_parts_of_any_size_have_every_record_once[1]"),
    Mutant("folder-attempt-stays", "what a failed attempt wrote stays where it was written")
    .changes("write_read_file", drop_statement("delete_unreferenced"))
    .caught_by("test_a_task_that_fails_while_it_writes_leaves_no_file"),
    Mutant("folder-takes-what-lies-there", "a staged file that somebody replaced becomes part of the folder")
    .changes("folder._copy_file", drop_element("file.digest"))
    .caught_by("test_a_staged_file_that_somebody_replaced_is_refused"),
    Mutant("folder-swept-is-damage", "a segment that was swept meanwhile is called damaged")
    .changes("folder._raise_failure", never("live"))
    .caught_by("test_a_segment_swept_meanwhile_says_to_run_again"),
    Mutant("query-forgets-the-log-start", "a query shows records that were deleted below the log start")
    .changes("records.build_query", replace("LatestQuery(A, B, C, D)", "LatestQuery(A, B, {}, D)"))
    .caught_by("test_query_leaves_out_records_below_the_log_start_and_says_that_it_grows_old"),
    Mutant("order-of-others-claimed", "files name a sort order that somebody else declared")
    .changes("find_sort_order_id", return_value("declared.order_id"))
    .caught_by("test_order_that_somebody_else_declared_stays"),
    Mutant("files-of-others-replaced", "installing DAGs replaces a file that did not come from Winnow")
    .changes("_list_foreign", return_value("[]", "known"))
    .caught_by("test_a_file_of_somebody_else_is_not_replaced"),
    Mutant("installation-without-both-hashes", "an installation that was killed takes its own files for somebody's")
    .changes("_copy_all", drop_statement("_write_record", "both"))
    .caught_by("test_copying_that_was_killed_is_completed"),
    Mutant("file-in-hdfs-seen-early", "a file of HDFS is there under its name while it is written")
    .changes("HadoopHandler.open_output_stream", assign("target", "uuid4"))
    .caught_by("test_a_file_that_is_being_written_is_not_there_yet"),
    Mutant("dbt-freshness-of-the-load", "a source of dbt is as fresh as its last load, however old its rows are")
    .changes("_write_dbt_source", replace_text("loaded_at_field: {time}", "loaded_at_query: SELECT now()"))
    .caught_by("test_dbt_builds_and_shows_its_model_when_its_project_is_pasted"),
    Mutant("connect-below-log-start", "a printed program shows records that delete-records removed")
    .changes("TableAccess.build_readable_condition", return_value("''"))
    .caught_by("test_python_readers_print_records_when_they_are_pasted"),
    Mutant("connect-clickhouse-order", "ClickHouse takes the order of each file for that of the table")
    .changes("connect_clickhouse", replace_text("SETTINGS optimize_read_in_order = 0", "SETTINGS log_queries = 0"))
    .caught_by("test_clickhouse_prints_records_when_its_statements_are_pasted"),
    Mutant("latest-of-one-share", "keys of all shares of a large partition but one are not among its latest records")
    .changes("latest_shares._split_by_offsets", assign("(found[0].survivors,)", "survivors"))
    .caught_by("test_a_large_partition_s_latest_state_is_read_by_many_tasks[offset]"),
    Mutant("latest-of-unchecked-pages", "damage of a large partition goes into the files that somebody takes away")
    .changes("find_latest_share", drop_statement("check_local_pages"))
    .caught_by("test_shares_of_a_large_partition_check_the_pages_of_each_file_once"),
)
