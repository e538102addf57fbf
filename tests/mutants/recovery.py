"""Mutants of recovery and adoption: what is believed of a folder, what is complete, and what a recovered topic gets."""

from __future__ import annotations

from tests.mutants.changes import always, drop_operand, never, replace, return_value, set_keyword
from tests.mutants.mutant import Mutant

RECOVERY = (
    Mutant("survey-through-links", "a metadata file behind a link is one of the table's")
    .changes("_list_metadata_files", replace("A.is_file(follow_symlinks=False)", "A.is_file()"))
    .caught_by("test_files_that_are_not_this_table_s_are_named_with_the_reason"),
    Mutant("survey-of-linked-folders", "a table's folder may be a link")
    .changes("_list_metadata_files", never("is_symlink"))
    .caught_by("test_a_folder_behind_a_link_holds_nothing"),
    Mutant("places-not-compared", "any place is below a table's folder")
    .changes("is_below", return_value("True"))
    .caught_by("test_a_place_is_below_a_folder_by_its_name[file:///w/t/../u/a-False]"),
    Mutant("lost-race-taken", "a commit that lost its race may be the newest")
    .changes("WarehouseSurvey._has_lost", replace("A.previous in B.history[:-1]", "False"))
    .caught_by("test_a_commit_from_the_same_log_as_a_landed_one_is_lost_however_late_it_was_written"),
    Mutant("dead-commit-taken", "a commit counts though what knows the head was not told of it")
    .changes("WarehouseSurvey.newest", replace("A.landed[-1].name in A.known", "False"))
    .caught_by("test_a_commit_that_died_is_not_taken_where_the_catalog_knows_what_came_before"),
    Mutant("last-of-several-taken", "of several commits that could be the last, one is taken")
    .changes("WarehouseSurvey.newest", replace("len(A) < B", "True"))
    .caught_by("test_two_commits_that_may_be_the_last_are_not_decided_between"),
    Mutant("longer-history-taken", "of two histories the longer one counts")
    .changes("WarehouseSurvey.newest", never("rivals"))
    .caught_by("test_two_histories_are_not_decided_by_the_folder"),
    Mutant("incomplete-table-adopted", "what the newest metadata name need not be there")
    .changes("ProvenLog.require_complete", never("problems"))
    .caught_by("test_a_half_deleted_folder_is_not_adopted[data]"),
    Mutant("linked-segment-adopted", "a segment may lie behind a link")
    .changes("table_recovery._read_sizes", replace("stat.S_ISREG(A) and B", "True"))
    .caught_by("test_a_segment_behind_a_link_is_not_taken"),
    Mutant("recovered-fence-stays", "a recovery raises no fence")
    .changes("make_raised_change", replace("max(A, B) + 1", "max(A, B)"))
    .caught_by("test_numbers_are_above_all_that_the_folder_knows"),
    Mutant("recovered-sequence-number-stays", "a recovery may give a sequence number a second time")
    .changes("make_raised_change", set_keyword("above_sequence_number", "0"))
    .caught_by("test_numbers_are_above_all_that_the_folder_knows"),
    Mutant("another-topic-adopted", "a table is adopted under another topic's name")
    .changes("_require_same_topic", never("topic"))
    .caught_by("test_a_name_or_folder_that_the_catalog_has_is_refused"),
    Mutant("named-folder-adopted", "a table that the catalog has is adopted once more")
    .changes("_require_unnamed_folder", never("is_same_place"))
    .caught_by("test_a_name_or_folder_that_the_catalog_has_is_refused"),
    Mutant("rebuilt-log-starts-anew", "a log whose state was rebuilt accepts what was before its first record")
    .changes("_rebuild_partition", replace("max(known.log_start_offset, first)", "0"))
    .caught_by("test_without_the_store_a_rebuilt_log_ends_where_any_snapshot_had_a_record"),
    Mutant(
        "older-latest-table-unswept",
        "a sweep of the latest state ends for ever where an older entry names what is gone",
    )
    .changes("sweep_latest_table", replace("expire_unreadable(A)", "0"))
    .caught_by("test_a_sweep_takes_out_snapshots_whose_files_are_gone_where_an_older_entry_names_them_again[latest]"),
    Mutant(
        "older-quarantine-unswept", "a sweep ends for ever where an older entry of the quarantine names what is gone"
    )
    .changes("plan_quarantine_expiry", replace("_list_without_manifest_list(A)", "set()"))
    .caught_by(
        "test_a_sweep_takes_out_snapshots_whose_files_are_gone_where_an_older_entry_names_them_again[quarantine]"
    ),
    Mutant("older-log-unswept", "a sweep ends for ever where an older entry of the log names what a sweep took")
    .changes("sweep._expire_log", replace("_expire_again(A, B)", "False"))
    .caught_by("test_a_sweep_expires_again_what_a_sweep_had_expired_where_the_log_s_entry_was_put_back"),
    Mutant("any-missing-list-expired", "a sweep expires a snapshot whose manifest list somebody else removed")
    .changes("_expire_again", drop_operand("recorded"))
    .caught_by("test_a_sweep_asks_where_a_manifest_list_is_gone_that_no_sweep_took"),
    Mutant("older-quarantine-kept", "a recovery leaves the quarantine at metadata without records that the log shows")
    .changes("side_table_recovery._choose", always("is_needed"))
    .caught_by("test_quarantined_records_that_an_older_catalog_does_not_know_come_back"),
    Mutant("lost-quarantined-records-unsaid", "a recovery goes back to before quarantined records that are lost")
    .changes("_FileReader.count_needed", replace("len(needed)", "0"))
    .caught_by("test_a_recovery_does_not_hide_that_quarantined_records_are_lost"),
)
