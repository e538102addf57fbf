"""Mutants of folders and installations: what keeps topics, their lives and installations apart."""

from __future__ import annotations

from tests.mutants.changes import drop_operand, drop_statement, never, replace, return_value
from tests.mutants.mutant import Mutant

INSTALLATIONS = (
    Mutant("folder-without-uuid", "a new topic's table lies in a folder that is named after the topic alone")
    .changes("NewTable.location", replace("name_folder(A, B)", "A"))
    .caught_by("test_every_folder_of_a_topic_ends_in_the_uuid_of_its_table"),
    Mutant("side-folder-without-uuid", "side tables lie in a folder that is named after the topic alone")
    .changes("name_side_folder", return_value("topic", "name_folder"))
    .caught_by("test_every_folder_of_a_topic_ends_in_the_uuid_of_its_table"),
    Mutant("older-side-folder-moved", "side tables of an older release's topic are looked for in another folder")
    .changes("name_side_folder", never("TOPIC_PROPERTY"))
    .caught_by("test_a_table_of_an_older_release_goes_on_where_it_is"),
    Mutant("chosen-folder-believed", "a folder that the catalog chose is used whatever is in it")
    .changes("create_log_table", never("is_same_place"))
    .caught_by("test_a_folder_that_the_catalog_chose_is_refused_if_it_holds_anything"),
    Mutant("case-ignored", "the table of another topic is taken for that of a name that differs in case")
    .changes("TopicLog.load_table", drop_statement("require_same_name"))
    .caught_by("test_a_catalog_that_ignores_case_does_not_pass_one_topic_off_as_another"),
    Mutant("notes-collide", "notes of deleted topics whose names differ in case have one name on such a disk")
    .changes("_name_note", drop_operand("lower"))
    .caught_by("test_names_that_differ_in_case_share_nothing"),
    Mutant("other-installation-accepted", "another installation writes to the warehouse")
    .changes("InstallationGuard._confirm", never("warehouse_shared"))
    .caught_by("test_a_second_installation_with_the_same_warehouse_is_refused"),
    Mutant("id-taken-over-unasked", "a second installation takes the first one's id over although its catalog is empty")
    .changes("InstallationGuard._confirm", replace("own is None and A.has_tables_in_warehouse()", "own is None"))
    .caught_by("test_a_store_and_a_catalog_that_were_lost_are_refused_until_somebody_takes_over"),
    Mutant("installation-read-once", "a long-running process never looks again whose the warehouse is")
    .changes("InstallationGuard.require_own", replace("age_ms is None or A", "age_ms is None"))
    .caught_by("test_a_long_running_process_looks_again_before_it_writes"),
    Mutant("document-replaced", "the document of the installation replaces the one that is there")
    .changes(
        "write_new_file",
        replace("os.link(A, B, src_dir_fd=C, dst_dir_fd=D)", "os.replace(A, B, src_dir_fd=C, dst_dir_fd=D)"),
    )
    .caught_by("test_of_two_that_create_the_document_at_once_one_wins"),
    Mutant("scheduler-without-imports", "each task of the embedded Airflow imports everything anew")
    .changes("preload_modules", replace("import_module(name)", "name"))
    .caught_by("test_the_scheduler_has_imported_what_its_tasks_import_before_it_forks_them"),
    Mutant("scheduler-without-validation", "each validation of the embedded Airflow imports Great Expectations anew")
    .changes("preload_modules", replace("A.import_great_expectations()", "A"))
    .caught_by("test_the_scheduler_has_imported_what_its_tasks_import_before_it_forks_them"),
)
