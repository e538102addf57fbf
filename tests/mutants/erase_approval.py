"""Mutants of erasures that take two persons: who approves, what an approval is for, and how often it counts."""

from __future__ import annotations

from tests.mutants.changes import assign, drop_operand, drop_statement, never, replace, return_value, set_keyword
from tests.mutants.mutant import Mutant

ERASE_APPROVAL = (
    Mutant("erase-by-one-person", "who calls the erasure past the request erases alone")
    .changes("require_approval", never("settings"))
    .caught_by("test_erasure_without_a_request_is_refused_wherever_it_begins"),
    Mutant("erase-what-was-rejected", "a request is carried out though the other person said no")
    .changes("require_approval", never("APPROVED"))
    .caught_by("test_request_that_was_rejected_is_not_carried_out_and_asking_again_makes_another"),
    Mutant("erase-other-keys-than-approved", "the file with the keys is changed after the approval, and all of it goes")
    .changes("require_approval", replace("found.binding != binding", "False"))
    .caught_by("test_file_with_other_keys_than_were_approved_is_refused"),
    Mutant("approval-of-any-life", "keys are erased from a topic that was created again since the approval")
    .changes("require_approval", replace("found.binding != binding", "False"))
    .caught_by("test_approval_of_an_earlier_life_is_for_other_keys_even_where_its_row_stayed"),
    Mutant("approval-of-any-option", "an approved erasure goes with options that nobody approved")
    .changes("compute_binding", assign("b''", "with_tombstone"))
    .caught_by("test_other_options_than_were_approved_are_refused[with_tombstone]"),
    Mutant("approval-for-ever", "an approval is used when nobody remembers it")
    .changes("require_approval", never("is_expired"))
    .caught_by("test_approver_who_was_paused_for_a_week_approves_nothing"),
    Mutant("approval-of-an-old-request", "a request of last month is approved")
    .changes("_require_approvable", never("is_expired"))
    .caught_by("test_request_is_approved_and_used_within_seven_days"),
    Mutant("approval-of-another-topic", "a request for one topic erases keys of another")
    .changes("require_approval", drop_operand("topic"))
    .caught_by("test_request_of_another_topic_is_not_known"),
    Mutant("approval-of-a-changed-plan", "the plan that was approved is another one by the time of the commit")
    .changes("require_approval", never("compute_digest"))
    .caught_by("test_plan_that_was_changed_in_the_store_is_refused"),
    Mutant("approval-unseen", "somebody approves what they did not see")
    .changes("EraseRequests.decide", drop_operand("plan_sha256"))
    .caught_by("test_approval_is_of_the_plan_that_was_seen"),
    Mutant("approval-of-oneself", "who asks approves")
    .changes("_require_approvable", never("is_same_person"))
    .caught_by("test_who_asked_may_not_approve[anna]"),
    Mutant("approval-under-two-names", "who asks at a shell approves on the page")
    .changes("_get_person", return_value("name", "partition"))
    .caught_by("test_who_asked_may_not_approve[anna@laptop]"),
    Mutant("approval-used-twice", "a run of a request that was carried out says that it erased")
    .changes("require_unused", never("USED"))
    .caught_by("test_approval_is_used_once"),
    Mutant("approval-used-by-two-commits", "a try that died before the store was told is followed by a second erasure")
    .changes("_Erasure._build", never("carried_out"))
    .caught_by("test_try_that_died_after_its_commit_finds_its_erasure_done_and_completes_it"),
    Mutant("approval-in-no-certificate", "nobody can tell later who approved")
    .changes("_Erasure._make_document", set_keyword("approvals", "()"))
    .caught_by("test_what_another_person_approved_is_erased_and_the_certificate_names_both"),
    Mutant("request-that-erases", "who asks erases at once, or fails")
    .changes("erase_or_ask", never("PENDING"))
    .caught_by("test_who_asks_erases_nothing_and_says_what_would_go"),
    Mutant("request-after-request", "each repeated call makes another request")
    .changes("find_request", never("known"))
    .caught_by("test_asking_again_makes_no_second_request"),
    Mutant("lifted-erasure-stays-approved", "keys that may come again are not erased when that is asked for anew")
    .changes("_counts", assign("False", "lifts"))
    .caught_by("test_lifted_erasure_is_asked_for_anew"),
    Mutant("request-of-a-former-life", "who was paused asks for an erasure of a topic that is gone")
    .changes("EraseRequests.open", drop_statement("require_same_life"))
    .caught_by("test_approval_is_gone_with_the_life_of_its_topic"),
    Mutant("shell-approves-always", "a shell approves where only the page should")
    .changes("decide_request", never("shell_approval"))
    .caught_by("test_commands_ask_approve_and_erase"),
    Mutant("page-approves-for-owners", "who may not act for a topic's owner approves the erasure of its keys")
    .changes("_decide", drop_statement("require_owner_right"))
    .caught_by("test_request_of_an_owners_topic_is_left_to_those_who_may_act_for_it"),
    Mutant("page-approves-unseen", "an approval on the page is in no audit log")
    .changes("_decide", drop_statement("record"))
    .caught_by("test_another_person_approves_and_both_log_and_store_say_who"),
    Mutant("certificate-of-any-topic", "a topic's page shows the certificate of another one")
    .changes("certify", never("topic"))
    .caught_by("test_certificate_of_another_topic_or_of_none_is_not_found"),
    Mutant("request-of-nobody", "a run that nobody triggered asks, and its approver is the only person")
    .changes("require_person", never("find_person"))
    .caught_by("test_a_run_that_nobody_triggered_asks_for_nothing_that_takes_two[None-asset_triggered]"),
    Mutant("approved-retry-refused", "a task whose first try died is refused for its own approval")
    .changes("erase_or_ask", replace("is_first_try", "True"))
    .caught_by("test_a_retry_of_an_approved_erasure_deletes_what_the_first_try_could_not"),
)
