"""Mutants of Winnow's documents beside a table and their copies."""

from __future__ import annotations

from tests.mutants.changes import assign, drop_operand, drop_statement, never, replace
from tests.mutants.mutant import Mutant

DOCUMENTS = (
    Mutant("documents-no-copy", "a document is written without a copy")
    .changes("_write_both", replace("storage.write_bytes(copy, data, below=A)", "None"))
    .caught_by("test_every_document_has_a_copy_outside_of_the_tables_folder"),
    Mutant("documents-visible", "documents lie where orphan removal of other engines looks")
    .changes("document_places.FOLDER", assign("'documents'", "_winnow"))
    .caught_by("test_every_document_has_a_copy_outside_of_the_tables_folder"),
    Mutant("documents-copy-unchecked", "a copy is taken whatever its content")
    .changes("find_good", replace("A if B == C else D", "A"))
    .caught_by("test_a_document_that_is_good_in_neither_place_is_counted_as_lost"),
    Mutant("documents-copy-first-last", "a sweep deletes a state before its copy")
    .changes("_find_unreferenced_metadata", drop_statement("sort"))
    .caught_by("test_a_sweep_that_dies_between_a_copy_and_its_document_is_completed_by_the_next"),
    Mutant("documents-copies-stay", "the copies of expired states stay for ever")
    .changes("list_state_places", replace("(path,) if A else B", "(path,)"))
    .caught_by("test_a_sweep_deletes_a_state_together_with_its_copy"),
    Mutant("documents-copies-of-any-table", "copies may lie in a folder of another table")
    .changes("require_same_table", drop_operand("get_name", "own"))
    .caught_by("test_copies_that_are_not_of_this_table_are_refused"),
    Mutant("documents-never-begun", "a topic whose state names no copies gets none by a sweep")
    .changes("mend_documents", never("state", "copies"))
    .caught_by("test_a_quiet_topic_without_copies_has_them_after_one_commit_of_a_sweep"),
    Mutant("documents-unbounded", "one sweep copies everything")
    .changes("_mend", never("MAXIMUM_FILES_PER_SWEEP"))
    .caught_by("test_a_sweep_writes_a_bounded_number_of_files_and_the_next_goes_on"),
)
