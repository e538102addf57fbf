"""Breakages of the rules about restoring into Kafka."""

from __future__ import annotations

from tests.mutants.changes import assign, drop_statement, return_value
from tests.mutants.mutant import Mutant

KAFKA_RESTORE: tuple[Mutant, ...] = (
    Mutant("restore-fence-not-asked", "an error that does not say that a restore was taken over is told as it is")
    .changes("TransactionalWriter._find_cause", assign("False", "_is_taken_over"))
    .caught_by("test_whether_a_restore_was_taken_over_is_asked_before_an_error_that_does_not_say_it"),
    Mutant("restore-positions-not-compared", "a producer that cannot ask any more does not look at the positions")
    .changes("TransactionalWriter._is_taken_over", return_value("None", "_has_foreign_positions"))
    .caught_by("test_positions_of_another_restore_show_that_it_took_over_where_the_producer_cannot_ask"),
    Mutant("restore-own-positions-are-foreign", "a restore takes what it committed itself for another's")
    .changes("TransactionalWriter.commit", drop_statement("_known"))
    .caught_by("test_own_positions_show_no_other_restore_where_the_producer_cannot_ask"),
    Mutant("restore-taken-over-while-measured", "what another restore wrote while the log was measured is refused")
    .changes("RestoreOpening._check_target", drop_statement("require_held"))
    .caught_by("test_a_second_restore_takes_over_and_the_first_writes_nothing_more[Measuring]"),
    Mutant("restore-limit-not-checked", "a topic that does not take the largest record is written to")
    .changes("RestoreOpening._check_target", drop_statement("require_large_enough"))
    .caught_by("test_a_topic_that_does_not_take_the_largest_record_is_refused_before_anything_is_written"),
    Mutant("restore-created-with-brokers-limit", "a new target has the brokers' max.message.bytes")
    .changes("RestoreOpening._create_target", assign("dict(RESTORING)", "message_bytes"))
    .caught_by("test_a_record_of_5_mb_comes_back_and_no_transaction_is_aborted_for_it"),
    Mutant("restore-batches-too-large", "batches of small records are larger than the target takes")
    .changes("choose_batch_bytes", return_value("BATCH_BYTES", "BATCH_BYTES"))
    .caught_by("test_small_records_go_into_a_topic_that_takes_small_batches_only"),
    Mutant("restore-brokers-defaults-stay", "where the brokers' default is another the target keeps it")
    .changes("apply_configuration", assign("{}", "list_settings_to_change"))
    .caught_by("test_the_target_has_the_archives_settings_where_the_brokers_have_others"),
)
