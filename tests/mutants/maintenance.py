"""Mutants of maintenance: what is deleted, who may read what, and how failures of the machine are reported."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    assign,
    drop_element,
    drop_operand,
    drop_statement,
    never,
    replace,
    return_value,
    set_keyword,
)
from tests.mutants.mutant import Mutant

MAINTENANCE = (
    Mutant("run-late-at-once", "a run counts as late as soon as it has begun")
    .changes("watch._check_runs", replace("A - installation.settings.alert.run_late_ms", "A"))
    .caught_by("test_each_kind_arrives_once_with_its_six_parts_and_again_when_it_has_recovered"),
    Mutant("dead-ingest-late", "an ingest call that died hours ago is alerted as one that takes long")
    .changes("Ingests.list_at_work", replace("A.renewed_at_ms > renewed_after_ms", "A.renewed_at_ms > 0"))
    .caught_by("test_ingest_that_goes_on_for_hours_is_alerted_and_one_that_died_is_not"),
    Mutant("waiting-run-late", "a run whose outcome nobody knows is alerted as one that takes long")
    .changes("Runs.list_at_work", drop_operand("waiting"))
    .caught_by("test_open_runs_are_those_that_are_not_closed"),
    Mutant("run-late-for-ever", "a run that has ended stays alerted as one that takes long")
    .changes("watch._check_runs", drop_statement("recover"))
    .caught_by("test_each_kind_arrives_once_with_its_six_parts_and_again_when_it_has_recovered"),
    Mutant("unswept-run-pruned", "the history of a run goes although its folder was not found empty twice")
    .changes("_old_runs", drop_element("A.swept_at_ms.is_not(None)"))
    .caught_by("test_a_run_whose_folder_was_not_found_empty_twice_stays_beyond_the_retention"),
    Mutant("open-run-pruned", "the history of a run goes although it is open")
    .changes("_old_runs", drop_element("A.status.in_(B)"))
    .caught_by("test_an_open_run_stays_with_its_verdicts_whatever_its_age"),
    Mutant("latest-assessment-pruned", "the assessment of a partition that was recorded last goes when it is old")
    .changes("_old_assessments", replace("A.as_of_ms == B.as_of_ms", "A.as_of_ms == -1"))
    .caught_by("test_old_assessments_go_and_the_one_recorded_last_stays_however_old"),
    Mutant(
        "quarantine-lists-unchecked",
        "a sweep asks the log alone whether a metadata file of the quarantine is referred to",
    )
    .changes("_find_unreferenced_metadata", return_value("pending", "of_quarantine"))
    .caught_by("test_a_list_of_the_quarantine_that_a_snapshot_still_names_stays_though_it_was_written_down"),
    Mutant("expiry-over-another-head", "an expiry takes the snapshot to which another engine rolled back meanwhile")
    .changes("_commit_expiry", replace("(head,)", "()"))
    .caught_by("test_an_expiry_takes_no_snapshot_to_which_another_engine_rolled_back_meanwhile"),
    Mutant("spill-open-to-all", "everybody may look into what tasks spill")
    .changes("FOLDER_MODE", assign("0o755"))
    .caught_by("test_what_is_spilled_can_be_read_by_its_owner_alone"),
    Mutant("database-open-to-all", "everybody may read a new database")
    .changes("FILE_MODE", assign("0o644"))
    .caught_by("test_a_file_with_secrets_and_a_new_database_can_be_read_by_their_owner_alone"),
    Mutant("lock-of-the-living-ignored", "the private folder of a living process is taken for abandoned")
    .changes("_remove_abandoned", drop_operand("_try_lock"))
    .caught_by("test_what_a_killed_process_left_goes_and_what_a_living_one_has_stays"),
    Mutant(
        "lock-of-another-machine-believed", "on a shared file system a folder of another machine is taken for abandoned"
    )
    .changes("_remove_abandoned", never("_is_lock_reliable"))
    .caught_by("test_on_a_shared_file_system_only_folders_of_this_kernel_are_removed"),
    Mutant("reading-takes-a-writable-store", "a command that only reads migrates the store first")
    .changes("open_for_command", set_keyword("to_read", "False"))
    .caught_by("test_every_question_is_answered_without_the_right_to_write"),
    Mutant("full-disk-unexpected", "a full disk counts as an error that nobody foresaw")
    .changes("_explain_machine_error", return_value("None", "make_service_error"))
    .caught_by("test_a_full_disk_is_said_loses_nothing_and_the_next_run_goes_on"),
    Mutant("links-followed-below-a-root", "a link in the place of a folder below a root is followed")
    .changes("local_tree._FOLDER", assign("os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC"))
    .caught_by("test_write_below_a_root_follows_an_administrators_link_to_the_root_only"),
    Mutant("odd-files-deleted", "what is no plain file is deleted too")
    .changes("local_tree.delete_file", never("S_ISREG"))
    .caught_by("test_link_under_the_name_of_a_file_is_not_deleted"),
    Mutant("existing-file-opened", "a file that exists is opened for writing, be it another name of one elsewhere")
    .changes("local_tree._NEW_FILE", assign("os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC"))
    .caught_by("test_file_that_is_written_again_is_not_written_through_another_name_of_it"),
    Mutant("parts-that-lead-elsewhere", "a path with .. counts as below a root")
    .changes("storage.find_path_below", always("split"))
    .caught_by("test_place_below_a_root_is_found_however_it_is_written"),
    Mutant("plan-elsewhere-believed", "a plan is deleted wherever the row of its run says that it is")
    .changes("staging.delete_plan", never("expected"))
    .caught_by("test_plan_that_a_row_puts_elsewhere_is_reported_and_stays"),
    Mutant("any-staged-name", "any file in the folder of a plan is deleted")
    .changes("is_staged_file", return_value("True", "_STAGED_PLAN"))
    .caught_by("test_odd_names_in_a_plan_folder_stay"),
    Mutant("any-ledger-row", "a row of the ledger is believed about any file of the table")
    .changes("is_retired_file", return_value("True", "pattern"))
    .caught_by("test_forged_rows_of_the_store_delete_nothing"),
    Mutant("any-run-row", "a row of a run is believed whatever folder it names")
    .changes("file_names.is_plan_id", return_value("True", "_PLAN_ID"))
    .caught_by("test_forged_run_with_the_name_of_an_ingest_call_at_work_takes_nothing_of_it"),
    Mutant("ledger-of-a-committed-call", "a row leads to the ledger of a committed ingest call")
    .changes("DeletionFilter.select_of_ingest", never("_is_committed"))
    .caught_by("test_forged_ingest_call_does_not_take_the_ledger_of_a_committed_one"),
    Mutant("begun-removal-lists-again", "a removal that was begun lists segments whose manifests it has deleted")
    .changes("describe_contents", never("removed_at_ms"))
    .caught_by("test_removal_that_was_killed_at_any_file_is_completed_by_the_next_call[27-complete_by_deletion]"),
    Mutant("whatever-lies-in-a-removed-folder", "a removed topic takes whatever lies in its folder")
    .changes("TableFiles.may_delete", return_value("True", "named"))
    .caught_by("test_removed_topic_takes_nothing_that_links_lead_to"),
    Mutant("older-head-written-over", "a head with a lower sequence number than recorded is written over")
    .changes("compare_table", replace("A.last_sequence_number < B.last_sequence_number", "False"))
    .caught_by("test_with_an_older_catalog_every_command_that_writes_is_refused_and_nothing_is_deleted"),
    Mutant("forked-head-is-newest", "a history that went back and on is taken for the recorded one")
    .changes("head_age._lacks", return_value("False", "same_number"))
    .caught_by("test_a_catalog_that_went_back_and_was_written_to_is_noticed_though_its_numbers_are_higher"),
    Mutant("former-life-is-newest", "an entry of the table that the topic had before is taken for the present one")
    .changes("compare_table", never("lives"))
    .caught_by("test_a_topic_that_was_created_again_is_a_new_life_and_its_former_table_is_not_gone_back_to"),
    Mutant("folder-not-listed", "where nothing is recorded, the head at hand is believed")
    .changes("HeadGuard.load_newest", drop_statement("require_newest_in_folder"))
    .caught_by("test_with_the_store_lost_too_the_folder_of_the_table_tells"),
    Mutant("published-run-swept", "files of a published run that the log no longer has are leftovers")
    .changes("leftovers.list_runs", replace("A.plan_id not in B", "True"))
    .caught_by("test_a_table_that_was_rolled_back_is_not_older_and_its_published_run_is_not_swept"),
    Mutant("recorded-run-voided", "an open run of which the store has the receipt is closed as void")
    .changes("_find_published_receipt", replace("A.find_receipt(B.plan_id) is not None", "False"))
    .caught_by("test_an_open_run_of_which_the_store_has_the_receipt_is_not_closed_as_void"),
    Mutant("accepted-below-the-fence", "going on from an older head leaves the fence as it was there")
    .changes("make_raised_change", replace("max(A.fence, B.fence) + 1", "A.fence"))
    .caught_by("test_a_publisher_of_the_given_up_history_meets_the_fence"),
    Mutant(
        "accepted-below-the-ingests", "going on from an older head leaves ingest calls of the given-up history valid"
    )
    .changes("make_raised_change", replace("max(A.first_valid_ingest, B)", "A.first_valid_ingest"))
    .caught_by("test_an_ingest_call_of_the_given_up_history_is_void"),
    Mutant("accepted-without-its-number", "the given-up history is the newer one again")
    .changes("make_raised_change", set_keyword("above_sequence_number", "0"))
    .caught_by("test_the_given_up_history_is_refused_when_its_catalog_comes_back"),
    Mutant("accepted-without-its-files", "an older head is gone on from whatever became of its segments")
    .changes("older_head._require_files", never("gone"))
    .caught_by("test_an_older_head_whose_segments_a_sweep_took_is_not_accepted"),
    Mutant("recorded-head-lowered", "a process that was paused records an older head")
    .changes("topic_heads._make_statement", set_keyword("where", "None"))
    .caught_by("test_an_older_head_of_a_process_that_was_paused_changes_nothing[sqlite]"),
    Mutant("former-life-shines-through", "findings of a removed topic appear on the one created under its name")
    .changes("TopicHeads.record", drop_statement("remove_rows"))
    .caught_by("test_new_life_begins_without_a_row_of_the_one_before_and_others_keep_theirs[sqlite]"),
    Mutant("late-writer-of-a-former-life", "a process that was paused writes about a topic that is gone")
    .changes("is_former_life", return_value("False", "lives"))
    .caught_by("test_process_of_a_former_life_writes_nothing_and_removes_nothing[sqlite]"),
    Mutant("attempts-outlive-their-topic", "tables that name only a plan keep their rows")
    .changes("remove_rows", replace("list_tables_by_plan()", "()"))
    .caught_by("test_forgotten_topic_has_no_row_but_those_that_stay[sqlite]"),
    Mutant("documents-cost-no-budget", "a scrub reads documents beyond its budget of a day")
    .changes("Scrub._note", replace("max(A, B)", "A"))
    .caught_by("test_budget_of_a_day_counts_what_earlier_scrubs_read_and_comes_back_a_day_later"),
    Mutant("drafts-stay", "a draft of a class archive stays when its application is killed")
    .changes("_open_draft_folder", replace("stack.enter_context(A)", "folder"))
    .caught_by("test_drafts_of_killed_applications_go_and_those_of_living_ones_stay"),
    Mutant("torn-metadata-owns-a-folder", "what a dead update of the latest state wrote stays for ever")
    .changes("find_latest_files", never("log_uuid"))
    .caught_by("test_update_that_died_while_it_wrote_metadata_leaves_nothing_behind"),
    Mutant("damage-unmeasured", "damage that a scrub found is in no metric")
    .changes("measure_topic", set_keyword("damaged", "0"))
    .caught_by("test_bit_that_flips_in_any_column_is_found_and_told_once_until_it_is_mended"),
    Mutant("heartbeat-unsent", "no total says when anything ran last")
    .changes("sum_measurements", set_keyword("last_run_ms", "None"))
    .caught_by("test_total_adds_up_before_it_divides"),
)
