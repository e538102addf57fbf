"""Mutants of the typed table: which rows it has, what judges it, and what of it must go."""

from __future__ import annotations

from tests.mutants.changes import always, drop_operand, drop_statement, never, replace, replace_text, return_value
from tests.mutants.mutant import Mutant

TYPED_TABLE = (
    Mutant("typed-lost-row-unnoticed", "an update that lost a row is committed")
    .changes("latest_facts._compute", replace("0 if partition.drops_rows else A", "0"))
    .caught_by("test_every_update_is_judged_before_its_commit"),
    Mutant("typed-masks-left-out", "rows are written as they were decoded, whatever the rules say")
    .changes("RecordDecoder._mask", replace("mask_rows(A, B, C, D)", "A"))
    .caught_by("test_fields_that_are_hidden_or_masked_leave_the_table_and_its_old_snapshots"),
    Mutant("decoded-bytes-beside-masks", "a decoded record has the bytes that rules hide beside it")
    .changes("DecodedReading.add_columns", replace("not (A and B)", "True"))
    .caught_by("test_hidden_fields_are_nowhere_in_what_is_decoded"),
    Mutant("decoded-digits-lost", "a decimal is shown as a number of binary digits")
    .changes("json_rows._list_values", replace("array.to_pylist()", "[v and float(v) for v in array.to_pylist()]"))
    .caught_by("test_records_are_shown_as_json_beside_their_bytes"),
    Mutant("view-with-undecoded-rows", "the view of decoded rows has rows that could not be decoded")
    .changes("build_decoded_sql", replace_text(" IS NULL", " IS NULL OR true"))
    .caught_by("test_spark_reads_the_view_that_a_rest_catalog_holds"),
    Mutant("typed-raw-beside-masks", "the bytes that masks hide stand in __raw")
    .changes("TableRows._evolve", replace("A if B else ()", "()"))
    .caught_by("test_fields_that_are_hidden_or_masked_leave_the_table_and_its_old_snapshots"),
    Mutant("typed-old-snapshots-stay", "a snapshot of before shows fields that are hidden now")
    .changes("LatestHead.shows_other_shapes", return_value("False", "shapes"))
    .caught_by("test_fields_that_are_hidden_or_masked_leave_the_table_and_its_old_snapshots"),
    Mutant("typed-form-goes-on", "a table goes on although its rows are made in another way")
    .changes("table._find_base", never("shape"))
    .caught_by("test_another_form_of_columns_rewrites_the_table_and_no_form_makes_it_one_of_records_again"),
    Mutant("typed-deleted-rows-stay", "a row that was deleted in the database is a row without fields")
    .changes("RowMaker.convert", never("deleted"))
    .caught_by("test_the_typed_table_of_change_events_is_the_table"),
    Mutant("typed-event-fields-lost", "fields of the event are not beside those of its row")
    .changes("debezium._add_fields", always("added"))
    .caught_by("test_the_typed_table_of_change_events_is_the_table"),
    Mutant("typed-rows-out-of-place", "the rows of several schemas in one batch are given to each other's records")
    .changes("row_maker._gather", replace("np.arange(len(A))", "np.arange(len(A))[::-1]"))
    .caught_by("test_rows_equal_the_oracle_s_winners_after_any_history"),
    Mutant("typed-gone-rows-stay", "a row that was superseded stays in its file")
    .changes("TypedForm._read_file", never("is_gone"))
    .caught_by("test_rows_equal_the_oracle_s_winners_after_any_history"),
    Mutant("latest-not-after-erasure", "a table that shows no erased key is not said to be that of the log after it")
    .changes("table._shows_same", drop_operand("_list_erasures"))
    .caught_by("test_erasing_a_key_that_no_row_has_is_through_at_once"),
    Mutant("latest-late-after-ingests", "a table that is to follow ingests waits for a publish")
    .changes("IngestCommit.commit_prepared", never("UpdateTime"))
    .caught_by("test_a_table_that_follows_ingests_shows_each_of_them"),
    Mutant("typed-columns-of-a-task-lost", "rows of a task leave out what the table has no column for")
    .changes("TaskRows._require_same", never("equals"))
    .caught_by("test_only_the_partitions_that_need_new_columns_are_written_again"),
    Mutant("typed-renamed-field-unknown-to-tasks", "a task does not know by which names other partitions hide a field")
    .changes("TaskRows.convert", never("fields"))
    .caught_by("test_a_field_that_was_renamed_in_one_partition_is_masked_in_all"),
    Mutant("latest-files-of-failed-tasks-stay", "what tasks wrote stays where one of them failed")
    .changes("carry_out_update_plan", drop_statement("remove_written"))
    .caught_by("test_where_one_partition_cannot_be_read_nothing_is_left_and_the_table_is_as_before"),
    Mutant("latest-ranges-without-a-column-stay", "what tasks wrote stays where another range needs a further column")
    .changes("latest_job._merge_results", drop_statement("remove_written"))
    .caught_by("test_a_large_partition_one_range_of_which_needs_a_further_column_is_written_again"),
    Mutant("latest-ranges-not-judged", "rows of a large partition are committed as its tasks wrote them")
    .changes("latest_job._build_judging_units", always("shares"))
    .caught_by("test_a_large_partition_is_found_written_and_judged_by_many_tasks"),
    Mutant("latest-first-share-judges-its-keys-alone", "a row of no record goes unnoticed in a large partition")
    .changes("latest_facts._create_shown", replace("('ANTI', '<>')", "('SEMI', '=')"))
    .caught_by("test_shares_of_a_partition_find_together_what_is_found_of_the_whole"),
    Mutant("latest-lists-stay", "what tasks of a large partition listed for others stays in the staging area")
    .changes("job_notes.end_job", drop_statement("delete_unreferenced", "lists"))
    .caught_by("test_where_one_partition_cannot_be_read_nothing_is_left_and_the_table_is_as_before"),
    Mutant("typed-proof-empty", "the proof that an erased key is gone does not look at typed rows")
    .changes("count_rows_without_record", replace("int(A[0])", "0"))
    .caught_by("test_rows_whose_records_are_not_in_the_log_are_counted"),
)
