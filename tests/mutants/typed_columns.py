"""Mutants of typed columns: what becomes of the fields of keys and values, and what of them may be seen."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    drop_operand,
    never,
    replace,
    set_keyword,
)
from tests.mutants.mutant import Mutant

TYPED_COLUMNS = (
    Mutant("null-rows-become-rows", "a struct that is null becomes one whose fields are null")
    .changes("build_rows", set_keyword("mask", "None"))
    .caught_by("test_rows_of_any_type_lose_no_value_in_whatever_order_types_arrive"),
    Mutant("lost-field-unnoticed", "rows with a field that has no place are written without it")
    .changes("project_rows", never("equals"))
    .caught_by("test_rows_of_a_type_that_was_never_merged_are_refused"),
    Mutant("one-column-twice", "two fields of one row type get the same column")
    .changes("_Placement.fits", drop_operand("taken"))
    .caught_by("test_two_fields_of_one_row_never_share_a_column"),
    Mutant("kinds-mixed", "a field goes into a column of another kind")
    .changes("_Placement.fits", drop_operand("_is_same_kind"))
    .caught_by("test_another_kind_becomes_a_second_column_named_after_it"),
    Mutant("key-in-value-column", "a key's field goes into the column of the value's field of that name")
    .changes("_Placement.fits", drop_operand("find_side"))
    .caught_by("test_a_field_that_value_and_key_both_have_is_two_columns"),
    Mutant("columns-narrow", "a column becomes as narrow as what arrives")
    .changes("_merge_types", replace("max(A, B, key=C)", "B"))
    .caught_by("test_a_column_widens_as_iceberg_can"),
    Mutant("column-case-kept", "names that differ only in case are two columns of almost the same name")
    .changes("_Placement.is_free", replace("A.casefold()", "A"))
    .caught_by("test_names_that_differ_only_in_case_are_two_columns"),
    Mutant("alias-takes-living-field", "a field with an alias takes the column of a field that is still there")
    .changes("_find_renamed", drop_operand("arriving_names"))
    .caught_by("test_an_alias_of_a_field_that_is_still_there_or_of_another_kind_renames_nothing"),
    Mutant("late-former-name", "rows under a former name that arrive after the rename get a column of their own")
    .changes("_note_aliases", never("is_free"))
    .caught_by("test_an_alias_renames_a_column_and_rows_under_its_former_name_still_find_it"),
    Mutant("system-names-taken", "a field may be called as a column of the table itself")
    .changes("_name_column", drop_operand("startswith"))
    .caught_by("test_names_that_a_table_or_iceberg_uses_are_changed"),
    Mutant("iceberg-names-taken", "a field may be called as a metadata column of Iceberg")
    .changes("_name_column", drop_operand("_RESERVED"))
    .caught_by("test_names_that_a_table_or_iceberg_uses_are_changed"),
    Mutant("column-ids-not-kept", "a column gets a new id with each change of the schema")
    .changes("_evolve_fields", replace("A.pop(B, None)", "None"))
    .caught_by("test_no_id_is_ever_given_to_two_columns_and_none_changes"),
    Mutant("column-ids-given-again", "a new column gets the id of one that the table had before")
    .changes("evolve_schema", replace("max(A, B)", "B"))
    .caught_by("test_no_id_is_ever_given_to_two_columns_and_none_changes"),
    Mutant("rename-loses-values", "a renamed column is a new one, without the values of before")
    .changes("_evolve_fields", replace("A.pop(B[-1]) if C else None", "None"))
    .caught_by("test_every_step_is_read_right_by_pyiceberg_and_duckdb"),
    Mutant("schema-raced", "a commit's schema replaces one that another process made meanwhile")
    .changes("stage_schema", replace("(AssertCurrentSchemaId.model_validate(A),)", "()"))
    .caught_by("test_a_commit_fails_if_another_process_changed_the_schema_meanwhile"),
    Mutant("undecoded-nulls-counted", "readers are told that a typed file has no nulls in __raw, and leave it out")
    .changes("make_data_file", never("SystemColumn"))
    .caught_by("test_rows_without_undecoded_bytes_are_found_by_a_query_for_them"),
    Mutant("bounds-of-user-columns", "a field named as a column of the log gets bounds in the metadata")
    .changes("typed_schema._list_schema_updates", never("outdated"))
    .caught_by("test_no_program_is_told_to_write_bounds_of_what_comes_from_keys_and_values"),
    Mutant("large-integers-rounded", "an integer that a float64 does not hold goes into a column of fractions")
    .changes("_find_integer", always("_EXACT_IN_DOUBLE"))
    .caught_by("test_documents_in_conflict_are_rows_of_different_types"),
    Mutant("json-columns-unlimited", "documents without end of new names make columns without end")
    .changes("JsonDecoder._note", always("MAXIMUM_COLUMNS"))
    .caught_by("test_columns_and_row_types_of_all_documents_together_are_limited"),
    Mutant("json-depth-unlimited", "a document is taken however deep it is nested")
    .changes("_find_shape", never("MAXIMUM_DEPTH"))
    .caught_by("test_what_is_no_document_is_an_error_of_that_datum_that_quotes_nothing_of_it"),
    Mutant("whole-numbers-apart", "numbers that happen to be whole get a column beside that of fractions")
    .changes("json_values._make_type", never("_LONG"))
    .caught_by("test_whole_numbers_go_into_a_column_of_fractions_that_there_is"),
    Mutant("unnamed-fields-shown", "a field that no rule names is written")
    .changes("_choose_fields", always("visible"))
    .caught_by("test_no_byte_of_a_value_that_is_not_shown_is_written"),
    Mutant("dropped-fields-shown", "a field to be dropped is written where what it is in is shown")
    .changes("_choose_fields", never("DROP"))
    .caught_by("test_what_an_entry_says_of_a_field_inside_another_counts_more"),
    Mutant("masked-fields-shown", "a field to be masked is written as it is where what it is in is shown")
    .changes("_choose_fields", never("HMAC"))
    .caught_by("test_what_an_entry_says_of_a_field_inside_another_counts_more"),
    Mutant("renamed-fields-shown", "a rule for a former name is not asked for records that have it no more")
    .changes("_list_names", never("others"))
    .caught_by("test_a_rule_for_one_name_of_a_renamed_field_holds_for_all"),
    Mutant("aliases-shown", "a rule for a former name is not asked for the field that has it as an alias")
    .changes("_list_names", replace("{A, *list_aliases(field)}", "{A}"))
    .caught_by("test_a_rule_for_a_former_name_holds_for_a_row_type_that_says_so_itself"),
    Mutant("digests-comparable", "equal values of two fields have equal digests")
    .changes("_digest", replace("[path, value]", "[value]"))
    .caught_by("test_a_digest_is_the_hmac_of_path_and_value"),
    Mutant("digests-without-secret", "without a secret anybody can compute the digests")
    .changes("mask_rows", never("needs_secret"))
    .caught_by("test_without_entries_every_field_is_shown_and_a_digest_needs_a_secret"),
    Mutant("rules-contradict", "a rule inside a masked field is taken, and then does nothing")
    .changes("parse_fields", never("startswith"))
    .caught_by("test_entries_that_say_nothing_or_contradict_each_other_are_refused"),
    Mutant("unknown-events-delete", "an event that does not say what it is deletes its key")
    .changes("unwrap_rows", replace("pc.fill_null(A, False)", "pc.fill_null(A, True)"))
    .caught_by("test_events_are_rows_deletes_or_neither"),
    Mutant("events-without-row", "an update without its row is a row of nulls")
    .changes("unwrap_rows", replace("pc.and_(A, B)", "A"))
    .caught_by("test_events_are_rows_deletes_or_neither"),
)
