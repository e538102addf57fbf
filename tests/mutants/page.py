"""Mutants of the page: who reads records, what is written down first, and what must never stop a commit."""

from __future__ import annotations

from tests.mutants.changes import (
    always,
    assign,
    drop_element,
    drop_operand,
    drop_statement,
    never,
    replace,
    replace_call,
    return_value,
    set_keyword,
)
from tests.mutants.mutant import Mutant

_RAISE = "(_ for _ in ()).throw(problem)"

PAGE = (
    Mutant("records-without-the-setting", "a user whom no setting names reads records")
    .changes("may_read_records", never("record_readers"))
    .caught_by("test_nobody_may_read_records_by_default"),
    Mutant("records-without-the-auth-manager", "Airflow's auth manager is not asked about records")
    .changes("may_read_records", return_value("True", "is_authorized_custom_view"))
    .caught_by("test_auth_manager_has_a_say_too"),
    Mutant("records-without-an-audit-entry", "records are answered without an entry in the audit log")
    .changes("records.answer_with_audit", drop_statement("run_in_threadpool"))
    .caught_by("test_without_an_audit_entry_there_is_no_answer"),
    Mutant("page-decoded-bytes", "bytes and headers that rules hide stand beside a decoded record")
    .changes("ShownRecords._add_row", assign("False", "reading", "hides"))
    .caught_by("test_decoded_records_show_what_the_topics_rules_show_and_the_pages_masks_leave"),
    Mutant("page-decoded-unmasked", "a field that the page masks is a column of decoded records")
    .changes("ShownRecords.describe_text", replace("self.masks.apply(A)", "A"))
    .caught_by("test_decoded_records_show_what_the_topics_rules_show_and_the_pages_masks_leave"),
    Mutant("latest-state-of-older-rules", "rows are shown that were made by rules which hid less")
    .changes("open_latest_rows", never("compute_shape"))
    .caught_by("test_topics_without_rows_to_show_say_why"),
    Mutant("latest-state-masks-names-only", "a masked field whose column has another name is shown")
    .changes("latest_state._list_masked_columns", never("isdisjoint"))
    .caught_by("test_rows_are_shown_page_by_page_as_the_rules_and_the_pages_masks_show_them"),
    Mutant("latest-state-row-counted-twice", "the rows of a file that lie before the page are not left out")
    .changes("read_typed_rows", replace("batch.slice(skipped)", "batch"))
    .caught_by("test_rows_are_shown_page_by_page_as_the_rules_and_the_pages_masks_show_them"),
    Mutant("decoded-bytes-unmasked", "a pattern is not looked for in bytes before they become base64")
    .changes("json_rows._list_values", never("is_fixed_size_binary"))
    .caught_by("test_bytes_are_masked_before_they_are_base64"),
    Mutant("gap-told-without-all-runs", "a gap is told by the newest runs although older ones may have removed it")
    .changes("gaps._decide", always("has_all_runs"))
    .caught_by("test_what_was_not_read_is_not_known"),
    Mutant("gap-told-by-its-first-offset", "a gap has the answer of its first offset from end to end")
    .changes("gaps._list_turns", replace("entry.last_offset + 1", "entry.first_offset"))
    .caught_by("test_a_range_says_of_each_of_its_offsets_what_holds_for_it"),
    Mutant("removed-below-the-log-start", "records that were deleted are found in files that still have them")
    .changes("_keep_in_log", replace("state.log_start_offset", "0"))
    .caught_by("test_nothing_is_found_of_an_erased_key_of_deleted_records_or_of_swept_files"),
    Mutant("removed-although-there", "a record that a run kept is told as removed")
    .changes("removed_versions._list_present", never("mine"))
    .caught_by("test_what_a_random_history_removed_is_found_with_the_run_that_did"),
    Mutant("removed-by-the-first-run", "a record is told as removed by a run that kept it")
    .changes("find_removed_versions", replace("reversed(wanted)", "wanted"))
    .caught_by("test_what_a_random_history_removed_is_found_with_the_run_that_did"),
    Mutant("search-behind-the-mask", "a search tells by its matches what a mask hides")
    .changes("search._mask", return_value("content", "mask"))
    .caught_by("test_search_finds_nothing_behind_a_mask"),
    Mutant("search-in-hidden-headers", "a search tells by its matches which headers a decoded record does not show")
    .changes("search._show", never("hides"))
    .caught_by("test_search_finds_nothing_behind_a_mask"),
    Mutant("suite-tried-on-the-oldest", "a content suite is tried on more records than may be read")
    .changes("suite_trial._NewestRecords.read", replace("self.maximum_records", "self.maximum_records + 1"))
    .caught_by("test_newest_records_are_judged_by_the_named_suite_or_the_topics_own"),
    Mutant("suite-tried-without-end", "a trial of a content suite reads more bytes than its share")
    .changes("suite_trial._NewestRecords.read", replace("left_bytes <= 0", "False"))
    .caught_by("test_a_trial_ends_with_the_batch_that_reaches_its_share_of_bytes"),
    Mutant("reclaimable-in-part-is-unknown", "one partition that is unknown hides what the others would free")
    .changes("build_topic_overview", replace("sum(reclaimable) or A", "A"))
    .caught_by("test_reclaimable_bytes_of_a_topic_are_at_least_those_of_the_partitions_that_are_known"),
    Mutant("search-from-the-newest-leaves-out", "a search from the newest on goes on below what it has not looked at")
    .changes("search._search_newest", replace("{window.partition: offset}", "{window.partition: offset - 1}"))
    .caught_by("test_records_are_searched_by_what_they_show"),
    Mutant("search-window-leaves-out", "a search from the newest on leaves out a record between two questions")
    .changes("search._search_newest", replace("window.start", "window.start - 1"))
    .caught_by("test_search_reads_a_bounded_part_and_goes_on"),
    Mutant("search-leaves-out", "a search goes on behind the first record that it has not looked at")
    .changes("search._search_from", replace("rows.column(A)[-1].as_py() + 1", "rows.column(A)[-1].as_py() + 2"))
    .caught_by("test_search_reads_a_bounded_part_and_goes_on"),
    Mutant("newest-out-of-order", "a record of a partition is taken before later ones of it")
    .changes("merge_newest", replace("left[number].pop()", "left[number].pop(0)"))
    .caught_by("test_pages_hold_each_record_once_and_keep_the_order_of_a_partition"),
    Mutant("masked-after-cutting", "a value is cut first, so that what is left of a number is no match any more")
    .changes("ShownRecords._describe_bytes", replace("A.apply(B)", "A.apply(B[:maximum_bytes])"))
    .caught_by("test_what_is_masked_is_masked_before_a_value_is_cut"),
    Mutant("outcome-of-the-schedule", "runs of the schedule leave sentences that nobody reads")
    .changes("is_triggered", return_value("True", "manual"))
    .caught_by("test_a_run_of_the_schedule_leaves_nothing_and_a_large_one_counts_the_rest"),
    Mutant("outcome-of-a-failure", "a topic that was published is told as a failure, too")
    .changes("list_outcomes", assign("set()", "format_receipt"))
    .caught_by("test_compact_now_says_what_it_removed_and_then_why_nothing_was_due"),
    Mutant("outcome-of-another", "a topic that another run works on is told as not due")
    .changes("describe_idle_topics", never("IN_PROGRESS"))
    .caught_by("test_a_topic_of_somebody_elses_run_is_left_to_that_person_by_name"),
    Mutant("named-topics-skipped", "a topic that somebody asks about is not looked at if it was idle before")
    .changes("looks_at_all", drop_operand("topics"))
    .caught_by("test_a_topic_that_somebody_names_is_looked_at_although_it_was_idle"),
    Mutant("holder-of-the-past", "somebody whose lease has run out is shown at work")
    .changes("find_holder", never("expires_ms"))
    .caught_by("test_topic_says_who_is_at_work_on_it_and_with_which_run"),
    Mutant("differences-of-thinned-samples", "records ingested a day are differences of the samples that a chart shows")
    .changes(
        "trends._describe_trends", replace("_sum_appended_by_day(samples, A)", "_sum_appended_by_day(samples[::2], A)")
    )
    .caught_by("test_records_ingested_a_day_do_not_depend_on_the_minute_of_the_look"),
    Mutant("recovered-run-needs-attention", "a failed run is counted although its topic was published after it")
    .changes("LakeSummaries.summarize", replace("~is_recovered", "(run.plan_id != '')"))
    .caught_by("test_a_failed_run_after_which_its_topic_was_published_needs_no_attention"),
    Mutant("unknown-is-nothing", "topics of which it is not known what is reclaimable are not counted")
    .changes("lake_summary._sum_topics", set_keyword("topics_unestimated", "0"))
    .caught_by("test_overview_sums_up_topics_and_counts_their_states"),
    Mutant("application-counted-by-topic", "each run of one Spark application is one of the longest")
    .changes("receipt_figures._select_longest", replace("func.coalesce(wrote, A)", "A"))
    .caught_by("test_runs_of_one_spark_application_are_one_of_the_longest"),
    Mutant("half-a-byte", "a unit that gives no whole number is rounded down")
    .changes("convert_unit", return_value("str(count)", "rest"))
    .caught_by("test_what_is_no_unit_of_the_key_stays_and_is_refused_as_it_was_typed"),
    Mutant("request-of-another-site", "a form of another site may post with a user's cookie")
    .changes("require_own_request", never("OWN_REQUEST_HEADER"))
    .caught_by("test_every_post_refuses_strangers_other_sites_and_users_without_the_right"),
    Mutant("records-for-another-site", "routes of records take requests of other sites")
    .changes("records.router", drop_element("own_request"))
    .caught_by("test_every_post_refuses_strangers_other_sites_and_users_without_the_right"),
    Mutant("mute-ignored-by-channels", "a muted alert that waits for its channel is delivered")
    .changes("AlertManager._is_muted", return_value("False", "are_muted"))
    .caught_by("test_muted_alert_is_sent_when_its_mute_ends_once_with_all_that_it_said"),
    Mutant("recovery-muted", "the recovery of a muted alert is not delivered")
    .changes("SentAlerts.forget_all", drop_statement("_enqueue"))
    .caught_by("test_recovery_of_a_muted_alert_is_sent_and_the_end_of_its_mute_sends_nothing"),
    Mutant("change-by-another-overwritten", "a change is made although others changed the same key meanwhile")
    .changes("_alter_configuration", drop_statement("_require_expected"))
    .caught_by("test_a_change_decided_on_other_values_than_the_present_ones_is_refused"),
    Mutant("configuration-changed-twice", "a change that was made already is committed again")
    .changes("_alter_configuration", never("present", "reset"))
    .caught_by("test_a_change_that_was_made_already_commits_nothing"),
    Mutant("partitions-added-twice", "partitions that are there already are added again")
    .changes("_add_partitions", never("partitions"))
    .caught_by("test_a_change_that_was_made_already_commits_nothing"),
    Mutant("creation-repeated-over-another", "a topic with another configuration counts as created")
    .changes("topic_changes._create_topic", always("_read_overrides"))
    .caught_by("test_a_change_that_was_made_already_commits_nothing"),
    Mutant("overview-stops-an-ingest", "an ingest fails because its overview cannot be recorded")
    .changes("suppress_overview_errors", replace("log.warning(...)", _RAISE))
    .caught_by("test_an_ingest_succeeds_although_its_overview_cannot_be_recorded"),
    Mutant("progress-stops-a-compaction", "a compaction fails because its progress cannot be recorded")
    .changes("JobRecorder.write", replace("log.debug(...)", _RAISE))
    .caught_by("test_store_that_does_not_answer_fails_no_compaction"),
    Mutant("audit-stops-an-acknowledgement", "an alert's change fails because the audit log cannot be written")
    .changes("alerts._finish", replace("log.warning(...)", _RAISE))
    .caught_by("test_what_was_done_stays_done_if_the_audit_log_cannot_be_written"),
    Mutant("audit-stops-a-change", "a change that is committed fails because the audit log cannot be written")
    .changes("record_action", replace("log.warning(...)", _RAISE))
    .caught_by("test_change_is_done_and_warned_about_if_the_audit_log_cannot_be_written"),
    Mutant("reader-outlives-its-client", "a process reads on although nobody waits for its answer")
    .changes("Reader.end", drop_statement("write_eof"))
    .caught_by("test_process_ends_when_its_client_goes_away"),
    Mutant("reader-not-killed", "the end of a question does not end a process that is busy")
    .changes("ForkingProcess._kill", replace("kill(pid, A)", "None"))
    .caught_by("test_process_ends_when_its_client_goes_away"),
    Mutant("reader-parent-stays", "the process that readers are forked from keeps its memory for ever")
    .changes("ReaderProcesses._end_if_idle", never("_asked"))
    .caught_by("test_process_that_forks_ends_when_nothing_is_asked"),
    Mutant("reader-parent-ends-early", "a question is lost since none came after it for two minutes")
    .changes("ReaderProcesses._end_if_idle", drop_operand("_at_work"))
    .caught_by("test_process_that_forks_ends_when_nothing_is_asked"),
    Mutant("reader-parent-of-others-ended", "a question that is lost ends the process that the others are forked from")
    .changes("ReaderProcesses._end_parent", always("_parent"))
    .caught_by("test_questions_whose_processes_lose_the_one_that_forked_them_are_asked_again_and_those_end"),
    Mutant("reader-parent-ended-while-it-loads", "a client that goes away ends the process that still loads libraries")
    .changes("ReaderParent.has_loaded", replace("False", "True"))
    .caught_by("test_client_that_goes_away_while_the_libraries_load_does_not_end_the_process_that_loads_them"),
    Mutant("reader-parent-of-another-place", "questions are answered by the settings of before")
    .changes("ReaderParent.is_usable", drop_operand("_place"))
    .caught_by("test_question_is_answered_by_the_settings_of_the_present_environment"),
    Mutant("one-user-takes-all-processes", "a user's second question takes the other process")
    .changes("ReaderTurns._grant", replace("A not in self._users", "True"))
    .caught_by("test_one_user_has_one_turn_and_another_is_served_beside"),
    Mutant("turns-by-arrival-alone", "a user with many questions goes before others who had no turn")
    .changes("ReaderTurns._end", drop_statement("sort"))
    .caught_by("test_user_who_had_a_turn_goes_behind_those_who_had_none"),
    Mutant("turn-lost-with-its-client", "a turn that comes as its client goes away is never given on")
    .changes("ReaderTurns._give_up", drop_statement("_end"))
    .caught_by("test_turn_that_comes_as_its_question_ends_goes_to_the_next"),
    Mutant("half-a-pair-in-a-body", "half of a surrogate pair in a request fails the server or goes on")
    .changes("RequestBody.require_utf8", drop_statement("dumps"))
    .caught_by("test_half_of_a_surrogate_pair_in_a_request_is_refused_in_a_sentence"),
    Mutant("half-a-pair-in-an-answer", "half of a surrogate pair in a document fails the answer")
    .changes("EscapedJson.render", set_keyword("ensure_ascii", "False"))
    .caught_by("test_half_of_a_surrogate_pair_in_a_stored_document_is_shown_as_its_escape"),
    Mutant("runs-by-activity-in-a-file", "a run that moves while a file is read stands in it never or twice")
    .changes("RunHistory._list_keys", replace("run.opened_at_ms < opened_at_ms", "run.updated_at_ms < opened_at_ms"))
    .caught_by("test_all_runs_are_read_once_while_runs_are_planned_and_move"),
    Mutant("json-list-as-one-name", "a list that is given as JSON is taken as one name")
    .changes("setting_types._split_list", always("startswith"))
    .caught_by("test_list_that_is_given_as_json_is_no_name_in_brackets"),
    Mutant("removed-user-stays", "a user who was removed is let in with a former token")
    .changes("EmbeddedAuthManager.deserialize_user", never("known"))
    .caught_by("test_removed_user_is_let_in_no_more"),
    Mutant("role-of-the-token", "a session outlives the role that it was begun with")
    .changes("EmbeddedAuthManager._sign", drop_element("known.role"))
    .caught_by("test_demoted_user_has_the_new_rights_only"),
    Mutant("session-outlives-the-password", "a session outlives the password that it was begun with")
    .changes("EmbeddedAuthManager._sign", drop_element("known.password"))
    .caught_by("test_another_password_ends_the_sessions_that_the_former_one_began"),
    Mutant("postgres-with-a-capability", "the PostgreSQL of root passes every permission of files")
    .changes(
        "ServerAccount.choose",
        replace(
            "(setpriv, *ids, A, B, C)", "(setpriv, *ids, '--inh-caps=+dac_override', '--ambient-caps=+dac_override')"
        ),
    )
    .caught_by("test_server_of_root_has_no_capability_and_reads_nobody_elses_files"),
    Mutant("formula-in-a-file", "a text that a spreadsheet runs as a formula stands in a CSV file")
    .changes("_escape_formula", never("startswith"))
    .caught_by("test_text_that_a_spreadsheet_would_run_stays_text"),
    Mutant("owner-not-asked-for-records", "records of an owner's topic are shown to everybody who reads records")
    .changes("answer_request", never("user"))
    .caught_by("test_records_are_shown_to_those_who_may_act_for_the_topics_owner"),
    Mutant("owner-not-asked-for-named-topics", "whoever triggers a run compacts any topic that it names")
    .changes("select_topics", drop_statement("require_right"))
    .caught_by("test_a_run_without_topics_leaves_those_of_others_and_the_schedule_takes_all"),
    Mutant("owner-not-asked-for-kafka-topics", "whoever triggers a run reads Kafka into any topic that it names")
    .changes("ingest_from_kafka", drop_statement("require_right"))
    .caught_by("test_kafka_is_not_read_into_topics_of_an_owner_whom_the_person_may_not_act_for"),
    Mutant("owner-not-asked-for-followed-topics", "whoever triggers a run reads Kafka into every followed topic")
    .changes("ingest_from_kafka", drop_statement("keep_permitted"))
    .caught_by("test_kafka_is_not_read_into_topics_of_an_owner_whom_the_person_may_not_act_for"),
    Mutant("nobody-by-name-may-act", "a run of somebody whom Airflow does not name may do everything")
    .changes("find_person", return_value("name", "_OF_PEOPLE"))
    .caught_by("test_a_run_without_topics_leaves_those_of_others_and_the_schedule_takes_all"),
    Mutant("operator-acts-for-nobody", "a run that a task of another DAG triggered may act on topics of every owner")
    .changes("find_person", replace("A not in _OF_PEOPLE", "A != 'manual'"))
    .caught_by(
        "test_run_that_another_dag_or_somebody_unnamed_triggered_is_of_a_person_without_a_name[operator_triggered]"
    ),
    Mutant("checkpoint-of-one-partition", "a sensor waits for any partition instead of each")
    .changes("has_reached", replace_call("all", "any"))
    .caught_by("test_checkpoint_is_reached_by_every_partition_and_not_before"),
    Mutant("sensor-without-inlet", "Airflow does not list the sensor at the asset of its topic")
    .changes("WinnowCheckpointSensor.__init__", never("fullmatch"))
    .caught_by("test_sensor_is_listed_at_the_asset_of_its_topic_unless_that_is_not_known_while_a_file_is_parsed"),
    Mutant("compact-of-no-topic", "an operator that names no topic compacts all")
    .changes("WinnowCompactOperator.__init__", never("topics"))
    .caught_by("test_compaction_of_no_topic_is_refused_where_it_would_mean_all"),
    Mutant("bulk-without-rights", "a run changes topics of owners whom the person may not act for")
    .changes("bulk_steps.change_many", drop_statement("require_right"))
    .caught_by("test_topic_of_an_owner_whom_the_person_may_not_act_for_is_refused_whatever_the_page_said"),
    Mutant("bulk-review-without-rights", "a review takes topics of owners whom the person may not act for")
    .changes("bulk._review_topics", never("may_act"))
    .caught_by("test_topics_that_it_cannot_take_are_named_with_the_reason"),
    Mutant("bulk-removal-unsaid", "a review does not say that runs will remove records for good by what it changes")
    .changes("bulk._review_configuration", replace("_can_remove_records(overrides, config, settings)", "False"))
    .caught_by("test_filter_becomes_names_and_each_change_is_shown_with_what_is_for_good"),
    Mutant("bulk-not-as-reviewed", "a run changes other topics, or otherwise, than somebody reviewed")
    .changes("bulk_steps.change_many", never("compute_review_digest"))
    .caught_by("test_request_that_is_not_what_was_reviewed_changes_nothing"),
    Mutant("bulk-over-a-later-change", "a topic that was changed since the review is changed again")
    .changes("change_reviewed_topic", never("compute_fingerprint"))
    .caught_by("test_topic_that_was_changed_since_the_review_is_refused_by_name_and_the_others_are_done"),
    Mutant("bulk-an-entry-a-topic", "a change of many topics is an entry of the audit log for each")
    .changes("change_reviewed_topic", set_keyword("is_recorded_by_caller", "False"))
    .caught_by("test_many_topics_are_paused_and_resumed_under_one_name"),
    Mutant("bulk-without-an-audit-entry", "a change of many topics is not in the audit log")
    .changes("bulk_steps.change_many", drop_statement("record_request"))
    .caught_by("test_many_topics_are_paused_and_resumed_under_one_name"),
)
