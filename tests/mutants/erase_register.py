"""Mutants of the register of erasures, and of what it does to older states that are brought back."""

from __future__ import annotations

from tests.mutants.changes import always, drop_statement, never, replace, return_value, set_keyword
from tests.mutants.mutant import Mutant

ERASE_REGISTER = (
    Mutant("erasure-unregistered", "an erasure succeeds of which no older state can learn")
    .changes("complete_store", drop_statement("require_registered"))
    .caught_by("test_erasure_that_could_not_be_registered_is_no_success_and_its_repetition_registers_it"),
    Mutant("lift-unregistered", "an older state that is brought back erases what a person had let stay")
    .changes("lift_erasure", drop_statement("require_registered"))
    .caught_by("test_every_erasure_and_lift_is_in_the_register_as_it_was_committed"),
    Mutant("erase-without-a-register", "keys are erased, and then it turns out that the register cannot be written")
    .changes("_Erasure.__init__", drop_statement("begin_life"))
    .caught_by("test_register_that_cannot_be_written_refuses_before_anything_is_done[False]"),
    Mutant("certificate-though-unregistered", "a certificate is closed of an erasure that an older state undoes")
    .changes("make_certificate", never("exists", "deleted_at_ms"))
    .caught_by("test_certificate_is_open_until_its_document_is_in_the_register"),
    Mutant("closed-though-unregistered", "an erasure counts as closed that is not registered")
    .changes("note_erasures", replace("each.erasure_id not in registered", "False"))
    .caught_by("test_erasure_that_could_not_be_registered_is_no_success_and_its_repetition_registers_it"),
    Mutant("restored-with-erased", "a restored backup brings back what was erased since")
    .changes("_Restore._look_for_erasures", always("later", "find", "known"))
    .caught_by("test_restored_backup_is_never_readable_with_what_was_erased_since"),
    Mutant("restored-with-old-snapshots", "snapshots of a restored log show what was erased since, until a sweep")
    .changes(
        "_Restore._land_without_erased", replace("ChosenMetadata(A, B, C, D, E, F)", "ChosenMetadata(A, B, C, D, E)")
    )
    .caught_by("test_restored_backup_is_never_readable_with_what_was_erased_since"),
    Mutant("restored-with-old-rows", "the table of the latest state shows what was erased since")
    .changes("_Restore._look_for_erasures", replace("A.role is not TableRole.LATEST", "True"))
    .caught_by("test_restored_table_of_the_latest_state_is_written_anew"),
    Mutant("restore-forgets-what-it-wrote", "files of a restore that was killed stay for ever, and nothing names them")
    .changes("_Restore.run", replace("not (A and B.has_store)", "True"))
    .caught_by("test_restore_that_was_killed_while_it_landed_goes_on"),
    Mutant("restore-copies-again", "a restore that goes on brings files back that were deleted as erased")
    .changes("_Restore.run", always("LOG"))
    .caught_by("test_restore_that_was_killed_at_its_end_copies_nothing_again_that_was_deleted"),
    Mutant("recovered-with-erased", "recovered metadata bring back what was erased since")
    .changes("recover_without_erased", set_keyword("older", "UNCHANGED"))
    .caught_by("test_recovered_metadata_are_never_readable_with_what_was_erased_since[False]"),
    Mutant("recovered-readable-first", "between two commits readers see what was erased since")
    .changes("adopt_without_erased", set_keyword("older", "UNCHANGED"))
    .caught_by("test_adopted_table_is_never_readable_with_what_was_erased_since"),
    Mutant("accepted-with-erased", "an older head that is accepted brings back what was erased since")
    .changes("accept_older_head", drop_statement("older", "look"))
    .caught_by("test_accepted_older_head_is_without_what_was_erased_since"),
    Mutant("undeleted-with-erased", "a topic that is restored brings back what was erased since")
    .changes("restore_topic", drop_statement("older", "look"))
    .caught_by("test_undeleted_topic_is_without_what_was_erased_since"),
    Mutant("missing-register-is-none", "where the register is not found, erasures are forgotten in silence")
    .changes("ErasureRegister.read_later", never("known", "listed"))
    .caught_by("test_restore_without_the_register_is_refused_if_it_knows_erasures"),
    Mutant("register-takes-any-document", "a document of another topic counts")
    .changes("_parse", never("document"))
    .caught_by("test_document_in_the_register_that_is_another_one_is_refused"),
    Mutant("newer-record-taken", "a record that came after the erasure is erased without a question")
    .changes("LaterErasures._require_old", never("offset", "end"))
    .caught_by("test_record_that_may_be_newer_than_the_erasure_refuses_until_a_person_decides"),
    Mutant("decision-overruled", "what a person decided about a key since is overruled by an older erasure")
    .changes("_leave_out_decided", replace("A <= B.at_ms", "True"))
    .caught_by("test_record_that_may_be_newer_stays_once_its_erasure_is_lifted"),
    Mutant("lift-ignored", "keys whose erasure was lifted are erased again")
    .changes(
        "LaterErasures.look",
        replace("select_counting_erasures(A)", "select_counting_erasures([x for x in A if not x.lifts])"),
    )
    .caught_by("test_lifted_erasure_takes_nothing_again"),
    Mutant("applied-and-forgotten", "old copies come back after an erasure was applied again")
    .changes("LaterErasures._extend", replace("(*later, A)", "(A,)"))
    .caught_by("test_stores_that_were_put_back_by_hand_lose_what_was_erased_on_request"),
    Mutant("applied-to-the-live-alone", "retired files of an older state keep the key")
    .changes("LaterErasures._find_files", replace("FoundFiles(*A)", "FoundFiles(A[0], [])"))
    .caught_by("test_retired_files_of_the_older_state_go_if_they_hold_the_key"),
    Mutant("original-certificate-too-early", "an erasure counts as through while copies of its files wait")
    .changes("TopicState.list_erased_files", replace("A | {erasure_id}", "{erasure_id}"))
    .caught_by("test_original_certificate_is_open_until_the_files_of_the_application_are_gone"),
    Mutant("applied-under-a-pin", "a tag keeps the key on disk and nobody is told")
    .changes("LaterErasures._find_files", drop_statement("require_no_pins"))
    .caught_by("test_tag_refuses_the_erasure_by_hand_and_is_gone_after_a_recovery"),
    Mutant("left-out-snapshots-leave-files", "metadata files of snapshots that were left out stay for ever")
    .changes("ChosenMetadata._leave_out", drop_statement("record_expiring"))
    .caught_by("test_nothing_is_left_of_snapshots_that_a_landing_leaves_out"),
    Mutant("purged-unregistered", "a copy of a topic that was purged comes back with the key")
    .changes("purge_deleted_topic", drop_statement("register", "add"))
    .caught_by("test_deleted_topic_is_removed_for_good_and_its_copies_come_back_without_the_key"),
    Mutant("doctor-misses-erasures", "nobody is told that an older state was put back by hand")
    .changes("check_erasure_register", return_value("0, 0", "registered"))
    .caught_by("test_doctor_names_topics_that_lack_an_erasure_and_the_command_that_applies_it"),
)
