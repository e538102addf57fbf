"""Breakages of how foreign files are recognised, mapped and listed: a wrong position is a record lost or moved."""

from __future__ import annotations

from tests.mutants.changes import drop_operand, drop_statement, replace, return_value
from tests.mutants.mutant import Mutant

RECOGNITION: tuple[Mutant, ...] = (
    Mutant("recognised-against-its-name", "a record whose offset is not that of its name is taken as Aiven's")
    .changes("recognise_aiven", replace("first == name.first_offset", "first is not None"))
    .caught_by("test_a_record_that_tells_another_offset_than_its_name_is_not_aiven_s"),
    Mutant("recognised-random-id", "Flink's part-<id>-0-1 is proposed as topic, partition and offset of Aiven's sink")
    .changes("has_usual_name", drop_operand("_RANDOM_ID"))
    .caught_by("test_a_time_or_a_random_id_in_a_name_is_never_proposed_as_aiven_s"),
    Mutant("recognised-in-spite-of-positions", "columns that tell another position are left out in silence")
    .changes("tells_position", return_value("False"))
    .caught_by("test_other_programs_names_tell_no_offsets"),
    Mutant("mapped-missing-is-null", "a member that a row lacks is a null, for the value a tombstone")
    .changes("JsonRows._list", replace("row.get(A)", "row.get(A, msgspec.Raw(b'null'))"))
    .caught_by("test_a_null_is_a_tombstone_and_a_missing_member_is_an_error"),
    Mutant("mapped-missing-offset", "a row without an offset is taken")
    .changes("rows.make_integers", replace("column.null_count", "False"))
    .caught_by("test_what_is_no_record_is_refused"),
    Mutant("mapped-unit-guessed", "the unit of numbers of timestamps is not asked for")
    .changes("make_timestamps", drop_statement("say it behind the column"))
    .caught_by("test_what_is_no_record_is_refused"),
    Mutant("sink-unfinished-batches", "files of a batch that Spark did not finish are read")
    .changes("_list_folder", replace("A not in sink.committed", "False"))
    .caught_by("test_files_of_batches_that_spark_did_not_finish_are_left_out"),
    Mutant("sink-older-compaction", "batches before a compacted one count again, with what was deleted since")
    .changes("_read_log", replace("number < start", "False"))
    .caught_by("test_files_of_batches_that_spark_did_not_finish_are_left_out"),
    Mutant("event-hubs-out-of-order", "a file whose sequence numbers go back is read as events of one partition")
    .changes("event_hubs._check_order", replace("number <= before", "False"))
    .caught_by("test_sequence_numbers_that_do_not_increase_are_refused"),
    Mutant("partition-against-the-name", "a partition that a person says is taken over that of a name")
    .changes("_give_partition", drop_statement("and --partition says"))
    .caught_by("test_a_partition_that_contradicts_the_path_is_refused"),
    Mutant("partition-unasked", "an object of which nothing tells the partition goes on without one")
    .changes("_give_partition", drop_statement("say it with --partition N"))
    .caught_by("test_a_path_that_is_not_the_usual_one_tells_no_partition_and_a_person_has_to"),
    Mutant("tiered-cut-off", "a segment of tiered storage that is cut off is read as far as it goes")
    .changes("_Surveyor._survey_segment", replace("place is SegmentPlace.BROKER", "True"))
    .caught_by("test_a_tiered_segment_that_is_cut_off_is_refused_though_it_is_the_last"),
    Mutant("tiered-hole", "a missing segment, in which a transaction may have been aborted, is passed over")
    .changes("_Surveyor._survey_segment", drop_statement("copy what is missing"))
    .caught_by("test_a_tiered_segment_that_is_missing_is_refused"),
    Mutant("tiered-offset-moved", "a batch whose offset was damaged gives its records other offsets")
    .changes("_Surveyor._survey_segment", replace("wanted not in (None, batch.header.base_offset)", "False"))
    .caught_by("test_an_offset_that_does_not_follow_is_refused_in_tiered_storage"),
    Mutant("tiered-emptied", "a segment without records is passed over")
    .changes("_Surveyor._survey_segment", replace("wanted == segment.base_offset", "False"))
    .caught_by("test_a_tiered_segment_without_records_is_refused"),
    Mutant("tiered-size", "a segment of another size than its manifest says is read")
    .changes("tiered._check_size", drop_statement("copy the object and its manifest again"))
    .caught_by("test_what_a_manifest_says_is_held_against_the_object"),
    Mutant("tiered-other-partition", "a manifest of another partition or topic than the path tells is taken")
    .changes("_check_manifest", replace("not is_same", "False"))
    .caught_by("test_a_manifest_that_contradicts_the_path_is_refused"),
    Mutant("segments-of-two-partitions", "of two segments with one offset the last one counts")
    .changes("files._add_file", drop_statement("another segment begins"))
    .caught_by("test_segments_of_two_partitions_are_not_taken_as_one"),
    Mutant("segment-alone-left-out", "segments outside of folders are passed over beside those in folders")
    .changes("arrange_kafka_log", replace("collect_segments(alone.values())", "False"))
    .caught_by("test_a_segment_alone_beside_folders_is_not_passed_over_in_silence"),
    Mutant("records-without-a-topic-passed-over", "objects whose records name no topic are in no topic's part")
    .changes("split_by_topic", drop_operand("unnamed"))
    .caught_by("test_records_without_a_topic_are_in_every_part_and_so_refused_in_each"),
    Mutant("console-tab-in-value", "a line of the console consumer with more fields than the first one is read")
    .changes("console._Reader._split", replace("len(fields) != self._fields", "False"))
    .caught_by("test_what_cannot_be_told_apart_is_refused"),
    Mutant("console-line-in-value", "a line that looks like a record inside of a value is one")
    .changes("console._Reader.read", replace("offset <= self._ends.get(partition, -1)", "False"))
    .caught_by("test_what_cannot_be_told_apart_is_refused"),
    Mutant("console-null", "the text null of the console consumer is taken as it is, for tombstones too")
    .changes("console._Reader._split", replace("value == NULL", "False"))
    .caught_by("test_what_cannot_be_told_apart_is_refused"),
    Mutant("console-unasked", "what the console consumer printed is taken without a person's word")
    .changes("_Inspector._is_recognised", replace("archive.layout.recognise is not None", "True"))
    .caught_by("test_a_person_has_to_say_that_nothing_hides_in_it"),
)
