"""Mutants of engine: which record of a key survives, and what Spark is told."""

from __future__ import annotations

from tests.mutants.changes import drop_statement, replace, replace_text
from tests.mutants.mutant import Mutant

ENGINE = (
    Mutant("tail-not-compared", "winners are picked among dirty records only")
    .changes(
        "pick_winners", replace_text('"offset" >= {plan.log_start_offset}', '"offset" >= {plan.first_dirty_offset}')
    )
    .caught_by("test_exactly_one_of_a_tail_and_a_head_record_survives"),
    Mutant("first-header-wins", "the first occurrence of the version header counts, not the last")
    .changes("build_version_header_sql", replace_text("[-1]", "[1]"))
    .caught_by("test_a_version_is_the_last_eight_byte_value_of_the_exact_name"),
    Mutant("short-header-counts", "a header value of another length than 8 bytes is a version")
    .changes("build_version_value_sql", replace_text("= {_LONG_BYTES}", "> 0"))
    .caught_by("test_a_version_is_the_last_eight_byte_value_of_the_exact_name"),
    Mutant("missing-timestamp-wins", "a record without timestamp is the newest of its key")
    .changes("build_greatest_offset_sql", replace_text(", -1)", ", 9223372036854775807)"))
    .caught_by("test_exactly_one_of_a_tail_and_a_head_record_survives"),
    Mutant("lower-offset-wins-ties", "of equal versions the lower offset survives")
    .changes(
        "build_greatest_offset_sql",
        replace_text(
            '(max({version} * {_OFFSET_FACTOR} + "offset") & {_OFFSET_FACTOR - 1})',
            '(max({version} * {_OFFSET_FACTOR} + {_OFFSET_FACTOR - 1} - "offset")'
            " & {_OFFSET_FACTOR - 1} ^ {_OFFSET_FACTOR - 1})",
        ),
    )
    .caught_by("test_exactly_one_of_a_tail_and_a_head_record_survives"),
    Mutant("empty-value-is-a-tombstone", "an empty value deletes")
    .changes(
        "_create_expired_table", replace_text("value IS NULL AND", "(value IS NULL OR octet_length(value) = 0) AND")
    )
    .caught_by("test_only_a_null_value_expires"),
    Mutant("extended-tombstone-dropped", "the wait of a tombstone is written down, but the tombstone goes")
    .changes("retain_extended_tombstones", drop_statement("DELETE FROM expired"))
    .caught_by("test_survivors_equal_the_oracle_under_every_strategy"),
    Mutant("secret-on-the-command-line", "Spark's properties are arguments of spark-submit")
    .changes(
        "open_properties_file",
        replace("[*options_of_spark, A, B]", '[part for pair in conf.items() for part in ("--conf", "=".join(pair))]'),
    )
    .caught_by("test_keys_reach_driver_and_executors_and_no_command_line"),
)
