"""Breakages of the rules about going on with a mirror of a topic."""

from __future__ import annotations

from tests.mutants.changes import drop_operand, drop_statement, never, replace, return_value, set_keyword
from tests.mutants.mutant import Mutant

KAFKA_MIRRORS: tuple[Mutant, ...] = (
    Mutant("sync-of-another-topic", "the offset sync of another topic of the mirror says where to look")
    .changes("_read_nearest", drop_operand("source"))
    .caught_by("test_nearest_sync_is_the_one_written_last_of_those_at_or_before_the_last_record"),
    Mutant("sync-beyond-the-log", "an offset sync behind the end of the log says where to look")
    .changes("_read_nearest", drop_operand("last_offsets"))
    .caught_by("test_nearest_sync_is_the_one_written_last_of_those_at_or_before_the_last_record"),
    Mutant("offset-syncs-not-looked-at", "MirrorMaker's offset syncs are not looked at")
    .changes("Mirror._list_beginnings", replace("self._syncs.by_partition.get(partition, ())", "()"))
    .caught_by("test_offset_sync_finds_the_place_where_the_timestamps_do_not[local]"),
    Mutant("offset-syncs-believed", "a mirror whose order does not show what is new counts as compared")
    .changes("describe_aligned", set_keyword("aligned", "True"))
    .caught_by("test_mirror_that_lags_or_has_other_headers_is_refused"),
    Mutant("mirror-without-headers", "records with other headers count as the same")
    .changes("_identify", replace("record.headers", "b''"))
    .caught_by("test_other_headers_or_another_time_make_another_record"),
    Mutant("mirror-passes-over-any", "records are passed over although no offset is empty here where they lie")
    .changes("_Aligning._pass_over", replace("max(0, count - empty)", "0"))
    .caught_by("test_record_for_which_no_offset_is_empty_is_never_passed_over"),
    Mutant("mirror-lag-taken-as-compaction", "a mirror that lacks the end counts as one that was compacted")
    .changes("_Aligning._is_compacted_away", drop_operand("_count_empty"))
    .caught_by("test_mirror_without_superseded_records_goes_on_behind_the_end"),
    Mutant("repeats-hide-new-records", "new records before repeated ones are skipped although they do not come again")
    .changes("_Aligning._find_doubt", never("owed"))
    .caught_by("test_new_records_before_repeated_ones_are_skipped_only_if_they_come_again"),
    Mutant("repeats-lose-the-position", "an accepted doubt about repeats skips what may be new")
    .changes("_Aligning._choose_position", return_value("self.position", "certain"))
    .caught_by("test_new_records_before_repeated_ones_are_skipped_only_if_they_come_again"),
    Mutant("sent-again-taken-as-new", "what a restarted mirror sends again of compacted keys counts as new")
    .changes("_Aligning._is_followed_by_older", return_value("False", "newest_ms"))
    .caught_by("test_records_behind_the_end_that_are_older_than_those_of_their_keys_leave_a_doubt"),
    Mutant("mirror-of-any-topic", "a mirror of another topic than the log's is compared by that one's offset syncs")
    .changes("Mirror.__init__", never("origin"))
    .caught_by("test_mirror_of_another_topic_and_a_topic_of_syncs_that_is_not_there_are_refused"),
    Mutant("empty-topic-begins-an-epoch", "an epoch begins with an empty topic, which nothing can be compared with")
    .changes("compare_epoch", drop_statement("require_records"))
    .caught_by("test_epoch_of_an_empty_topic_waits_for_records_or_for_acceptance"),
    Mutant("stale-preview", "what somebody saw is taken although records came since")
    .changes("NewEpoch.is_valid", drop_operand("_list_offsets"))
    .caught_by("test_epoch_that_was_shown_is_not_compared_again_unless_something_changed"),
)
