"""Breakages of the rules about what configuration a log takes from its topic at Kafka."""

from __future__ import annotations

from tests.mutants.changes import never, replace
from tests.mutants.mutant import Mutant

KAFKA_CONFIGURATION: tuple[Mutant, ...] = (
    Mutant(
        "kafka-policy-only-where-set", "a topic that sets no policy at Kafka is compacted here, and loses its events"
    )
    .changes(
        "decide_new_configuration", replace("name == POLICY", "(name == POLICY and setting.origin is Origin.TOPIC)")
    )
    .caught_by("test_a_new_topic_has_the_policy_in_force_and_no_retention_of_kafkas_default"),
    Mutant("kafka-policy-assumed", "a policy that brokers did not say is taken for Winnow's default")
    .changes("decide_new_configuration", replace("POLICY not in kafka", "False"))
    .caught_by("test_no_policy_is_assumed_where_kafka_says_none_that_is_known"),
    Mutant("kafka-default-retention-taken", "Kafka's seven days remove records of an archive that nobody asked")
    .changes("decide_new_configuration", replace("setting.origin is Origin.TOPIC", "True"))
    .caught_by("test_a_new_topic_has_the_policy_in_force_and_no_retention_of_kafkas_default"),
    Mutant("kafka-shorter-retention-taken", "a retention that was set for a purge at Kafka empties the archive")
    .changes("removes_more", replace("new < old", "False"))
    .caught_by("test_what_would_remove_records_waits_and_the_rest_is_taken"),
    Mutant("kafka-added-compaction-taken", "a topic that begins to be compacted at Kafka is compacted here unasked")
    .changes("removes_more", replace("after.compacts and not before.compacts", "False"))
    .caught_by("test_what_would_remove_records_waits_and_the_rest_is_taken"),
    Mutant("kafka-shorter-delete-retention-taken", "tombstones go sooner because Kafka's go sooner")
    .changes("removes_more", replace("after.delete_retention_ms < before.delete_retention_ms", "False"))
    .caught_by("test_what_would_remove_records_waits_and_the_rest_is_taken"),
    Mutant("kafka-protected-records-count-as-deletable", "a policy without compact ends a protection unseen")
    .changes("_list_limits", replace("config.retention_protect_latest", "False"))
    .caught_by("test_latest_records_that_were_protected_from_retention_are_protected_until_a_person_agrees"),
    Mutant("kafka-unseen-value-accepted", "an acceptance takes another value than the one that was said")
    .changes("decide_configuration", replace("record[name].setting == kafka[name]", "True"))
    .caught_by("test_acceptance_is_of_the_values_that_were_said"),
    Mutant("kafka-override-kept", "a retention that was taken back at Kafka goes on removing records here")
    .changes("_choose_targets", replace("taken is Origin.TOPIC", "False"))
    .caught_by("test_what_was_taken_back_at_kafka_goes_here_and_what_a_person_set_stays"),
    Mutant("kafka-person-overruled", "a key that a person set here goes because Kafka does not set it")
    .changes("forget_taken", replace("name in names", "False"))
    .caught_by("test_what_was_taken_back_at_kafka_goes_here_and_what_a_person_set_stays"),
    Mutant("kafka-unknown-origin-believed", "a value of unknown origin counts as one that the topic does not set")
    .changes("_choose_targets", never("UNKNOWN"))
    .caught_by("test_a_key_of_which_kafka_says_nothing_stays"),
    Mutant("held-unrecorded", "a change that waits for a person is not in the audit log")
    .changes("_record_held", never("parts"))
    .caught_by("test_what_waits_and_what_waits_no_more_is_in_the_audit_log_once"),
    Mutant("held-recorded-at-each-look", "a change that waits is in the audit log again at each look")
    .changes("_record_held", replace("before.get(name) != each", "True"))
    .caught_by("test_what_waits_and_what_waits_no_more_is_in_the_audit_log_once"),
)
