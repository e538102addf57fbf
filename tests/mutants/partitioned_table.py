"""Mutants of typed tables that are partitioned by columns: what goes into which file, and what metadata say of it."""

from __future__ import annotations

from tests.mutants.changes import always, drop_statement, never, replace
from tests.mutants.mutant import Mutant

PARTITIONED_TABLE = (
    Mutant("placed-rows-mixed", "a file has rows of other partition values than the manifest says, and is skipped")
    .changes("TablePlacement.split", replace("np.argsort(A, kind='stable')", "np.arange(rows.num_rows)"))
    .caught_by("test_every_row_is_in_the_part_of_the_values_that_iceberg_gives_it"),
    Mutant("placed-bounds-of-first-rows", "the bounds of a file are those of its first rows")
    .changes("_OneSchemaWriter.write_after", replace("(min(A, B[0]), max(C, B[1]))", "B"))
    .caught_by("test_bounds_of_a_file_are_those_of_all_of_its_rows"),
    Mutant("placed-bounds-too-low", "an upper bound of long text is below the values, and their file is skipped")
    .changes("table._make_bounds", replace("truncate_upper_bound_text_string(A, B)", "A[:B]"))
    .caught_by("test_metadata_and_footers_have_bounds_of_the_columns_that_were_named_and_of_no_others"),
    Mutant("placed-footers-have-all", "the footers of files have minima and maxima of all columns")
    .changes("_OneSchemaWriter.__init__", replace("[A, B, C, *D]", "True"))
    .caught_by("test_metadata_and_footers_have_bounds_of_the_columns_that_were_named_and_of_no_others"),
    Mutant("placed-gone-values-stay", "the newest snapshot has partition values and bounds of rows that were erased")
    .changes("log_update._drop_place", always("len"))
    .caught_by("test_values_of_rows_that_are_gone_are_not_in_the_metadata_of_the_newest_snapshot"),
    Mutant("placed-layout-goes-on", "files of another layout stay in the table")
    .changes("_describe_other_layout", never("terms"))
    .caught_by("test_another_layout_writes_the_table_anew_in_one_commit_and_older_snapshots_can_be_read"),
    Mutant("placed-hidden-column", "a table is partitioned by a column that its rules hide")
    .changes("topic._check_layout", never("hidden"))
    .caught_by("test_a_layout_names_columns_that_are_shown"),
    Mutant("placed-missing-column", "a table is partitioned by a column that it does not have")
    .changes("TablePlacement.require_columns", never("source"))
    .caught_by("test_a_layout_that_cannot_be_leaves_the_table_as_it_was"),
    Mutant("placed-fractions", "a table is partitioned by fractions, of which equal ones may be different")
    .changes("TablePlacement._require_type", replace("isinstance(A, _OF_VALUES)", "True"))
    .caught_by("test_a_layout_that_cannot_be_leaves_the_table_as_it_was"),
    Mutant("placed-files-unlimited", "an update writes as many files as there are values")
    .changes("TablePlacement.require_few_files", never("MAXIMUM_FILES"))
    .caught_by("test_an_update_that_would_write_too_many_files_leaves_none"),
    Mutant("placed-open-files-unlimited", "as many files are open as there are values")
    .changes("PlacedFileWriter._release", drop_statement("_close"))
    .caught_by("test_however_many_places_there_are_few_files_are_open_and_none_is_lost"),
    Mutant("placed-held-rows-unlimited", "rows of all places wait in memory")
    .changes("PlacedFileWriter._release", drop_statement("flush"))
    .caught_by("test_however_many_places_there_are_few_files_are_open_and_none_is_lost"),
    Mutant("placed-small-files-of-all", "small files of other places are written again, and none is put together")
    .changes("TypedForm.group_files", always("placement"))
    .caught_by("test_small_files_of_one_place_are_put_together_and_those_of_others_stay"),
    Mutant("placed-foreign-spec", "a table that another program partitioned is taken for Winnow's")
    .changes("find_contradiction", never("matches_layout"))
    .caught_by("test_a_table_that_another_program_partitioned_is_not_touched"),
    Mutant("placed-former-specs-stay", "lists of a table's files fail for ever at a spec whose column is gone")
    .changes("table_files._sweep", drop_statement("remove_former_specs"))
    .caught_by("test_the_columns_of_a_former_layout_may_be_gone"),
    Mutant("placed-used-spec-removed", "a kept snapshot has files of a spec that is gone, and cannot be read")
    .changes("remove_former_specs", replace("former - _list_used_specs(table)", "former"))
    .caught_by("test_the_columns_of_a_former_layout_may_be_gone"),
    Mutant("placed-spec-raced", "a commit's spec replaces one that another process made meanwhile")
    .changes("stage_schema", replace("(AssertDefaultSpecId.model_validate(A),)", "()"))
    .caught_by("test_a_commit_fails_if_another_process_partitioned_the_table_meanwhile"),
    Mutant("sorted-nulls-misplaced", "rows without a value are at the other end of a file than its order says")
    .changes("RowSorter._sort_run", replace("'ascending' if key.has_nulls_last else 'descending'", "'ascending'"))
    .caught_by("test_rows_are_sorted_by_the_terms_and_then_by_offset"),
    Mutant("sorted-runs-not-merged", "rows of one run follow those of another")
    .changes("RowSorter._merge", replace("np.argsort(A, kind='stable')", "np.arange(len(A))"))
    .caught_by("test_rows_are_sorted_by_the_terms_and_then_by_offset"),
    Mutant("sorted-update-not", "what an update writes is in the order of offsets")
    .changes("latest_rows.write_rows", replace("form.sort is None", "True"))
    .caught_by("test_rows_of_a_sorted_table_are_in_its_order_in_every_file_after_every_update"),
    Mutant("sorted-order-goes-on", "files of another order stay in the table")
    .changes("_describe_other_layout", never("order"))
    .caught_by("test_rows_of_a_sorted_table_are_in_its_order_in_every_file_after_every_update"),
    Mutant("sorted-order-not-declared", "the table does not say in which order its files are")
    .changes("LatestTable.commit", replace("any(orders)", "False"))
    .caught_by("test_rows_of_a_sorted_table_are_in_its_order_in_every_file_after_every_update"),
    Mutant("sorted-bounds-of-last-rows", "the offsets of a sorted file are those of its last rows")
    .changes("_OneSchemaWriter.write_after", replace("min(lowest, self._first)", "lowest"))
    .caught_by("test_rows_of_a_sorted_table_are_in_its_order_in_every_file_after_every_update"),
)
