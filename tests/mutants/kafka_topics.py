"""Breakages of the rules about one topic stopping others, and topics that are gone at Kafka."""

from __future__ import annotations

from tests.mutants.changes import always, drop_keyword, drop_operand, never, replace
from tests.mutants.mutant import Mutant

KAFKA_TOPICS: tuple[Mutant, ...] = (
    Mutant("no-answer-taken-for-gone", "a topic of which brokers tell nothing counts as one that they do not have")
    .changes("_look_at_brokers", replace("found.keys() | answers.problems.keys()", "found.keys()"))
    .caught_by("test_a_topic_without_permission_fails_alone"),
    Mutant("gone-topic-fails", "a topic that is gone at Kafka is a failure of each call")
    .changes("_look_at_brokers", replace("(name for name in asked if name in answered)", "asked"))
    .caught_by("test_a_topic_that_is_gone_is_a_state_with_an_alert_and_no_failure"),
    Mutant("files-taken-for-gone", "a log that never was a copy of its namesake at Kafka counts as gone there")
    .changes("_find_kind", drop_operand("epochs", "topic"))
    .caught_by("test_a_log_of_a_topic_of_another_name_is_never_gone"),
    Mutant("policy-not-asked-for", "a topic that was created again goes on as a new epoch although nobody said so")
    .changes("choose_rules", drop_operand("goes_on"))
    .caught_by("test_a_recreated_topic_goes_on_as_a_new_epoch_where_the_settings_say_so"),
    Mutant("epoch-at-each-call", "the policy begins an epoch of a topic that is still the same")
    .changes("choose_rules", drop_operand("is_another_topic"))
    .caught_by("test_a_recreated_topic_goes_on_as_a_new_epoch_where_the_settings_say_so"),
    Mutant("epoch-of-nothing", "the policy begins an epoch of a topic that is still empty, and so compares nothing")
    .changes("choose_rules", never("_is_empty"))
    .caught_by("test_an_epoch_of_the_policy_waits_for_records_and_is_refused_if_they_are_old"),
    Mutant("left-partitions-not-compared", "a topic that lags behind the partitions that it lacks is taken as newer")
    .changes("require_newer_than_left", always("find_offsets_at"))
    .caught_by("test_an_epoch_of_the_policy_waits_for_records_and_is_refused_if_they_are_old"),
    Mutant("unfollowed-in-the-store-alone", "whether a log follows its topic is not asked of the log")
    .changes("prepare_topic", never("follows"))
    .caught_by("test_an_unfollowed_topic_is_left_until_it_is_followed_again"),
    Mutant("asked-twice", "following asks the brokers again about topics that have something new")
    .changes("_ingest", drop_keyword("described"))
    .caught_by("test_brokers_are_asked_once_about_topics_with_something_new[False]"),
)
