"""Breakages of the rules about offsets at the border to Kafka: what is read, of which epoch, what is given back."""

from __future__ import annotations

from tests.mutants.changes import drop_operand, drop_statement, never, replace, swap_operator
from tests.mutants.mutant import Mutant

_LIFE = "test_offset_of_the_log_has_an_epoch_and_an_offset_at_the_brokers"
_AT_BROKERS = "test_offset_at_the_brokers_is_in_the_life_that_they_have_it_of"
_STAMPS = "test_timestamp_of_0_is_a_time_and_a_missing_one_is_none"
_RUNS = "test_the_runs_have_every_record_once_however_they_arrive"
_FIRST_ABOVE = "test_an_offset_becomes_that_of_the_first_record_at_or_above_it"
_LINES = "test_a_line_that_is_no_committed_offset_is_refused"
_BOUND = "test_bound_of_a_restore_is_before_an_offset_or_the_first_record_of_a_time"
_RANGE = "test_records_of_a_range_are_read_and_none_beside_it"
_COUNTED = "test_what_a_restore_cannot_give_back_is_counted"

_EPOCHS = (
    Mutant("first-record-of-a-life-in-the-one-before", "the first offset of an epoch belongs to the epoch before")
    .changes("find_epoch", swap_operator(">=", ">", "get_begin"))
    .caught_by(_LIFE),
    Mutant("oldest-life-for-every-offset", "an offset is of the oldest epoch that begins below it")
    .changes("find_epoch", replace("A[-1]", "A[0]"))
    .caught_by(_LIFE),
    Mutant("life-ends-at-the-next-base", "an epoch ends where the next has offset 0, not where it was left")
    .changes("find_epoch_end", replace("A.get_begin(partition)", "A.get_base(partition)"))
    .caught_by(_LIFE),
    Mutant("offset-of-the-log-at-the-brokers", "an offset of the log is taken for that at the brokers")
    .changes("restore_offset", replace("offset - A", "offset"))
    .caught_by(_LIFE),
    Mutant("place-where-a-life-was-left-is-the-older", "the first offset of a new end of a partition is the lost one's")
    .changes("locate_offset", swap_operator(">=", ">", "get_begin"))
    .caught_by(_AT_BROKERS),
    Mutant("newest-base-for-every-offset", "offsets below the place where an epoch was left get the newest base")
    .changes("locate_offset", swap_operator(">=", "<=", "get_begin"))
    .caught_by(_AT_BROKERS),
    Mutant("lives-of-two-topics-joined", "an offset of a topic that was created again is looked for in the one before")
    .changes("locate_offset", never("topic_id"))
    .caught_by("test_offsets_of_a_topic_that_was_created_again_are_never_those_of_the_one_before"),
    Mutant("leader-epochs-forgotten", "a call that read nothing forgets the leader epochs that were known")
    .changes("append_leader_epochs", drop_operand("observed"))
    .caught_by("test_leader_epochs_are_kept_where_they_change"),
    Mutant("leader-epochs-before-a-hole-kept", "leader epochs from before a hole count as those of what was read")
    .changes("append_leader_epochs", replace("joins or not observed", "True"))
    .caught_by("test_leader_epochs_begin_again_behind_records_of_another_source"),
    Mutant("oldest-leader-epochs-kept", "the newest leader epoch is forgotten once there are many")
    .changes("append_leader_epochs", replace("A[-MAXIMUM_LEADER_EPOCHS:]", "A[:MAXIMUM_LEADER_EPOCHS]"))
    .caught_by("test_leader_epochs_are_bounded"),
    Mutant("leader-epoch-of-no-record-stays", "a leader epoch that begins at the end of what is left stays")
    .changes("shorten_leader_epochs", swap_operator("<", "<=", "start"))
    .caught_by("test_leader_epochs_end_with_the_log"),
    Mutant("leader-epoch-beyond-the-log", "a leader epoch reaches beyond the end of the log")
    .changes("shorten_leader_epochs", replace("min(A, B)", "A"))
    .caught_by("test_leader_epochs_end_with_the_log"),
    Mutant("undo-keeps-the-life-it-began", "an undone ingest leaves the epoch that it began")
    .changes("drop_epochs_of", swap_operator("!=", "==", "ingest_id"))
    .caught_by("test_undone_call_takes_only_its_own_epoch_back"),
    Mutant("life-shown-where-there-is-one", "readers of a log with one epoch get fields that it did not have")
    .changes("describe_offset", swap_operator("<=", "<", "len"))
    .caught_by("test_epoch_of_an_offset_is_shown_once_there_are_two"),
    Mutant("topic-id-in-another-alphabet", "the same topic has another id for the client than for its log directory")
    .changes("format_topic_id", replace("A.replace('/', '_')", "A"))
    .caught_by("test_topic_id_is_written_as_kafka_writes_it"),
)

_READING = (
    Mutant("base-not-added", "records of a later epoch land at the offsets that they have at the brokers")
    .changes("make_batch", replace("offsets + wanted.base", "offsets"))
    .caught_by(_STAMPS),
    Mutant("missing-timestamp-is-1970", "a record without a timestamp gets that of 1970-01-01")
    .changes("make_batch", replace("A | B", "A"))
    .caught_by(_STAMPS),
    Mutant("timestamp-types-shifted", "the producer's time counts as the broker's")
    .changes("make_batch", replace("times[:, 0] - 1", "times[:, 0]"))
    .caught_by(_STAMPS),
    Mutant("record-behind-the-range-read", "records beyond the end of a range come in twice")
    .changes("RangeReader._take", swap_operator("<", "<=", "_get_offset"))
    .caught_by("test_record_at_the_end_of_a_range_ends_it_and_is_not_of_it"),
    Mutant("record-behind-the-range-unnoticed", "a record beyond the end of a range does not end it")
    .changes("RangeReader._take", swap_operator(">=", ">", "_get_offset"))
    .caught_by("test_record_at_the_end_of_a_range_ends_it_and_is_not_of_it"),
)

