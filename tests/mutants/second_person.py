"""Mutants of changes that take two persons: who approves, what an approval is for, and what takes one."""

from __future__ import annotations

from tests.mutants.changes import never, replace, return_value
from tests.mutants.mutant import Mutant

SECOND_PERSON = (
    Mutant("change-by-one-person", "one person shortens retention where that takes two")
    .changes("require_second_person", never("takes_second_person"))
    .caught_by("test_change_that_can_remove_records_is_refused_for_one_person[retention.ms]"),
    Mutant("change-approved-by-oneself", "who asks for a change approves it")
    .changes("require_second_person", never("is_same_person"))
    .caught_by("test_who_asked_for_a_change_may_not_approve_it[anna]"),
    Mutant("change-other-than-approved", "an approval is good for any other change")
    .changes("require_second_person", never("digest"))
    .caught_by("test_approval_is_for_what_was_shown_and_nothing_else"),
    Mutant("approved-change-of-another-configuration", "the configuration changed since the approval")
    .changes("show_values", replace("dict(read_overrides(head.table.properties))", "{}"))
    .caught_by("test_approval_is_void_when_the_configuration_changed_since"),
    Mutant("strategy-by-one-person", "another record of each key wins, and nobody else was asked")
    .changes("can_remove_records", return_value("removes_more(before, after)"))
    .caught_by("test_change_that_can_remove_records_is_refused_for_one_person[compaction.strategy]"),
)
