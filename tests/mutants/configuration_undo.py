"""Mutants of the undo of a change of configuration: what is recorded, what is set back, and what refuses it."""

from __future__ import annotations

from tests.mutants.changes import never, replace
from tests.mutants.mutant import Mutant

CONFIGURATION_UNDO = (
    Mutant("audit-changes-outside-the-digest", "former values can be changed and the chain still holds")
    .changes("compute_entry_digest", never("config_changes"))
    .caught_by("test_digest_covers_the_changes_of_an_entry_that_has_them_and_older_entries_keep_theirs[sqlite]"),
    Mutant("audit-changes-in-every-digest", "entries from before former values were recorded do not hold any more")
    .changes("compute_entry_digest", replace("A is not None", "True"))
    .caught_by("test_digest_is_that_of_the_documented_line[sqlite]"),
    Mutant("former-values-of-an-older-head", "what another change set right before the commit is not recorded")
    .changes("alter_topic", replace("A[-1]", "A[0]"))
    .caught_by("test_recorded_values_are_those_that_the_commit_replaced"),
    Mutant("undo-over-a-later-decision", "an undo overwrites a value that somebody set since")
    .changes("require_as_left", never("others"))
    .caught_by("test_key_with_another_value_by_now_refuses_the_undo_and_names_who_set_it"),
    Mutant("undo-over-a-change-before-its-commit", "an undo overwrites what came in right before its commit")
    .changes("alter_topic", never("undoes"))
    .caught_by("test_change_right_before_the_commit_refuses_the_undo"),
    Mutant("undo-in-another-life", "a topic gets values of a topic that had its name before")
    .changes("require_as_left", never("any"))
    .caught_by("test_entry_of_an_earlier_life_of_the_topic_is_not_undone"),
    Mutant("undo-of-what-is-as-before", "undoing twice writes the same values and an entry again")
    .changes("plan_undo", replace("A != B", "True"))
    .caught_by("test_each_key_gets_back_its_value_or_none_and_the_undo_can_be_undone"),
    Mutant("undo-names-an-undo", "the refusal names the undo of a later entry, which would set the wrong value again")
    .changes("_find_origin", replace("later", "reversed(later)"))
    .caught_by("test_undo_that_was_refused_names_the_entry_and_not_the_undo_of_one_after_it"),
    Mutant("bulk-records-other-values", "former values of a topic that was changed since its review are recorded")
    .changes("list_reviewed_values", replace("A == compute_fingerprint(...)", "A is not None"))
    .caught_by("test_change_of_many_topics_is_undone_for_each_of_them"),
    Mutant("request-tried-again-is-another", "a task that is tried again writes its request a second time")
    .changes("_SAME", replace("A not in B", "A not in {'at_ms', 'entry_id'}"))
    .caught_by("test_request_that_is_tried_again_is_the_same_whatever_values_it_finds[sqlite]"),
)
