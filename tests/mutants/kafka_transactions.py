"""Breakages of the rules about open transactions."""

from __future__ import annotations

from tests.mutants.changes import drop_keyword, replace
from tests.mutants.mutant import Mutant

HELD = "test_held_records_are_said_with_the_age_of_their_transaction_until_it_ends[committed]"
FOLLOWED = "test_a_transaction_that_goes_on_writing_is_counted_anew_though_the_log_is_not_opened"

KAFKA_TRANSACTIONS: tuple[Mutant, ...] = (
    Mutant("open-transactions-unseen", "the end of a partition is asked for as readers of committed records see it")
    .changes("Cluster._list_offsets", replace("A if uncommitted else B", "B"))
    .caught_by(HELD),
    Mutant("high-watermark-unchecked", "a high watermark that is no offset is taken for one")
    .changes("Cluster.describe_topics", replace("problem or A", "problem"))
    .caught_by("test_offset_that_is_none_is_run_again_and_begins_no_epoch[False-high watermark]"),
    Mutant("age-read-as-committed", "the first record of an open transaction is read like committed ones")
    .changes("_read_times", replace("'read_uncommitted'", "'read_committed'"))
    .caught_by(HELD),
    Mutant("age-of-another-record", "the timestamp of another record than the first is taken")
    .changes("date_open_transactions", replace("part.stable_offset", "part.end_offset - 1"))
    .caught_by(HELD),
    Mutant("complete-behind-an-open-transaction", "a log counts as complete although a transaction holds back records")
    .changes("_find_complete_until_ms", replace("[part.open_since_ms] if A else []", "[]"))
    .caught_by(HELD),
    Mutant("unchanged-topics-are-free", "a topic without new stable records is taken for one without transactions")
    .changes("follow_topics", replace("date_open_transactions(A, B)", "{}"))
    .caught_by(FOLLOWED),
    Mutant("held-records-are-not-missing", "records behind an open transaction have no deadline")
    .changes("IngestLag.is_missing", replace("A or self.records_uncommitted > 0", "A"))
    .caught_by(FOLLOWED),
    Mutant("transactions-that-ended-stay", "what an open transaction held is not forgotten once all is stable")
    .changes("_confirm", drop_keyword("records_uncommitted"))
    .caught_by("test_what_open_transactions_hold_is_the_sum_and_the_oldest_of_them"),
    Mutant("unknown-age-is-none", "an open transaction whose age is not known counts as none")
    .changes("_find_oldest_transaction", replace("oldest == 0 and None in ages", "False"))
    .caught_by("test_open_transactions_of_all_topics_are_their_records_and_the_oldest_age"),
)
