"""Mutants of undo: what is taken back, and what is not."""

from __future__ import annotations

from tests.mutants.changes import assign, drop_keyword, drop_statement, never, replace, return_value
from tests.mutants.mutant import Mutant

UNDO = (
    Mutant("undo-under-a-later-run", "a run is taken back although a later one worked on what it left")
    .changes("_is_over", never("compacts"))
    .caught_by("test_later_run_that_wrote_nothing_anew_stands_in_the_way_too"),
    Mutant("undo-under-a-later-retention", "a deletion is taken back although a run has removed the segments since")
    .changes("_is_over", return_value("False", "any"))
    .caught_by("test_run_that_removed_the_deleted_segments_is_taken_back_with_the_deletion"),
    Mutant("undo-of-condemned-segments", "a segment that a sweep is deleting is taken back into the log")
    .changes("_Log.retired", replace("self.state.retired", "self.state.waiting_files"))
    .changes("_require_available", never("condemned"))
    .caught_by("test_segment_that_a_sweep_is_deleting_is_gone_for_an_undo"),
    Mutant("undo-behind-no-fence", "a plan from before an undone run is published over what is live again")
    .changes(
        "undo._build_change",
        assign(
            "Change(state=after, summary={'winnow.operation': OPERATION})",
            "make_fence_change",
        ),
    )
    .caught_by("test_plan_from_before_the_run_is_not_published_over_the_segments_that_are_live_again"),
    Mutant("undo-without-a-pause", "the next run does again what was taken back")
    .changes("_build_change", replace("add_pause(part.state, name, now_ms)", "part.state"))
    .caught_by("test_undone_partitions_are_paused_under_a_name_that_says_so_and_go_on_when_resumed"),
    Mutant("undone-records-count-as-clean", "appends that are dirty again are not known")
    .changes("_join_appends", assign("[]", "each"))
    .caught_by("test_what_was_appended_since_stays"),
    Mutant("undo-keeps-the-history", "tombstones that are back keep the times of the run that was taken back")
    .changes(
        "_compute_state", replace("replace(A, first_dirty_offset=B, strategy=C, history=D)", "replace(A, strategy=C)")
    )
    .caught_by("test_tombstones_that_went_are_back_with_what_they_fend_off"),
    Mutant("undo-lowers-what-others-raised", "a log start that somebody raised since is lowered")
    .changes("_compute_log_start", return_value("found[taken[0].change_id], []", "min"))
    .caught_by("test_deletions_can_be_taken_back_in_any_order"),
    Mutant("undo-forgets-what-was-masked", "records stay hidden though every deletion of them was taken back")
    .changes("_add_undone", drop_keyword("log_starts"))
    .caught_by("test_deletions_can_be_taken_back_in_any_order"),
    Mutant("undo-leaves-the-quarantine", "keyless records are in the log again, and in the quarantine, too")
    .changes("_build_change", assign("set()", "move_id"))
    .caught_by("test_keyless_records_leave_the_quarantine_and_are_in_the_log_again"),
    Mutant("undo-divides-the-quarantine", "keyless records of other partitions leave the quarantine and are nowhere")
    .changes("decide_undo", never("obstacles"))
    .caught_by("test_keyless_records_of_several_partitions_are_not_divided"),
    Mutant("undo-hides-from-a-rebuild", "after a rebuild keyless records are in the log and in the quarantine")
    .changes("undo._build_change", replace("{UNDONE_MOVES_PROPERTY: A}", "{}"))
    .caught_by("test_keyless_records_that_a_compaction_moved_are_in_one_place_after_a_rebuild"),
    Mutant("move-hides-from-a-rebuild", "after a rebuild keyless records that a compaction moved are nowhere")
    .changes("_list_landed", replace("(INGEST_PROPERTY, MOVE_PROPERTY)", "(INGEST_PROPERTY,)"))
    .caught_by("test_keyless_records_that_a_compaction_moved_are_in_one_place_after_a_rebuild"),
    Mutant("undo-of-damaged-segments", "a damaged segment is brought back, and what the run wrote goes")
    .changes("undo_change", drop_statement("_check_restored"))
    .caught_by("test_damaged_segment_is_not_brought_back"),
    Mutant("undone-plan-is-the-next-plan", "after an undo the same run cannot be made again")
    .changes("build_plan", drop_keyword("undone_ms"))
    .caught_by("test_same_run_can_be_made_again_as_of_the_same_instant"),
    Mutant("undone-run-explains-removals", "why says that an undone run removed a record")
    .changes("list_partition_runs", never("list_undone_partitions"))
    .caught_by("test_records_are_not_called_removed_by_a_run_that_was_undone"),
    Mutant("undone-run-holds-an-ingest", "an ingest cannot be undone because of a run that was")
    .changes("ReceiptEnds._list_since", replace("part.partition not in undone", "True"))
    .caught_by("test_call_that_the_run_had_compacted_can_be_undone_afterwards"),
    Mutant("undo-leaves-rows-of-live-files", "the store says that files of the log wait for their deletion")
    .changes("_complete_store", drop_statement("take_back"))
    .caught_by("test_what_the_run_wrote_waits_for_its_grace_and_what_came_back_does_not"),
)
