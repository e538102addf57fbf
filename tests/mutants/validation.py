"""Mutants of validation: what validation must find, and what its pages say."""

from __future__ import annotations

from tests.mutants.changes import always, assign, drop_operand, drop_statement, never, replace
from tests.mutants.mutant import Mutant

VALIDATION = (
    Mutant("validation-misses-a-wait", "a staged result that leaves out a tombstone's wait passes")
    .changes("count_wrong_extensions", drop_statement("missing", "_is_inside"))
    .caught_by("test_validation_finds_the_same_tombstones_and_misses_none_that_is_left_out"),
    Mutant(
        "validation-lets-a-superseding-tombstone-go", "a tombstone that superseded a record counts as one that may go"
    )
    .changes("_RemovedKeys._reduce", never("_alone"))
    .caught_by("test_a_tombstone_that_went_with_the_record_that_it_superseded_fails"),
    Mutant(
        "facts-ignore-a-stale-winner",
        "the recomputation does not mind that a survivor has a greater record among the inputs",
    )
    .changes("FastKeyCensus.add_inputs", drop_operand("are_above"))
    .caught_by("test_an_older_record_that_survived_instead_fails_as_a_stale_winner_only"),
    Mutant("facts-ignore-a-lost-key", "keys without a survivor are not compared with the tombstones that expired")
    .changes("FastKeyCensus.build_result", drop_operand("count_keys"))
    .caught_by("test_the_quick_census_gives_what_grouping_gives_or_nothing"),
    Mutant("facts-believe-any-tombstone", "a key that is gone need not have ended with a tombstone of an expired range")
    .changes("_Recomputation._mark_expirable", drop_statement("is_null"))
    .caught_by("test_a_key_that_is_gone_must_have_ended_with_a_tombstone_that_may_go"),
    Mutant("facts-of-some-partitions", "facts that Spark left of some partitions stand for all")
    .changes("FactRecomputer._left", always("wanted"))
    .caught_by("test_document_that_lacks_a_partition_breaks_the_check_and_marks_nothing"),
    Mutant("facts-of-anybody", "recomputed facts that lie in the staging area are believed whoever wrote them")
    .changes("read_facts", never("hexdigest"))
    .caught_by("test_facts_of_another_staging_manifest_of_the_attempt_are_not_used"),
    Mutant("facts-believe-invented-records", "a new record that no input held is no finding")
    .changes("FastKeyCensus.build_result", replace("not self.has_matched_every_new_record", "self._seal() is None"))
    .caught_by("test_the_quick_census_gives_what_grouping_gives_or_nothing"),
    Mutant("facts-ignore-a-surviving-duplicate", "a key that survived twice is no finding")
    .changes("FastKeyCensus._seal", never("has_duplicates"))
    .caught_by("test_a_key_in_two_segments_kept_by_reference_fails_as_not_unique"),
    Mutant("facts-forget-crowded-slots", "keys whose slot another one has are not found")
    .changes("KeyTable.find", never("_others"))
    .caught_by("test_a_table_finds_each_hash_that_it_holds_and_no_other"),
    Mutant("facts-swallow-an-error", "a store that fails while records are hashed looks like the end of the records")
    .changes("offer_batches", never("problems"))
    .caught_by("test_an_error_of_the_records_ends_a_stream_of_hashes_unchanged"),
    Mutant("facts-skip-keyless-survivors", "records without key in segments kept by reference are not fingerprinted")
    .changes("_Recomputation._rank_kept", never("inside", "chosen"))
    .caught_by("test_a_keyless_record_in_a_segment_kept_by_reference_fails_alike"),
    Mutant("facts-missing-version-is-zero", "a missing version stands as high as version 0")
    .changes("RecordPositions.are_above", assign("higher", "present"))
    .caught_by("test_a_header_that_is_no_version_or_a_lower_one_does_not_excuse_a_loser"),
    Mutant(
        "facts-of-another-manifest", "facts that Spark computed are taken for another staging manifest of the attempt"
    )
    .changes("read_facts", always("manifest_digest"))
    .caught_by("test_facts_of_another_staging_manifest_of_the_attempt_are_not_used"),
    Mutant("facts-rewrites-mixed-up", "a record that one rewrite took from the inputs of another is no finding")
    .changes("_Recomputation._count_foreign_offsets", drop_operand("_strays"))
    .caught_by("test_a_record_moved_from_one_rewrite_to_another_is_foreign_to_it"),
    Mutant("judged-by-an-older-expectation", "an expectation stays as it was when its configuration changes in a run")
    .changes("spare_repeated_work", drop_operand("kwargs"))
    .caught_by("test_an_expectation_of_a_configuration_that_changed_is_another_one"),
    Mutant("judged-without-figures", "a failing check is not run again for its partitions")
    .changes("GxSession.run", always("success"))
    .caught_by("test_only_failing_partitions_are_named_and_the_figures_are_told"),
    Mutant("judged-together-passes-all", "topics that were judged together pass even if one of them has a failing row")
    .changes("validate_fact_tables", always("suspects"))
    .caught_by("test_a_wrong_figure_of_one_topic_fails_that_topic_as_alone_and_no_other"),
    Mutant("judged-together-by-shares", "topics are judged together by a suite that tolerates a share of bad rows")
    .changes("is_row_wise", drop_operand("tolerates"))
    .caught_by("test_a_suite_that_does_not_judge_row_by_row_judges_each_topic_alone[a share of rows]"),
    Mutant("docs-index-always-green", "the index of the Data Docs shows every run as passed")
    .changes("SiteIndexBuilder._add_validations_to_index_links", assign("True", "success"))
    .caught_by("test_a_later_run_leaves_earlier_pages_alone_and_the_index_lists_them_when_it_is_built"),
    Mutant(
        "own-suite-not-on-page",
        "the Data Docs page shows the structural suite alone where the topic has one of its own",
    )
    .changes("GxSession.write_page", never("findings"))
    .caught_by("test_a_verdict_that_failed_by_the_topics_own_suite_leads_to_a_page_that_says_so_first"),
    Mutant("own-suite-behind-the-structural-one", "the suite that passed stands first on the Data Docs page")
    .changes(
        "_sort_failing_first",
        replace(
            "(not _count_voiding_failures(A), bool(A.success))", "(bool(_count_voiding_failures(A)), not A.success)"
        ),
    )
    .caught_by("test_a_verdict_that_failed_by_the_topics_own_suite_leads_to_a_page_that_says_so_first"),
    Mutant("judge-imports-all", "Great Expectations loads what checks do not use")
    .changes("_NarrowFinder.find_spec", never("_UNUSED"))
    .caught_by("test_what_checks_do_not_use_of_great_expectations_libraries_is_loaded_when_something_asks_for_it"),
)
