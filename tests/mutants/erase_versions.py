"""Mutants of erasing keys from buckets that keep versions."""

from __future__ import annotations

from tests.mutants.changes import always, drop_statement, never, replace, return_value
from tests.mutants.mutant import Mutant

ERASE_VERSIONS = (
    Mutant("erase-leaves-versions", "whoever may read versions reads the erased key")
    .changes("remove_erased_versions", always("has_open_erasures"))
    .caught_by("test_no_version_of_a_file_with_the_key_stays[Enabled]"),
    Mutant("erase-leaves-versions-of-the-latest-table", "rows of the latest table stay in the bucket's versions")
    .changes("_list_locations", drop_statement("_locate_latest"))
    .caught_by("test_no_version_of_a_file_with_the_key_stays[Enabled]"),
    Mutant("erase-takes-suspended-for-never", "versions from before versioning was suspended keep the key")
    .changes(
        "VersionedFolder.keeps_versions", replace("bool(answer.get('Status'))", "answer.get('Status') == 'Enabled'")
    )
    .caught_by("test_no_version_of_a_file_with_the_key_stays[Suspended]"),
    Mutant("erase-asks-no-store", "an erasure begins that cannot end, or ends and leaves the key in the bucket")
    .changes("_Erasure.__init__", drop_statement("require_final_deletes"))
    .caught_by("test_refusals_come_before_anything_is_done"),
    Mutant("erase-tries-no-deletion", "a missing right to delete versions is found after the commit")
    .changes("VersionedFolder.require_removable", drop_statement("delete_object"))
    .caught_by("test_refusals_come_before_anything_is_done"),
    Mutant("erase-knows-no-default-retention", "an erasure begins in a bucket that keeps every object")
    .changes("VersionedFolder._require_no_lock", never("retention"))
    .caught_by("test_bucket_that_locks_every_object_refuses_with_exit_code_6"),
    Mutant("erase-knows-no-hold", "an erasure begins though a version of a file is held")
    .changes("VersionedFolder._require_no_lock", never("ObjectLockLegalHoldStatus"))
    .caught_by("test_single_version_that_is_held_refuses"),
    Mutant("erase-trusts-any-store", "at Google's and Azure's stores deleted objects keep the key and nobody said so")
    .changes("open_versions", always("trust_bucket_deletes"))
    .caught_by("test_google_and_azure_are_refused_until_a_person_declares_it_and_disks_are_asked_nothing"),
    Mutant("erase-removes-markers-first", "killed between the two, deleted objects are there again")
    .changes("VersionedFolder.remove_old_versions", replace("(False, True)", "(True, False)"))
    .caught_by("test_sweep_goes_on_where_the_removal_of_versions_was_killed[1]"),
    Mutant("erasure-through-with-versions", "the erasure counts as deleted while the bucket has versions")
    .changes("commit_deletions", never("kept_versions"))
    .caught_by("test_erasure_is_not_through_while_versions_cannot_be_removed"),
    Mutant("erasure-through-with-a-sweep-of-before", "a sweep that looked for no versions ends a later erasure")
    .changes("commit_deletions", replace("swept.state.erasures", "log.head().state.erasures"))
    .caught_by("test_erasure_that_comes_amid_a_sweep_is_left_to_the_next_one"),
    Mutant("erase-takes-versions-of-live-files", "a live file that somebody deleted by mistake cannot be brought back")
    .changes("_list_kept_of_log", return_value("set().__contains__"))
    .caught_by("test_only_what_winnow_deleted_loses_its_versions"),
    Mutant("erase-takes-versions-of-other-programs", "files that are not Winnow's lose their versions")
    .changes("_remove_versions", replace("is_written_file(path)", "True"))
    .caught_by("test_only_what_winnow_deleted_loses_its_versions"),
    Mutant("erase-takes-what-is-being-written", "a file that no commit names yet is deleted")
    .changes("VersionedFolder._group_old", replace("each.is_marker or not each.is_latest", "True"))
    .caught_by("test_only_what_winnow_deleted_loses_its_versions"),
    Mutant("erase-leaves-uploads", "parts of files with the key stay in the bucket")
    .changes("_abort_uploads", drop_statement("abort_uploads"))
    .caught_by("test_broken_off_uploads_of_earlier_calls_are_aborted_and_those_of_calls_at_work_go_on"),
    Mutant("erase-aborts-any-upload", "an ingest at work loses the file that it is writing")
    .changes("_abort_uploads", replace("upload.path.partition('/')[0] not in at_work", "True"))
    .caught_by("test_broken_off_uploads_of_earlier_calls_are_aborted_and_those_of_calls_at_work_go_on"),
    Mutant("certificate-lists-no-versions", "the certificate says gone, and the bucket has a version")
    .changes("AbsenceProofs.ask", replace("versions == 0", "True"))
    .caught_by("test_certificate_tells_of_a_version_that_is_there_again"),
    Mutant("certificate-closed-with-versions", "the certificate is closed, and the bucket has a version of a file")
    .changes("make_certificate", never("open_because", "left"))
    .caught_by("test_certificate_tells_of_a_version_that_is_there_again"),
)
