"""Mutants of ingest: which records are taken in."""

from __future__ import annotations

from tests.mutants.changes import assign, drop_keyword, drop_statement, replace
from tests.mutants.mutant import Mutant

INGEST = (
    Mutant("topics-of-json-lines-ignored", "records of JSON lines are taken whatever topic they name")
    .changes("_Reader.batch", assign("None", "select_lines"))
    .caught_by("test_two_topics_in_one_folder_are_refused_with_topics_and_files_named"),
    Mutant("topics-of-parquet-ignored", "rows of Parquet are taken whatever topic they name")
    .changes("read_parquet", assign("None", "select_rows"))
    .caught_by("test_two_topics_in_one_folder_are_refused_with_topics_and_files_named"),
    Mutant(
        "source-topic-ignored-in-one-pass", "the one pass over the input does not hear which source topic was chosen"
    )
    .changes("StreamingAppender.read", drop_keyword("records_of"))
    .caught_by("test_of_a_chosen_source_topic_all_records_are_taken_and_others_are_left_out_and_counted"),
    Mutant("source-topic-ignored-by-the-spool", "the spool does not hear which source topic was chosen")
    .changes("Spool.read", drop_keyword("records_of"))
    .caught_by("test_a_chosen_source_topic_is_heeded_on_the_way_over_the_spool"),
    Mutant(
        "records-without-a-topic-left-out",
        "with a source topic, records that name no topic are dropped instead of refused",
    )
    .changes("TopicFilter.select_lines", drop_statement("_no_topic"))
    .caught_by("test_a_record_that_names_no_topic_is_refused_where_a_source_topic_is_chosen"),
    Mutant("overlap-without-checksums", "an ingest compares with pages that changed")
    .changes(
        "compare_with_log", replace("check_before_duckdb(A, B, C, after=D)", "check_before_duckdb(A, (), C, after=D)")
    )
    .caught_by("test_reader_and_overlap_refuse_a_value_that_changed"),
    Mutant("spark-ingest-into-a-log-that-moved", "an ingest on Spark commits though the log end has moved")
    .changes("SparkIngest.has_moved", replace("A != B", "False"))
    .caught_by("test_another_ingest_meanwhile_makes_it_plan_again"),
    Mutant("spark-result-unchecked", "what a Spark application reports is not compared with its plan")
    .changes("SparkIngest._submit", drop_statement("check_result"))
    .caught_by("test_a_result_that_is_not_of_its_plan_is_refused"),
    Mutant("reaching-object-not-noticed", "an object that reaches into the next range is not read there")
    .changes("SparkIngest._judge", replace("find_uncovered(A, B)", "False"))
    .caught_by("test_repeats_of_a_sink_that_started_again_are_skipped_across_ranges"),
    Mutant("spark-encoding-undecided", "what all objects together tell about text and base64 is not asked")
    .changes("SparkIngest._judge", drop_statement("finish"))
    .caught_by("test_text_that_each_object_reads_both_ways_needs_a_decision"),
)
