"""Mutants of backups: what is copied, what is compared, and where a restore may write."""

from __future__ import annotations

from tests.mutants.changes import always, assign, drop_element, drop_statement, never, replace, return_value
from tests.mutants.mutant import Mutant

_DAMAGE = "test_damage_of_each_kind_of_file_is_found_and_nothing_is_restored_from_it"

BACKUPS = (
    Mutant("backup-restored-unread", "a restore takes a file of the backup as it is")
    .changes("_Restore._restore_at", drop_element("file.digest"))
    .caught_by(_DAMAGE),
    Mutant("backup-verified-by-size", "verify compares sizes alone")
    .changes("_TopicCheck._find_difference", return_value("None", "compute_file_digest"))
    .caught_by(_DAMAGE),
    Mutant("backup-list-believed", "a list of files is taken as it is")
    .changes("BackupPlace.read_lines", never("compute_data_digest"))
    .caught_by(_DAMAGE),
    Mutant("backup-of-swept-topic-given-up", "a file that a sweep took counts as lost")
    .changes("_Creation._look_again", always("newer"))
    .caught_by("test_topic_that_is_swept_while_it_is_copied_is_copied_as_it_is_by_then"),
    Mutant("backup-without-lease", "a topic that is swept again and again is never held")
    .changes("_Creation._copy_topic", never("attempt"))
    .caught_by("test_topic_that_is_swept_again_and_again_is_held_until_it_is_copied"),
    Mutant("backup-asks-log-once", "a log goes with a quarantine that is looked up later")
    .changes("_ask_in_turn", always("ask"))
    .caught_by("test_catalog_that_answers_table_by_table_never_gives_a_log_with_a_later_quarantine"),
    Mutant("backup-of-cut-file", "a segment that was cut short is backed up as if it were whole")
    .changes("_require_content", replace("A != expected", "False"))
    .caught_by("test_file_of_another_size_than_its_entry_is_not_backed_up"),
    Mutant("backup-never-looks", "what an earlier backup had counts as there")
    .changes("TopicCopy._find_known", replace("A.get(B) == C.size_bytes", "True"))
    .caught_by("test_second_backup_copies_only_what_is_new_and_the_first_can_still_be_restored"),
    Mutant("backup-mixes-installations", "the backups of two installations go into one folder")
    .changes("BackupPlace.claim", never("is_same"))
    .caught_by("test_folder_that_holds_something_else_is_left_alone"),
    Mutant("backup-of-nothing", "where a lake was lost an empty backup becomes the newest")
    .changes("_Creation.run", never("earlier"))
    .caught_by("test_where_everything_is_lost_no_empty_backup_becomes_the_newest"),
    Mutant("restore-adopted-half-way", "a folder is adopted that a restore has not filled yet")
    .changes("adoption._look_at_folder", drop_statement("require_no_restore"))
    .caught_by("test_no_topic_is_made_or_adopted_while_a_restore_has_not_ended"),
    Mutant("restore-blocked-by-new-topic", "a topic is created in the way of a restore that goes on")
    .changes("TopicLogs.create", drop_statement("require_no_restore"))
    .caught_by("test_no_topic_is_made_or_adopted_while_a_restore_has_not_ended"),
    Mutant("restore-over-what-is-there", "a backup is restored over another installation")
    .changes("_Restore._require_empty", never("found"))
    .caught_by("test_place_with_anything_in_it_is_refused_and_named"),
    Mutant("restore-to-another-warehouse", "tables that name one warehouse are registered for another")
    .changes("_Restore._require_same_warehouse", never("theirs"))
    .caught_by("test_another_warehouse_is_refused"),
    Mutant("restore-keeps-fence", "the first commit after a restore raises the fence by one only")
    .changes("_Restore._make_first_change", assign("0", "created_at_ms"))
    .caught_by("test_fence_and_ingest_number_rise_above_those_of_the_future_that_was_given_up"),
    Mutant("restore-brings-leases", "leases come back with a backup")
    .changes("portable_rows.LEFT_OUT", drop_element("'winnow_lease'"))
    .caught_by("test_leases_are_not_restored"),
    Mutant("erased-backup-alone", "the only backup is deleted, before there is a newer one")
    .changes("erased_backups._require_newer", never("newest"))
    .caught_by("test_without_a_newer_backup_nothing_is_deleted"),
    Mutant("erased-backup-last-copy", "a backup goes although it has the last copy of another topic")
    .changes("erased_backups._require_newer", never("missing"))
    .caught_by("test_last_copy_of_another_topic_is_given_up_only_when_asked_for"),
    Mutant("erased-backup-shared-files", "files go that a newer backup names")
    .changes("erased_backups._delete", replace("A - _list_files(place, remaining)", "A"))
    .caught_by("test_backup_of_before_an_erasure_goes_with_every_byte_of_the_key_and_newer_ones_stay_whole"),
    Mutant("erased-backup-overtaken", "a call that stood still deletes what a later backup needs")
    .changes("erased_backups._delete_all", never("issuperset"))
    .caught_by(
        "test_call_that_stood_still_while_another_completed_it_deletes_nothing_that_a_later_backup_needs[its check]"
    ),
    Mutant("erased-backup-lacking", "a backup that lacks a file since it was made is not told of")
    .changes("erased_backups._require_whole", never("lost"))
    .caught_by(
        "test_call_that_stood_still_while_another_completed_it_deletes_nothing_that_a_later_backup_needs[a file]"
    ),
    Mutant("erased-backup-unseen", "a backup is made of files that are being deleted")
    .changes("_Creation._require_none_going", never("going"))
    .caught_by("test_backup_that_is_made_while_others_are_deleted_is_given_up"),
    Mutant(
        "erased-backup-begun", "a backup made between an erasure's commit and its last deletion counts as free of it"
    )
    .changes("erased_backups._read_completed", replace("A is not None", "True"))
    .caught_by("test_backup_between_the_commit_of_an_erasure_and_its_last_deletion_goes_too"),
)
