"""Mutants of the page: who reads records, what is written down first, and what must never stop a commit."""

from __future__ import annotations

from tests.mutants.changes import always, drop_element, drop_statement, never, replace, return_value
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
    .changes("records._answer", drop_statement("run_in_threadpool"))
    .caught_by("test_without_an_audit_entry_there_is_no_answer"),
    Mutant("masked-after-cutting", "a value is cut first, so that what is left of a number is no match any more")
    .changes("ShownRecords._describe_bytes", replace("A.apply(B)", "A.apply(B[:maximum_bytes])"))
    .caught_by("test_what_is_masked_is_masked_before_a_value_is_cut"),
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
    Mutant("formula-in-a-file", "a text that a spreadsheet runs as a formula stands in a CSV file")
    .changes("_escape_formula", never("startswith"))
    .caught_by("test_text_that_a_spreadsheet_would_run_stays_text"),
)
