"""Mutants of durability: what must be on disk before it is named."""

from __future__ import annotations

from tests.mutants.changes import drop_statement, replace, replace_text
from tests.mutants.mutant import Mutant

DURABILITY = (
    Mutant("sync-no-ingested-segments", "an ingest commits segments that are not on disk")
    .changes("IngestCommit.commit_prepared", drop_statement("sync"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-files-for-people", "the files of a folder that a command wrote are not on disk")
    .changes("write_read_file", drop_statement("sync"))
    .caught_by("test_a_folder_of_files_for_people_is_whole"),
    Mutant("sync-no-names-for-people", "the names of the files of a folder are not on disk")
    .changes("folder.write_folder", drop_statement("sync_folder"))
    .caught_by("test_a_folder_of_files_for_people_is_whole"),
    Mutant("sync-no-folder-for-people", "the folder that took the place of the empty one is not on disk")
    .changes("_replace_empty_folder", drop_statement("sync_folder"))
    .caught_by("test_a_folder_of_files_for_people_is_whole"),
    Mutant("sync-no-compacted-segments", "a task's new segments are not on disk when they are staged")
    .changes("_list_written_files", drop_statement("rewrites", "outputs"))
    .caught_by("test_after_a_compaction_every_survivor_is_there_and_the_next_one_goes_on"),
    Mutant("sync-no-moved-records", "keyless records that leave the log are not on disk in the quarantine")
    .changes("_list_written_files", drop_statement("staged", "keyless_files"))
    .caught_by("test_after_a_compaction_every_survivor_is_there_and_the_next_one_goes_on"),
    Mutant("sync-no-quarantined-records", "keyless records of an ingest are not on disk in the quarantine")
    .changes("Quarantine.append", drop_statement("sync"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-file-io", "the catalog writes manifests and metadata by PyIceberg's own FileIO")
    .changes("_choose_file_io", drop_statement("setdefault"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-metadata", "manifests, their lists and metadata files are not on disk when they are named")
    .changes("_SyncedStream.close", drop_statement("fsync"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-metadata-folder", "the folder of manifests and metadata files is not synced")
    .changes("_SyncedStream.close", drop_statement("sync_folder"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-state", "state, receipts and ledgers are not on disk when a snapshot names them")
    .changes("_write_draft", drop_statement("fsync"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-state-folder", "the folder of state, receipts and ledgers is not synced after the rename")
    .changes("write_bytes", drop_statement("sync_folder"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-data-folder", "the folders of data files are not synced")
    .changes("sync_files", drop_statement("sync_folder"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-new-ancestors", "new folders are not synced into the folders above them")
    .changes("sync_folder", drop_statement("_sync_entries", "above"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant(
        "sync-no-journal-removal",
        "a power cut brings SQLite's journal back, and that takes the catalog's last commit back",
    )
    .changes("_sync_commits.prepare", replace_text("EXTRA", "FULL"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-catalog-folder", "the folder of a new catalog's database is not synced")
    .changes("TopicLogs.catalog", drop_statement("sync_folder"))
    .caught_by("test_after_an_ingest_every_record_is_there_and_can_be_compacted"),
    Mutant("sync-no-store-folder", "the folder of a new metadata store is not synced")
    .changes("migrate", drop_statement("sync_folder"))
    .caught_by("test_after_a_compaction_every_survivor_is_there_and_the_next_one_goes_on"),
    Mutant("removed-ingest-files-come-back", "a refused ingest forgets its files before their deletion is on disk")
    .changes("remove_files", drop_statement("sync_deletions"))
    .caught_by(
        "test_story_that_once_broke_a_promise_holds_it[a_refused_ingest_forgets_files_whose_deletion_is_not_synced]"
    ),
    Mutant("deletion-dated-before-it-landed", "the grace of a deleted topic counts from before its deletion landed")
    .changes("deletion.note_deletion_seen", replace("A.now_ms()", "state.deleted_at_ms"))
    .caught_by("test_grace_counts_from_when_the_deletion_was_seen_though_its_commit_was_paused_for_a_day"),
    Mutant("removed-topic-comes-back", "the entry of a topic goes before the deletion of its files is on disk")
    .changes("deletion._remove_table", drop_statement("sync_deletions"))
    .caught_by("test_a_removed_topic_does_not_come_back_without_its_entry"),
)
