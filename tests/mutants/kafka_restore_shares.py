"""Breakages of a restore in shares: who is fenced, who may write, what is kept and what is said."""

from __future__ import annotations

from tests.mutants.changes import always, drop_keyword, drop_statement, never, replace
from tests.mutants.mutant import Mutant

DIES = "test_a_share_that_dies_ends_the_call_and_the_next_one_goes_on_in_as_many_shares[written:kill]"
NUMBER = "test_the_number_of_shares_stays_as_the_restore_began"
SAME = "test_each_record_comes_back_once_with_the_same_report_as_from_one_process"
TRANSLATION = "test_the_translation_of_all_shares_leads_to_each_record_partition_after_partition"

KAFKA_RESTORE_SHARES: tuple[Mutant, ...] = (
    Mutant("shares-not-fenced", "a call reads positions while shares of an earlier one may still commit")
    .changes("RestoreOpening.resume", drop_statement("_stop_shares"))
    .caught_by("test_a_share_that_goes_on_once_positions_were_read_commits_nothing"),
    Mutant("shares-of-deleted-target-not-fenced", "a restore that begins anew fences no shares of a former one")
    .changes("RestoreOpening._stop_shares", drop_statement("needed", "wished"))
    .caught_by("test_a_share_of_a_deleted_target_writes_nothing_into_a_new_one_that_is_restored_in_one_process"),
    Mutant("shares-of-abandoned-not-fenced", "a restore is given up while its shares may still commit")
    .changes("abandon_restore", drop_statement("fence_shares"))
    .caught_by("test_a_share_of_a_restore_that_was_given_up_commits_nothing"),
    Mutant("shares-start-unasked", "shares write although a newer call has taken over before they had their names")
    .changes("ShareProcesses.write", drop_statement("require_held"))
    .caught_by("test_a_call_that_is_taken_over_before_its_shares_write_lets_none_of_them_write"),
    Mutant("shares-start-unanswered", "shares write although the brokers did not tell whether a newer call took over")
    .changes("ShareProcesses.write", drop_keyword("certain"))
    .caught_by("test_shares_do_not_write_where_the_brokers_do_not_tell_who_holds_the_restore"),
    Mutant("shares-leave-transactions", "a call that failed leaves its shares' transactions open")
    .changes("ShareProcesses.__exit__", drop_statement("fence_shares"))
    .caught_by(DIES),
    Mutant("shares-need-no-right", "a restore begins in shares whose names its user may not use")
    .changes("fence_shares", never("needed"))
    .caught_by("test_a_restore_in_shares_is_refused_at_its_beginning_where_the_user_may_not_use_their_names"),
    Mutant("shares-need-rights-of-all", "a restore in one process needs the right to use names of shares")
    .changes("fence_shares", always("needed"))
    .caught_by("test_a_restore_in_one_process_needs_no_right_to_names_of_shares"),
    Mutant("shares-number-free", "a restore goes on in another number of shares")
    .changes("RestoreOpening._require_same", replace("wish.shares is not None and A", "False"))
    .caught_by(NUMBER),
    Mutant("shares-number-forgotten", "how many shares write is not committed with the positions")
    .changes("RestoreState._format", always("shares"))
    .caught_by(NUMBER),
    Mutant("shares-positions-forgotten", "a share that is done does not commit its positions again")
    .changes("_write_and_read_back", drop_statement("commit"))
    .caught_by("test_positions_of_a_share_that_has_written_everything_are_kept_while_others_write"),
    Mutant("shares-unlimited", "each share has the whole limit of bytes per second")
    .changes("ShareProcesses.__init__", replace("bytes_per_second / self._count", "bytes_per_second"))
    .caught_by("test_the_limit_of_bytes_per_second_is_of_all_shares_together"),
    Mutant("shares-translated-as-they-come", "the translation has one share after another")
    .changes("merge_translations", replace("int(rows[0, 0])", "0"))
    .caught_by(TRANSLATION),
    Mutant("shares-missing-segment-unexplained", "a segment that is missing is said to be swept")
    .changes("SourceLog.explain_missing", never("is_live"))
    .caught_by("test_a_segment_that_is_missing_is_told_by_its_share"),
)