_TRANSLATION = (
    Mutant("committed-offset-of-the-last-record-lost", "a group that waits for the last record is sent to the end")
    .changes("OffsetTranslator.add", swap_operator("<=", "<", "source"))
    .caught_by(_FIRST_ABOVE),
    Mutant("committed-offset-behind-its-record", "a group goes on behind the record that it would have read next")
    .changes("OffsetTranslator.add", replace("np.searchsorted(A, B)", "np.searchsorted(A, B, side='right') - 1"))
    .caught_by(_FIRST_ABOVE),
    Mutant("committed-offset-beyond-the-end-at-the-start", "a group that has read all reads all again")
    .changes("OffsetTranslator.translate", replace("self._ends.get(A, B)", "B"))
    .caught_by(_FIRST_ABOVE),
    Mutant("end-of-the-target-is-its-last-record", "a group that has read all reads the last record again")
    .changes("OffsetTranslator.add", replace("int(A) + 1", "int(A)"))
    .caught_by(_FIRST_ABOVE),
    Mutant("gap-in-the-target-not-written", "the translation passes over offsets of transaction markers")
    .changes("TranslationFile.add", replace("A | B", "A"))
    .caught_by(_RUNS),
    Mutant("gap-in-the-log-not-written", "the translation passes over offsets that compaction removed")
    .changes("TranslationFile.add", replace("A | B", "B"))
    .caught_by(_RUNS),
    Mutant("run-over-two-partitions", "the runs of two partitions are joined")
    .changes("TranslationFile.add_runs", replace("last[0] == rows[0, 0] and A", "A"))
    .caught_by(_RUNS),
    Mutant("run-written-twice", "a run that may still grow is written, and written again")
    .changes("TranslationFile._flush", replace("A[:-1] if keep_last else A", "A"))
    .caught_by(_RUNS),
    Mutant(
        "draft-of-a-translation-left", "a restore that ended too early leaves a file beside the one that is asked for"
    )
    .changes("TranslationFile.__exit__", drop_statement("unlink"))
    .caught_by("test_a_file_that_was_not_finished_is_not_there"),
    Mutant("partition-beyond-the-last-taken", "offsets of a partition that the topic does not have are taken")
    .changes("read_group_file", swap_operator(">=", ">", "partition"))
    .caught_by(_LINES),
    Mutant("two-offsets-of-one-group", "of two committed offsets of a group the first is taken")
    .changes("read_group_file", swap_operator("!=", "==", "setdefault"))
    .caught_by(_LINES),
    Mutant("offset-beyond-all", "an offset that no broker can have is taken")
    .changes("_parse_row", drop_operand("_MAXIMUM_OFFSET"))
    .caught_by(_LINES),
    Mutant("offsets-of-other-topics-taken", "a group's offset in another topic becomes one in this")
    .changes("read_group_file", never("wanted"))
    .caught_by("test_an_export_of_groups_is_read_and_lines_of_other_topics_are_counted"),
)

_RESTORING = (
    Mutant("record-of-that-time-restored", "a restore up to a time has the records of that very millisecond")
    .changes("SourceLog._find_offset_by_time", replace("pc.greater_equal(A, B)", "pc.greater(A, B)"))
    .caught_by(_BOUND),
    Mutant("segment-of-that-time-passed-over", "a segment whose newest record is of that time is restored whole")
    .changes("SourceLog._find_offset_by_time", swap_operator("<", "<=", "max_timestamp_ms"))
    .caught_by(_BOUND),
    Mutant("partition-that-is-not-named-empty", "a restore up to offsets of some partitions leaves the others out")
    .changes("SourceLog.find_ranges", replace("A.get(number, end)", "A.get(number, 0)"))
    .caught_by(_BOUND),
    Mutant("bound-beyond-the-log", "a restore waits for records that the log does not have")
    .changes("SourceLog.find_ranges", replace("min(end, bound.offset)", "bound.offset"))
    .caught_by(_BOUND),
    Mutant("record-at-the-bound-restored", "a restore has the record at the offset before which it is to end")
    .changes("SourceLog.read", swap_operator("<", "<=", "wanted"))
    .caught_by(_RANGE),
    Mutant("segment-of-one-record-passed-over", "a range that ends behind a segment's first record misses it")
    .changes(
        "SourceLog._list_segments",
        replace("segment.first_offset < wanted.end", "segment.first_offset < wanted.end - 1"),
    )
    .caught_by(_RANGE),
    Mutant("segment-that-ends-at-the-start-passed-over", "a range that begins at a segment's last record misses it")
    .changes("SourceLog._list_segments", swap_operator(">=", ">", "last_offset"))
    .caught_by(_RANGE),
    Mutant("timestamp-0-counts-as-restored", "a time that clients cannot write is not counted as left out")
    .changes("PartitionFigures.add", replace("pc.less_equal(A, B)", "pc.less(A, B)"))
    .caught_by(_COUNTED),
)

KAFKA_PARITY: tuple[Mutant, ...] = (*_EPOCHS, *_READING, *_TRANSLATION, *_RESTORING)
