"""Mutants of publishing: what is checked of plans, files and fences before a commit."""

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

PUBLISHING = (
    Mutant("keyless-dropped", "keyless records leave the log and are not visible in the quarantine")
    .changes("build_change", always("moved"))
    .caught_by("test_after_a_switch_to_compact_keyless_records_are_quarantined_and_counted"),
    Mutant("paused-published", "a partition that was paused during the run is published all the same")
    .changes("_describe_moved_log", never("paused_since_ms"))
    .caught_by("test_run_whose_partition_was_paused_meanwhile_publishes_nothing"),
    Mutant("stale-plan-published", "a plan is published although records were deleted meanwhile")
    .changes("_describe_moved_log", drop_operand("moved"))
    .caught_by("test_a_plan_made_before_records_were_deleted_is_void"),
    Mutant("configuration-ignored-at-publish", "a plan is published under rules it was not made under")
    .changes("find_void", never("compute_configuration_digest"))
    .caught_by("test_a_plan_is_void_when_the_configuration_changed_after_it_was_made"),
    Mutant("held-topic-is-no-refusal", "a named topic that another run holds counts as done")
    .changes("_ShellResults.add", drop_operand("_leaves_held"))
    .caught_by("test_a_named_topic_that_another_run_holds_is_refused_and_the_others_are_seen_to"),
    Mutant("stage-without-manifest", "a plan counts as staged although its attempt left no staging manifest")
    .changes("stage_plans", always("has_manifest"))
    .caught_by("test_a_plan_that_the_job_did_not_report_on_counts_by_its_staging_manifest[False]"),
    Mutant("last-lines-only", "what a Spark job reports before its last lines does not reach its task")
    .changes("CompactOperator._read_lines", drop_statement("read_line"))
    .caught_by("test_what_the_job_reported_long_before_its_last_lines_reaches_the_task"),
    Mutant("publish-ignores-the-fence", "an attempt is published although another run has ended it")
    .changes("find_fence_violation", always("fence"))
    .caught_by(
        "test_a_publisher_that_was_stopped_before_its_commit_publishes_nothing_once_its_run_is_void[taken over]"
    ),
    Mutant("settle-voids-without-a-fence", "a run that may be committing is void before it is fenced off")
    .changes("_find_published_receipt", never("is_unsettled"))
    .caught_by("test_a_run_that_moved_on_while_it_was_being_settled_is_looked_at_again"),
    Mutant(
        "fence-does-not-look-for-the-receipt",
        "the commit that raises the fence voids a plan that was published meanwhile",
    )
    .changes("end_attempts.build", assign("[]", "find_receipt"))
    .caught_by("test_a_run_that_commits_while_it_is_being_voided_is_published"),
    Mutant("fence-only-in-the-property", "the state forgets the fence, and a tool that removes the property lowers it")
    .changes("TopicLog._try", set_keyword("fence", "0"))
    .caught_by("test_a_rollback_of_the_table_does_not_rewind_the_fence"),
    Mutant("state-change-of-a-replaced-attempt", "an attempt that was replaced goes on changing the run")
    .changes("Runs.set_state", drop_statement("where", "attempt"))
    .caught_by("test_a_replaced_attempt_changes_nothing_of_the_run"),
    Mutant("sweep-before-the-fence", "a sweep deletes files of an attempt that may still be published")
    .changes("DeletionFilter.select_of_run", never("_fence_raised"))
    .caught_by("test_a_sweep_that_could_not_raise_the_fence_deletes_nothing_of_an_attempt"),
    Mutant("recorded-metadata-without-a-commit", "a sweep takes metadata that a commit in progress is about to name")
    .changes("_sweep_topic", set_keyword("ends_commits", "False"))
    .caught_by("test_forged_row_about_metadata_of_a_commit_in_progress_takes_nothing_from_it"),
    Mutant("ingest-ignores-that-it-is-void", "an ingest call commits files that a sweep has deleted")
    .changes("IngestCommit._build_change", never("is_voided"))
    .caught_by("test_an_ingest_that_was_taken_for_dead_starts_over_and_lands_once[True]"),
    Mutant("sweep-of-ingests-that-are-not-void", "a sweep deletes what belongs to an ingest call that was committed")
    .changes("DeletionFilter.select_of_ingest", never("is_voided"))
    .caught_by("test_a_sweep_keeps_everything_of_an_ingest_that_died_after_its_commit"),
    Mutant("conflicts-are-believed", "a commit that landed and was called a conflict loses its manifests")
    .changes("TopicLogs.catalog", drop_statement("confirm_commits"))
    .caught_by("test_a_commit_that_a_proxy_sent_twice_is_one_commit"),
    Mutant("staged-files-not-listed", "a publish names staged files that are gone")
    .changes("_commit.build", drop_statement("_check_staged_files"))
    .caught_by("test_a_staged_file_that_is_not_there_with_its_length_is_not_published[gone]"),
    Mutant("another-manifest-published", "the staging manifest need not be the one that was judged")
    .changes("read_validated_attempt", never("manifest_digest", "compute_digest"))
    .caught_by("test_an_attempt_that_was_staged_again_after_it_passed_is_not_published"),
    Mutant("plan-bytes-not-compared", "a plan whose bytes are not those of the run's row is used")
    .changes("read_plan_and_digest", never("found"))
    .caught_by("test_the_digest_of_a_plan_is_compared_beside_its_id"),
    Mutant("plan-id-not-recomputed", "a plan whose content has another id than it bears is used")
    .changes("read_plan_and_digest", never("plan_id"))
    .caught_by("test_a_run_from_before_digests_goes_on_and_a_changed_plan_is_known_by_its_id"),
    Mutant("job-without-digest", "the Spark job is not told the digest of its plans")
    .changes("format_plan_argument", always("sha256"))
    .caught_by("test_the_job_refuses_a_plan_with_another_digest_and_carries_out_the_others"),
    Mutant("plan-at-its-place-believed", "a document that lies where a plan belongs is taken for the plan")
    .changes("write_plan", replace("A is not None and B == A", "B is not None"))
    .caught_by("test_a_document_that_lies_where_a_plan_belongs_is_replaced"),
    Mutant("verdict-of-another-plan", "a verdict publishes a plan that it did not judge")
    .changes("read_validated_attempt", never("plan_sha256", "sha256"))
    .caught_by("test_a_verdict_publishes_only_the_plan_that_it_judged"),
    Mutant("verdict-without-digests", "a verdict that names no plan is enough to publish")
    .changes("read_validated_attempt", replace("A.plan_sha256 != B", "A.plan_sha256 not in (None, B)"))
    .caught_by("test_a_verdict_that_does_not_say_what_it_is_about_is_not_enough_to_publish"),
    Mutant("manifest-of-another-attempt", "a staging manifest that names another attempt is judged")
    .changes("read_run_manifest", never("manifest", "plan_id"))
    .caught_by("test_a_staging_manifest_of_another_attempt_is_not_judged"),
    Mutant("files-of-another-folder", "new files may lie outside of the table")
    .changes("is_below_attempt", replace("False", "True"))
    .caught_by("test_files_that_are_not_the_attempts_are_not_published_whatever_the_verdict_says"),
    Mutant("files-of-another-attempt", "a name that begins like the attempt is its folder")
    .changes("is_below_attempt", replace('A.startswith(f"{B}-")', "A.startswith(B)"))
    .caught_by("test_no_other_spelling_or_place_counts_as_the_attempts_own"),
    Mutant("files-by-dots", "a path may lead out of its folder")
    .changes("is_below_attempt", drop_operand("fullmatch"))
    .caught_by("test_no_other_spelling_or_place_counts_as_the_attempts_own"),
    Mutant("files-of-another-partition", "a new segment may bear the number of another partition")
    .changes("_describe_misfit", replace("A.partition != B.partition", "False"))
    .caught_by("test_what_does_not_fit_is_named"),
    Mutant("published-without-a-last-look", "publishing does not look at limits and files again")
    .changes("build_change", drop_statement("require_within_limits"))
    .caught_by("test_files_that_are_not_the_attempts_are_not_published_whatever_the_verdict_says"),
    Mutant("retention-not-judged", "a plan may retire segments that retention does not take")
    .changes("find_excesses", set_keyword("retired_not_due", "0"))
    .caught_by("test_a_plan_that_goes_beyond_state_and_configuration_neither_passes_nor_is_published"),
    Mutant("expiry-not-judged", "a plan may drop tombstones whose time has not passed")
    .changes("find_excesses", replace("_count_expired_not_due(...)", "0"))
    .caught_by("test_a_plan_that_goes_beyond_state_and_configuration_neither_passes_nor_is_published"),
    Mutant("end-not-judged", "a plan may clean what min.compaction.lag.ms protects")
    .changes("find_excesses", set_keyword("end_not_cleanable", "0"))
    .caught_by("test_a_plan_that_ends_where_records_may_not_be_cleaned_yet_is_refused"),
    Mutant("plan-writes-anywhere", "a plan may write outside of the topic's own tables")
    .changes("is_below_own_tables", return_value("True"))
    .caught_by("test_a_plan_that_writes_elsewhere_is_refused_before_anything_is_written"),
    Mutant("older-head-taken-for-damage", "files of a snapshot that expired count as lost")
    .changes("TopicLog.notice_newer_head", always("metadata_location"))
    .caught_by("test_a_validation_whose_head_expires_meanwhile_is_run_again"),
    Mutant("older-head-not-tried-again", "a commit over a head that expired fails instead of starting over")
    .changes("TopicLog.commit", drop_element("OutdatedHeadError"))
    .caught_by("test_a_publisher_whose_head_expired_while_it_was_stopped_is_told_of_the_fence_and_not_of_a_loss"),
    Mutant("fence-unsaid", "staged files that a sweep took behind the fence are said to be gone")
    .changes("_check_staged_files", never("fenced"))
    .caught_by("test_a_publisher_whose_head_expired_while_it_was_stopped_is_told_of_the_fence_and_not_of_a_loss"),
    Mutant("overtaken-update-fails", "an update of the latest state fails where another one came first")
    .changes("table._try_once", never("_is_overtaken"))
    .caught_by("test_an_update_of_the_latest_state_whose_files_were_swept_while_it_was_stopped_starts_over"),
    Mutant("commit-dated-by-its-end", "a commit bears the time at which it is written, whatever its state dates")
    .changes("TopicLog.commit", set_keyword("begun_ms", "None"))
    .caught_by("test_a_commit_bears_the_time_at_which_it_began_to_be_built"),
    Mutant("clock-behind-commits-nothing", "a commit bears its machine's time, although the table is dated later")
    .changes("LogUpdate._change_snapshot", assign("begun_ms", "max"))
    .caught_by("test_a_clock_that_is_behind_the_tables_by_minutes_commits_all_the_same"),
    Mutant("paused-commit-keeps-its-time", "a commit bears the time at which it was prepared, however long ago")
    .changes("LogSqlCatalog.swap_metadata", never("MAXIMUM_COMMIT_AGE_MS"))
    .caught_by("test_a_commit_whose_process_was_paused_for_long_is_prepared_again"),
    Mutant("damaged-quarantine-unexpected", "a damaged manifest list of the quarantine ends an ingest unexpectedly")
    .changes("Quarantine._add_files", drop_statement("_list_manifests"))
    .caught_by("test_an_append_over_a_damaged_manifest_list_names_it_and_ingests_nothing"),
    Mutant("pinned-while-expired", "a sweep expires a snapshot that was pinned at the moment of its commit")
    .changes("LogSqlCatalog.commit_table", drop_statement("_require_unpinned"))
    .caught_by("test_an_expiry_takes_no_snapshot_that_was_pinned_meanwhile"),
    Mutant("outnumbered-commit-unknown", "a commit that does not fit the newest metadata ends as if it had landed")
    .changes("LogSqlCatalog.commit_table", replace("ValueError", "ZeroDivisionError"))
    .caught_by("test_a_commit_that_another_engine_outnumbered_meanwhile_is_prepared_again"),
)
