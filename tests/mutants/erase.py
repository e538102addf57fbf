"""Mutants of erasing: what goes, what stays, and what proves it."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    assign,
    drop_keyword,
    drop_statement,
    never,
    replace,
    return_value,
    set_keyword,
)
from tests.mutants.mutant import Mutant

ERASE = (
    Mutant("killed-reading-unnamed", "files that a killed reading on Spark left are not named by a certificate")
    .changes("outside._list_read_files", return_value("iter(())", "startswith"))
    .caught_by("test_certificate_names_what_a_killed_reading_left_of_this_topic_alone"),
    Mutant("erase-behind-no-fence", "a plan from before the erasure brings its staged copies back")
    .changes("add_erasure", assign("Change(state=after, summary={})", "make_fence_change"))
    .caught_by("test_plan_from_before_is_void_even_where_no_key_was"),
    Mutant("erase-of-the-live-alone", "files that left the log keep the key until their grace ends")
    .changes("KeyScans.scan_log", replace("self._scan_retired(left_log)", "[]"))
    .caught_by("test_files_that_left_the_log_go_if_they_hold_the_key_and_stay_if_not"),
    Mutant("erase-leaves-unused-files", "what was written of a segment that another process replaced stays for ever")
    .changes("Rewriting.remove_unused", assign("[]", "sorted"))
    .caught_by("test_what_it_wrote_of_a_segment_that_was_replaced_meanwhile_goes"),
    Mutant("erase-leaves-what-a-dead-one-wrote", "what a dead erasure wrote in vain stays when its row is closed")
    .changes("DeletionFilter.select_of_ingest", never("erasure_id"))
    .caught_by("test_sweep_removes_what_an_erasure_that_died_after_its_commit_had_written_in_vain"),
    Mutant("certificate-closed-before-an-ingest", "the certificate closes while an ingest from before may write a file")
    .changes("_is_any_left", replace("call.opened_at_ms <= deleted_at_ms + MAXIMUM_CLOCK_SKEW_MS", "False"))
    .caught_by("test_certificate_stays_open_while_an_ingest_from_before_is_at_work"),
    Mutant("erase-of-all-retired", "files without the key go with the others, and no run can be taken back")
    .changes("KeyScans._scan_retired", return_value("list(files)", "_get_count"))
    .caught_by("test_files_that_left_the_log_go_if_they_hold_the_key_and_stay_if_not"),
    Mutant("erase-spares-the-unreadable", "a retired file that cannot be read stays, whatever it holds")
    .changes("KeyScans._count", return_value("0", "UNREADABLE"))
    .caught_by("test_retired_file_that_cannot_be_read_goes_because_it_may_hold_the_key"),
    Mutant("erase-with-a-grace", "snapshots keep the files with the key until their grace ends")
    .changes("_expire_log", drop_keyword("erased"))
    .caught_by("test_snapshots_that_named_such_a_file_are_gone_at_once"),
    Mutant("erase-leaves-attempts", "what a run had staged stays until its grace ends")
    .changes("_sweep_topic", set_keyword("at_once", "False"))
    .caught_by("test_plan_from_before_is_void_and_what_it_staged_goes_with_the_key"),
    Mutant("erase-leaves-old-rows", "old snapshots of the latest table keep the key until their grace ends")
    .changes("_sweep_topic", replace("NO_GRACE_MS if erasing else config.retired_grace_ms", "config.retired_grace_ms"))
    .caught_by("test_table_of_the_latest_state_holds_the_key_in_no_snapshot"),
    Mutant("erased-row-stays-beside-its-tombstone", "the table of the latest state shows what became a tombstone")
    .changes("_find_base", never("_has_new_tombstones"))
    .caught_by("test_table_of_the_latest_state_has_no_row_of_a_record_that_became_a_tombstone"),
    Mutant("row-counts-as-the-tombstone", "a certificate takes a row with an erased key for a tombstone")
    .changes("certificate._verify", replace("not is_latest", "True"))
    .caught_by("test_row_of_the_latest_state_at_the_offset_of_a_tombstone_is_seen"),
    Mutant("erase-beside-a-stale-table", "a table of the latest state that nobody updates keeps the key")
    .changes("_Erasure.__init__", drop_statement("require_no_stale_table"))
    .caught_by("test_latest_table_that_nobody_updates_refuses_the_erasure"),
    Mutant("erase-under-a-pin", "a tag keeps the key on disk and nobody is told")
    .changes("_Erasure._build", drop_statement("require_no_pins"))
    .caught_by("test_tag_that_keeps_such_a_snapshot_refuses_until_it_is_broken"),
    Mutant("erase-unjudged", "a wrong result of the rewrite is committed")
    .changes("Rewriting.write", drop_statement("_judge"))
    .caught_by("test_wrong_result_is_not_committed_and_nothing_of_it_stays"),
    Mutant("erase-judges-no-others", "a record of another key is lost and nobody sees it")
    .changes("_compute", set_keyword("others_changed", "0"))
    .caught_by("test_wrong_result_is_not_committed_and_nothing_of_it_stays"),
    Mutant("erase-judges-no-keys", "a key that the rewrite left is not seen")
    .changes("_compute", set_keyword("keys_left", "0"))
    .caught_by("test_key_that_the_rewrite_left_is_seen"),
    Mutant("erase-leaves-its-drafts", "the document of a try that lost stays for ever")
    .changes("_Erasure._build", drop_statement("delete_documents"))
    .caught_by("test_record_that_is_appended_meanwhile_is_erased_too"),
    Mutant("erase-leaves-what-it-wrote", "what a refused erasure wrote stays")
    .changes("_Erasure._discard", replace("self._rewriting.remove_unused()", "True"))
    .caught_by("test_wrong_result_is_not_committed_and_nothing_of_it_stays"),
    Mutant("erase-of-a-deleted-topic", "a deleted topic keeps the key and the caller is told to restore it")
    .changes("_open_head", replace("log.newest_head()", "log.newest_head(even_deleted=True)"))
    .caught_by("test_deleted_topic_refuses"),
    Mutant("erase-again-and-again", "every repetition adds an erasure")
    .changes("_Erasure._build", drop_statement("_require_not_erased_before"))
    .caught_by("test_same_keys_again_change_nothing"),
    Mutant("erased-before-though-appended-since", "a record that came since is not erased")
    .changes("_Erasure._require_not_erased_before", replace("each.ends == ends", "True"))
    .caught_by("test_keys_are_erased_anew_once_something_was_appended"),
    Mutant("erase-tombstone-of-every-record", "values go, but every record of the key stays as a tombstone")
    .changes("rewrite_without_keys", assign("erased", "emptied", "erased"))
    .caught_by("test_tombstone_takes_the_place_of_the_newest_record_of_each_key"),
    Mutant("erase-tombstone-goes-at-once", "the tombstone goes in the next run, before consumers saw it")
    .changes("_reopen_partitions", always("first_dirty_offset"))
    .caught_by("test_tombstone_waits_for_its_delete_horizon_from_the_next_compaction_on"),
    Mutant("certificate-closed-too-early", "the certificate closes while a task may still write a file")
    .changes("note_erasures", replace("_is_any_left(installation, state, each)", "False"))
    .caught_by("test_certificate_stays_open_until_the_files_of_earlier_runs_were_looked_for_twice"),
    Mutant("certificate-of-files-that-are-there", "files count as deleted while they wait")
    .changes("note_erasures", assign("False", "list_erased_files"))
    .caught_by("test_erasure_is_not_through_while_a_snapshot_names_its_files"),
    Mutant("certificate-closed-with-tombstones", "the certificate says that nothing is left, and a key is")
    .changes("_explain_open", never("is_key_left"))
    .caught_by("test_certificate_with_a_tombstone_is_open_until_it_is_erased_as_well"),
    Mutant("certificate-without-a-chain", "a missing erasure is not noticed")
    .changes("_read_chain", never("previous"))
    .caught_by("test_erasure_that_does_not_name_the_one_before_is_found"),
    Mutant("verification-of-offsets-alone", "an old copy at a new offset counts as a new record")
    .changes("_is_old", return_value("False", "at_ms"))
    .caught_by("test_old_record_that_is_back_is_found_by_a_verification"),
    Mutant("offsets-that-were-given-back-tell", "a new record is lost at an offset that an undone ingest gave back")
    .changes("ErasedRecords._is_old", replace("min(lowered, end)", "end"))
    .caught_by("test_offsets_that_an_undone_ingest_gave_back_do_not_tell_an_old_copy"),
    Mutant("erase-though-void", "an erasure whose files a sweep has deleted is committed")
    .changes("_Erasure._build", never("is_voided"))
    .caught_by("test_erasure_that_a_sweep_took_for_dead_commits_nothing"),
    Mutant("erase-reads-any-file", "whoever may start a run has any file of the worker read as keys")
    .changes("read_permitted_key_file", assign("uri", "find_below_roots"))
    .caught_by("test_a_file_outside_of_the_roots_is_refused_whether_it_is_there_or_not[outside.txt]"),
    Mutant("erase-retry-tells-nobody", "readers do not hear of an erasure whose first try failed after its commit")
    .changes("erase_steps.erase_keys", replace("report.was_erased and is_first_try", "report.was_erased"))
    .caught_by("test_a_retry_deletes_what_the_first_try_could_not_and_tells_readers"),
    Mutant("unfinished-erasure-unseen", "nobody is told that erased keys are still on disk")
    .changes("_check_erasures", always("UNFINISHED_ERASURE_MS"))
    .caught_by("test_each_kind_arrives_once_with_its_six_parts_and_again_when_it_has_recovered[erasure_unfinished]"),
    Mutant("dead-erasure-unseen", "nobody is told of an erasure that died before the store knew of it")
    .changes("_check_erasures", assign("[]", "list_idle_topics"))
    .caught_by("test_erasure_that_died_before_the_store_knew_of_it_is_alerted"),
    Mutant("why-knows-no-erasure", "why says that a run removed what an erasure took")
    .changes("decide_absence", never("erasures"))
    .caught_by("test_why_says_that_an_erasure_may_have_taken_a_record"),
    Mutant("rebuild-forgets-erasures", "after a rebuild of the state old copies of erased keys come back")
    .changes("_rebuild_state", assign("()", "find_erasures"))
    .caught_by("test_erasures_are_known_again_after_a_state_was_rebuilt[/winnow/]"),
    Mutant("rebuild-reads-no-copies-of-erasures", "erasures are lost with the documents beside the table")
    .changes("find_erasures", replace("(A, storage.join(places.copies, FOLDER))", "(A,)"))
    .caught_by("test_erasures_are_known_again_after_a_state_was_rebuilt[/winnow_copies/]"),
    Mutant("erase-hides-from-undo", "an undo does not say that an erasure ended it")
    .changes("_require_not_erased", never("erased"))
    .caught_by("test_run_whose_files_held_the_key_cannot_be_taken_back"),
    Mutant("erased-call-stays-open", "the row of an erasure that died after its commit stays for ever")
    .changes("_list_committed_ingests", replace("A | B | {erasure.erasure_id for erasure in state.erasures}", "A | B"))
    .caught_by("test_call_that_died_after_its_commit_is_closed_by_a_sweep"),
    Mutant("erase-by-another-secret", "digests of two secrets stand side by side, and old copies pass")
    .changes("load_secret_of", never("others"))
    .caught_by("test_another_secret_is_refused"),
    Mutant("secret-for-everybody", "others on the machine can read the secret")
    .changes("make_secret", replace("private_files.write_file(draft, A)", "draft.write_text(A)"))
    .caught_by("test_secret_is_made_once_for_its_owner_only"),
    Mutant("malformed-keys-are-skipped", "a malformed line is left out, and its key stays")
    .changes("parse_key_lines", assign("None", "empty", "number"))
    .caught_by("test_malformed_line_is_named_and_nothing_is_erased"),
    Mutant("erasing-task-writes-over-another", "a task that was taken for dead changes a file of the log later")
    .changes("erasure_job._rewrite", assign("file.folder", "uuid"))
    .caught_by("test_task_that_is_carried_out_again_writes_other_files"),
    Mutant("erasing-tasks-leave-files", "what tasks wrote that were carried out again stays for ever")
    .changes("Rewriting._list_of_tasks", always("_wrote_in_tasks"))
    .caught_by("test_tasks_erase_what_one_process_erases"),
    Mutant("erasing-task-takes-another-key", "keys that tasks found are taken for other keys")
    .changes("ErasureTasks._renumber", return_value("outcome", "replace"))
    .caught_by("test_tasks_find_what_one_process_finds"),
    Mutant("erasing-driver-with-another-secret", "an application says of keys that none is there")
    .changes("run_erasure_plan", never("compute_key_id"))
    .caught_by("test_application_with_another_secret_does_nothing"),
    Mutant("erasing-task-hides-a-fault", "a segment that a task could not read counts as one without the keys")
    .changes("run_spark._raise_first", never("exit_code"))
    .caught_by("test_fault_of_the_machine_ends_it_with_its_kind"),
    Mutant("erasing-task-hides-damage", "a damaged segment counts as one without the keys")
    .changes("ErasureTasks._process_files", never("finding"))
    .caught_by("test_damaged_segment_found_by_a_task_is_named"),
    Mutant("partition-unchecked", "a partition that no task checked is committed")
    .changes("ErasureTasks.check", never("parts"))
    .caught_by("test_partition_that_no_task_checked_refuses_it"),
)
