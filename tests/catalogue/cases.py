"""All cases of Kafka's cleaner tests and how they apply to an archive.

The cases were read from Apache Kafka's own tests (trunk, October 2024) and from pull requests that were never merged;
the rules are in Winnow's words. A test carries the numbers that it covers: ``@pytest.mark.kafka("27", "28")``.
``docs/kafka-parity.md`` is made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Relevance(StrEnum):
    """How a case of a broker bears on an archive of segment files."""

    LOG = "L"
    """It speaks of the log itself."""
    ADAPTED = "A"
    """The guarantee behind it holds in Winnow's terms: file for segment, job crash for broker crash."""
    BROKER = "B"
    """It tests a mechanism that only a broker has."""


@dataclass(frozen=True, slots=True)
class Case:
    """One numbered case. ``why_not`` is said where no test is asked for, ``beyond`` where Winnow promises more."""

    number: str
    kafka: str
    rule: str
    relevance: Relevance
    why_not: str = ""
    beyond: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """Cases that belong together."""

    title: str
    cases: tuple[Case, ...]


def _log(number: str, kafka: str, rule: str, beyond: str = "") -> Case:
    return Case(number, kafka, rule, Relevance.LOG, beyond=beyond)


def _adapted(number: str, kafka: str, rule: str, beyond: str = "") -> Case:
    return Case(number, kafka, rule, Relevance.ADAPTED, beyond=beyond)


def _broker(number: str, kafka: str, rule: str, why_not: str) -> Case:
    return Case(number, kafka, rule, Relevance.BROKER, why_not=why_not)


_NO_PRODUCER_STATE = "An archive has no producers to remember: sequence numbers live in the broker alone."
_RESOLVED = "Transactions are resolved before the archive, so it holds no markers and no empty batches."

SECTIONS: tuple[Section, ...] = (
    Section(
        "Selection, range, ratio, lag",
        (
            _log(
                "1",
                "LogCleanerManagerTest.testGrabFilthiestCompactedLogReturnsLogWithDirtiestRatio",
                "The dirtiest partition is never passed over for a less dirty one.",
                "Every eligible partition is compacted in the same run, not one at a time.",
            ),
            _log(
                "2",
                "LogCleanerManagerTest.testGrabFilthiestCompactedLogIgnoresUncleanablePartitions",
                "A partition marked uncleanable is left out, and the next one is taken.",
                "The mark outlives restarts, says why, and is tried again with growing waits.",
            ),
            _log(
                "3",
                "LogCleanerManagerTest.testGrabFilthiestCompactedLogIgnoresInProgressPartitions",
                "A log that another run is working on is skipped, and the next one is taken.",
                "A lease in the metadata store holds across machines.",
            ),
            _log(
                "4",
                "LogCleanerManagerTest.testGrabFilthiestCompactedLogIgnoresBothInProgressPartitionsAndUncleanablePartitions",
                "When all dirty partitions are uncleanable, held or paused, nothing is selected.",
            ),
            _adapted(
                "5",
                "LogCleanerManagerTest.testGrabFilthiestCompactedLogThrowsException",
                "A log that cannot be assessed is named in the error, which keeps its cause.",
                "The other topics are compacted all the same.",
            ),
            _log(
                "6",
                "LogCleanerManagerTest.testDirtyOffsetResetIfLargerThanEndOffset",
                "A checkpoint above the log end makes the whole log dirty.",
            ),
            _log(
                "7",
                "LogCleanerManagerTest.testDirtyOffsetResetIfSmallerThanStartOffset",
                "A checkpoint below the log start counts as the log start.",
            ),
            _adapted(
                "8",
                "LogCleanerManagerTest.testLogStartOffsetLargerThanActiveSegmentBaseOffset",
                "A log start inside the only, active segment leaves nothing to select.",
            ),
            _adapted(
                "9",
                "LogCleanerManagerTest.testDirtyOffsetLargerThanActiveSegmentBaseOffset",
                "A checkpoint inside the only, active segment leaves nothing to select, time after time.",
            ),
            _log(
                "10",
                "LogCleanerManagerTest.testCheckpointUpdatedForInvalidOffsetNoCleaning",
                "A checkpoint below the log start is corrected although there is nothing to clean.",
                "Deciding writes nothing: every look corrects it again, so a stale one never decides.",
            ),
            _log(
                "11",
                "LogCleanerManagerTest.testCheckpointUpdatedForInvalidOffsetNotSelected",
                "A checkpoint outside the log is corrected although another partition is selected.",
            ),
            _log(
                "12",
                "LogCleanerManagerTest.testCleanableOffsetsForNone",
                "Without a minimum lag the cleanable range reaches to the end of what is stable.",
                "An archive holds replicated records only, so that is the log end.",
            ),
            _adapted(
                "13",
                "LogCleanerManagerTest.testCleanableOffsetsActiveSegment",
                "The cleanable range never reaches into the active segment.",
            ),
            _log(
                "14",
                "LogCleanerManagerTest.testCleanableOffsetsForTime",
                "The cleanable range ends at the first segment younger than the minimum lag.",
            ),
            _log(
                "15",
                "LogCleanerManagerTest.testCleanableOffsetsForShortTime",
                "When all closed data is older than the minimum lag, the range ends at the active segment.",
            ),
            _log(
                "16",
                "LogCleanerManagerTest.testCleanableOffsetsNeedsCheckpointReset",
                "A checkpoint is kept when it lies inside the log and reset when it lies below or above.",
            ),
            _log(
                "17",
                "LogCleanerManagerTest.testUndecidedTransactionalDataNotCleanable",
                "Records of an open transaction are not cleanable; once decided, each segment waits for its lag.",
                "Undecided records never enter, and the log refuses offsets below its end that it has not seen.",
            ),
            _log(
                "18",
                "LogCleanerTest.testLogToClean",
                "Clean and cleanable bytes are those of the closed segments; the active one counts nowhere.",
            ),
            _log(
                "19",
                "LogCleanerTest.testLogToCleanWithUncleanableSection",
                "Two clean, two cleanable and two uncleanable equal segments give the ratio one half.",
            ),
            _log(
                "20",
                "LogCleanerTest.testCleaningWithUncleanableSection",
                "A segment that the first uncleanable offset falls into keeps its duplicates, as do all after it.",
            ),
            _log(
                "21",
                "LogCleanerIntegrationTest.testMaxLogCompactionLag",
                "With a ratio that never fires, a record is compacted once the maximum lag has passed, not before.",
                "No append is needed: the clock closes the segments of an idle partition.",
            ),
            _log(
                "22",
                "LogCleanerLagIntegrationTest.cleanerTest",
                "Within the minimum lag nothing shrinks, after it the old block does; the state of keys is the same.",
            ),
            _log(
                "23",
                "LogConfigTest.testInvalidCompactionLagConfig",
                "A minimum lag above the maximum lag is refused.",
            ),
            _log(
                "24",
                "LogConfigTest.testFromPropsInvalid",
                "A ratio outside 0 to 1, an unknown policy and negative lags are refused.",
                "NaN as a ratio is refused too; Kafka takes it and never cleans.",
            ),
            _adapted(
                "25",
                "UnifiedLogTest.testTimeBasedLogRollDuringAppend",
                "A segment's age is that of its records, or of its append where those have no time; no empty roll.",
                "The clock alone closes a segment (KAFKA-20664).",
            ),
            _broker(
                "26",
                "UnifiedLogTest.testTimeBasedLogRollJitter",
                "A segment rolls earlier by a random part of its age limit.",
                "Jitter spreads the rolls of a broker's many logs; an archive's segments close when they are assessed.",
            ),
        ),
    ),
    Section(
        "The offset map",
        (
            _log(
                "27",
                "LogCleanerTest.testBuildOffsetMap",
                "Exactly the keys inside the range are mapped, with their last offsets; its neighbours are not.",
            ),
            _adapted(
                "28",
                "LogCleanerTest.testBuildPartialOffsetMap",
                "With less memory than keys, what is covered is exact.",
                "Memory bounds speed, never the range: the engine spills and covers everything in one run.",
            ),
            _log(
                "29",
                "LogCleanerTest.testBuildOffsetMapFakeLarge",
                "Two keys millions of offsets apart are both found, and the range ends after the far one.",
            ),
            _log(
                "30",
                "LogCleanerTest.testCleaningBeyondMissingOffsets",
                "An offset gap before the active segment is jumped over by the checkpoint, so cleaning ends.",
            ),
            _adapted(
                "31",
                "LogCleanerTest.testPartialSegmentClean",
                "With room for a single key every run still makes progress, down to one record of each key.",
                "One run is enough, whatever the memory.",
            ),
            _adapted(
                "32",
                "OffsetMapTest.testBasicValidation",
                "Any number of keys: each is found at its own last offset.",
            ),
            _adapted(
                "33",
                "OffsetMapTest.testClear",
                "No knowledge is carried over from one partition or run to the next.",
            ),
            _broker(
                "34",
                "OffsetMapTest.testGetWhenFull",
                "Looking up an unknown key in a full table ends.",
                "There is no table of fixed size that could be full.",
            ),
            _adapted(
                "35",
                "OffsetMapTest.testUpdateLatestOffset, testLatestOffset",
                "The covered end follows the last record that was read, even if that record did not survive.",
            ),
            _adapted(
                "36",
                "OffsetMapTest.testUtilization",
                "Counts are exact at every step: as many records are kept as there are keys.",
            ),
        ),
    ),
    Section(
        "Which records stay",
        (
            _log(
                "37",
                "LogCleanerTest.testCleanSegments",
                "Exactly the keys with a later record vanish; the bytes read are those of the segments.",
            ),
            _log(
                "38",
                "LogCleanerTest.testCleaningWithDeletes",
                "After one cleaning no value of a deleted key is left.",
            ),
            _log(
                "39",
                "LogCleanerTest.testCleanTombstone",
                "The times of records never decide when a tombstone goes.",
            ),
            _log(
                "40",
                "LogCleanerTest.testCleaningWithUnkeyedMessages",
                "Keyless records from before the policy was compact leave the log, counted on their own.",
                "They go to a quarantine that can be read; nothing is dropped silently.",
            ),
            _log(
                "41",
                "LogCleanerTest.testLogCleanerStats",
                "The figures of a cleaning are exact: records and bytes in, records and bytes out, the end offset.",
            ),
            _log(
                "42",
                "LogCleanerTest.testCleanSegmentsRetainingLastEmptyBatch",
                "When every record of a segment is superseded, the offsets that it took up are still known.",
                "The log end rests in the carried state, so no empty segment has to stay.",
            ),
            _adapted(
                "43",
                "pull request 22089: testCleanSegmentsNotRetainingLastEmptyBatch",
                "No empty remainder stays where the end offset is known otherwise.",
            ),
            _log(
                "44",
                "LogCleanerTest.testCleaningWithKeysConflictingWithTxnMarkerKeys",
                "A key with the bytes of a transaction marker's key is a key like any other.",
            ),
            _log(
                "45",
                "LogCleanerParameterizedIntegrationTest.cleanerTest",
                "However the input was compressed, each key keeps its last value and offset and the log gets smaller.",
            ),
            _log(
                "46",
                "LogCompactionTester (a tool)",
                "Random keys and deletes: the last record of each key is the same before and after.",
                "Random logs of every configuration are compared with an oracle, record by record and step by step.",
            ),
            _broker(
                "47",
                "LogCleanerTest.testDuplicateCheckAfterCleaning",
                "A producer's retry is still found after a cleaning.",
                _NO_PRODUCER_STATE,
            ),
            _broker(
                "48",
                "LogCleanerTest.testLogCleanerRetainsProducerLastSequence",
                "The last batch of a producer stays, empty if need be.",
                _NO_PRODUCER_STATE,
            ),
            _broker(
                "49",
                "LogCleanerTest.testLogCleanerRetainsLastSequenceEvenIfTransactionAborted",
                "The last batch of a producer stays although it was aborted.",
                _NO_PRODUCER_STATE,
            ),
            _broker(
                "50",
                "MemoryRecordsTest.testFilterToEmptyBatchRetention",
                "An emptied batch keeps its header's facts.",
                "Columnar files have no batches.",
            ),
            _broker(
                "51",
                "MemoryRecordsTest.testEmptyBatchRetention",
                "An empty batch stays and counts as no records.",
                "Columnar files have no batches.",
            ),
            _adapted(
                "52",
                "MemoryRecordsTest.testFilterToBatchDiscard",
                "Wholly superseded neighbours go, and what lies between them is unchanged.",
                "What loses nothing is kept by reference, byte for byte.",
            ),
            _adapted(
                "53",
                "MemoryRecordsTest.testFilterToAlreadyCompactedLog",
                "Compacting a compacted log keeps the original offsets with their gaps.",
            ),
            _adapted(
                "54",
                "MemoryRecordsTest.testFilterToPreservesProducerInfo and its two neighbours",
                "Every field of a surviving record is what it was.",
                "Validation compares a fingerprint of all fields on every run.",
            ),
            _log(
                "55",
                "MemoryRecordsTest.testBaseTimestampToDeleteHorizonConversion",
                "A tombstone's horizon is the cleaning time plus delete.retention.ms; no record's timestamp changes.",
                "The horizon rests in the cleaning history, so no file is rewritten to stamp it.",
            ),
            _broker(
                "56",
                "LogCleanerTest.testCleanCorruptMessageSet",
                "Wrapped messages of inconsistent versions are repaired.",
                "It concerns message formats of before Kafka 0.11.",
            ),
            _broker(
                "57",
                "LogCleanerTest.testClientHandlingOfCorruptMessageSet",
                "Clients read such messages at the right offsets.",
                "It concerns message formats of before Kafka 0.11.",
            ),
            _broker(
                "58",
                "LogCleanerTest.testSizeTrimmedForPreallocatedAndCompactedTopic",
                "A preallocated file is trimmed.",
                "Lake files are written once, at their size.",
            ),
        ),
    ),
    Section(
        "Transactions",
        (
            _log(
                "59",
                "LogCleanerTest.testBasicTransactionAwareCleaning",
                "Of interleaved transactions only the committed records compete and survive.",
                "Aborted records never enter the log, so none is ever read.",
            ),
            _log(
                "60",
                "LogCleanerTest.testCleanWithTransactionsSpanningSegments",
                "Transactions across segments, cleaned step by step, leave the committed keys alone.",
            ),
            _adapted(
                "61",
                "LogCleanerTest.testCommitMarkerRemoval",
                "A commit marker does not stay for ever and does not go too early.",
                "It never enters: its offset is a gap, and a gap neither blocks a checkpoint nor makes a log dirty.",
            ),
            _adapted(
                "62",
                "LogCleanerTest.testAbortMarkerRemoval",
                "The same for an abort marker.",
                "The aborted records and their marker are one gap.",
            ),
            _broker(
                "63",
                "LogCleanerTest.testDeletedBatchesWithNoMessagesRead",
                "Cleaning goes on where a read buffer holds discarded batches only.",
                "Segments are read in columns, not in buffers of batches.",
            ),
            _broker(
                "64",
                "LogCleanerTest.testCommitMarkerRetentionWithEmptyBatch",
                "An empty batch of a producer keeps its commit marker.",
                _RESOLVED,
            ),
            _broker(
                "65",
                "LogCleanerTest.testAbortMarkerRetentionWithEmptyBatch",
                "An empty batch of a producer keeps its abort marker.",
                _RESOLVED,
            ),
            _broker(
                "66",
                "LogCleanerTest.testCleanEmptyControlBatch",
                "An emptied marker survives further cleanings.",
                _RESOLVED,
            ),
            _log(
                "67",
                "LogCleanerTest.testCommittedTransactionSpanningSegments",
                "A committed record whose marker lies in another segment stays.",
            ),
            _adapted(
                "68",
                "LogCleanerTest.testAbortedTransactionSpanningSegments",
                "An aborted record whose marker lies in another segment is not there.",
                "A column that is not one of Kafka's is named when a file is ingested, a field of JSON lines refused.",
            ),
            _broker(
                "69",
                "LogCleanerTest.testEmptyBatchRemovalWithSequenceReuse",
                "Old empty batches go although every batch begins at sequence 0.",
                _NO_PRODUCER_STATE,
            ),
            _adapted(
                "70",
                "LogCleanerTest.testMultiPassSegmentCleaningWithAbortedTransactions",
                "Over several cleanings every transaction is there whole or not at all, at each step.",
            ),
        ),
    ),
    Section(
        "Grouping, replacing, recovery",
        (
            _adapted(
                "71",
                "LogCleanerTest.testSegmentGrouping",
                "Neighbours are merged up to segment.bytes, in order, one by one where the limit is small.",
                "Sizes are those of what survives, so files are full after one run.",
            ),
            _broker(
                "72",
                "LogCleanerTest.testSegmentGroupingWithSparseOffsets",
                "A group spans no more than 2^31 - 1 offsets.",
                "Offsets in a file are 64-bit numbers, so no span is too wide.",
            ),
            _broker(
                "73",
                "LogCleanerTest.testSegmentGroupingWithSparseOffsetsAndEmptySegments",
                "Empty results of sparse logs are merged later.",
                "A segment of which nothing survives leaves no file.",
            ),
            _broker(
                "74",
                "LogCleanerTest.testSegmentGroupingFollowingLoadOfZeroIndex",
                "An empty index misreports the last offset.",
                "There are no index files; manifests hold the exact bounds.",
            ),
            _broker(
                "75",
                "LogCleanerTest.testSegmentWithOffsetOverflow",
                "A segment with too wide a span is split first.",
                "Offsets in a file are 64-bit numbers, so no span is too wide.",
            ),
            _adapted(
                "76",
                "LogCleanerTest.testRecoveryAfterCrash",
                "A crash at any point leaves the old log or the new one, and the next start goes on from it.",
                "One commit swaps all files of all partitions; real processes are killed at every step.",
            ),
            _adapted(
                "77",
                "LogCleanerTest.testCleanSegmentsWithConcurrentSegmentDeletion",
                "Inputs that others removed meanwhile are not removed twice, and nothing of them comes back.",
            ),
            _adapted(
                "78",
                "LogCleanerTest.testCleanSegmentsWithAbort",
                "A cleaning that is stopped in the middle changes nothing.",
            ),
            _adapted(
                "79",
                "LogCleanerTest.testLargeMessage",
                "A record much larger than the buffers is compacted like any other.",
            ),
            _adapted(
                "80",
                "LogCleanerTest.testMessageLargerThanMaxMessageSize",
                "A limit that was lowered after the record was written does not stop its compaction.",
            ),
            _adapted(
                "81",
                "LogCleanerTest.testMessageLargerThanMaxMessageSizeWithCorruptHeader",
                "A segment with damaged bytes is found, named, and not compacted.",
                "Pages that are copied must have their checksums, and what was judged is read back before its commit.",
            ),
            _adapted(
                "82",
                "LogCleanerTest.testCorruptMessageSizeLargerThanBytesAvailable",
                "A truncated segment is found, named, and not compacted.",
            ),
            _adapted(
                "83",
                "LogLoaderTest.testOpenDeletesObsoleteFiles",
                "Files that an earlier run replaced or left behind go.",
                "Only recorded files go, after a grace in which readers of the old snapshot can finish.",
            ),
            _adapted(
                "84",
                "LogLoaderTest.testOverCompactedLogRecovery",
                "Offsets that jump by more than 2^31 are compacted, and the log opens again.",
            ),
            _broker(
                "85",
                "LogLoaderTest.testRecoveryAfterCrashDuringSplitPhase1 to 5",
                "A crash while a segment is split leaves the same records.",
                "Segments are never split.",
            ),
            _broker(
                "86",
                "UnifiedLogTest.testCompactionDeletesProducerStateSnapshots",
                "Side files of merged segments go.",
                _NO_PRODUCER_STATE,
            ),
        ),
    ),
    Section(
        "Checkpoints and states",
        (
            _log(
                "87",
                "LogCleanerManagerTest.testUpdateCheckpointsShouldAddOffsetToPartition",
                "A checkpoint that was written is read back.",
            ),
            _log(
                "88",
                "LogCleanerManagerTest.testUpdateCheckpointsShouldRemovePartitionData",
                "The checkpoint of a partition that is gone is gone.",
            ),
            _broker(
                "89",
                "LogCleanerManagerTest.testHandleLogDirFailureShouldRemoveDirAndData",
                "When a disk fails, its checkpoints are not seen and those of other disks are.",
                "An archive has no disks of its own; each table carries its state with its data.",
            ),
            _log(
                "90",
                "LogCleanerManagerTest.testMaybeTruncateCheckpointShouldTruncateData",
                "A checkpoint is lowered to where the log was cut off, and never raised.",
            ),
            _adapted(
                "91",
                "LogCleanerManagerTest.testAlterCheckpointDirShouldRemoveDataInSrcDirAndAddInNewDir",
                "The checkpoint goes where the data goes, and no stale copy stays.",
                "It rests with the table; the metadata store is a projection that can be rebuilt.",
            ),
            _adapted(
                "92",
                "LogCleanerManagerTest.testDoneCleaning",
                "A run can be finished only from a state in which it is at work; finishing it writes its end offset.",
            ),
            _adapted(
                "93",
                "LogCleanerManagerTest.testDoneDeleting",
                "The same where a run only removes what is past its retention.",
            ),
            _adapted(
                "94",
                "LogCleanerManagerTest.testConcurrentLogCleanupAndLogTruncation",
                "Nested pauses need as many resumes, and afterwards cleaning goes on.",
                "A pause survives restarts and names who asked for it.",
            ),
            _broker(
                "95",
                "LogCleanerManagerTest.testConcurrentLogCleanupAndTopicDeletion",
                "Pausing, aborting and resuming a log that is being deleted ends in no state.",
                "A topic's state goes with its table, so no entry can be left in a cleaner's memory.",
            ),
            _log(
                "96",
                "OffsetCheckpointFileWithFailureHandlerTest.shouldPersistAndOverwriteAndReloadFile",
                "A checkpoint file is written, read, overwritten and read.",
            ),
            _log(
                "97",
                "OffsetCheckpointFileWithFailureHandlerTest.shouldHandleMultipleLines",
                "Many partitions go through a checkpoint file unchanged.",
            ),
            _log(
                "98",
                "OffsetCheckpointFileWithFailureHandlerTest.shouldReturnEmptyMapForEmptyFile",
                "An empty checkpoint file holds no entries and is no error.",
            ),
            _log(
                "99",
                "OffsetCheckpointFileWithFailureHandlerTest.shouldThrowIfVersionIsNotRecognised",
                "A checkpoint file of an unknown version is refused.",
            ),
            _log(
                "100",
                "pull request 7175: OffsetAndTimesCheckpointFileTest",
                "Offset and cleaning time are read back together; nothing written is nothing known.",
            ),
            _log(
                "100b",
                "pull request 7175: testCheckpointDirUpgrade",
                "An entry of the old file becomes an entry of the new form with the same offset.",
            ),
        ),
    ),
    Section(
        "Retention",
        (
            _adapted(
                "101",
                "LogCleanerManagerTest.testLogsWithSegmentsToDeleteShouldNotConsiderCleanupPolicyDeleteLogs",
                "A topic that only deletes is never compacted.",
            ),
            _log(
                "102",
                "LogCleanerManagerTest.testLogsWithSegmentsToDeleteShouldConsiderCleanupPolicyCompactDeleteLogs",
                "A topic with both policies is checked for both.",
            ),
            _log(
                "103",
                "LogCleanerManagerTest.testLogsWithSegmentsToDeleteShouldConsiderCleanupPolicyCompactLogs",
                "A topic that only compacts still loses segments below its log start.",
            ),
            _log(
                "104",
                "LogCleanerManagerTest.testLogsWithSegmentsToDeleteShouldNotConsiderUncleanablePartitions",
                "An uncleanable partition is not compacted while it waits.",
                "Its retention goes on; Kafka stops both, and disks fill.",
            ),
            _adapted(
                "105",
                "LogCleanerManagerTest.testLogsUnderCleanupIneligibleForCompaction",
                "Retention and compaction of a partition never run at the same time, also when the policy changes.",
                "One plan does both, under one lease and in one commit.",
            ),
            _log(
                "106",
                "LogCleanerParameterizedIntegrationTest.testCleansCombinedCompactAndDeleteTopic",
                "Compacted, then past retention: all old segments go, the log start meets the log end, and it goes on.",
            ),
            _log(
                "107",
                "UnifiedLogTest.shouldNotDeleteSegmentsWhenPolicyDoesNotIncludeDelete",
                "Without delete in the policy nothing goes by its age.",
            ),
            _log(
                "108",
                "UnifiedLogTest.shouldDeleteSegmentsReadyToBeDeletedWhenCleanupPolicyIsCompactAndDelete",
                "With both policies, segments past their retention go and the others stay.",
            ),
            _log(
                "109",
                "UnifiedLogTest.shouldDeleteStartOffsetBreachedSegmentsWhenPolicyDoesNotIncludeDelete",
                "A log start that moves past a segment takes exactly that segment out, whatever the policy.",
            ),
            _log(
                "110",
                "UnifiedLogTest.testRetentionIdempotency",
                "Retention that runs again removes nothing more.",
            ),
            _log(
                "111",
                "UnifiedLogTest.shouldDeleteSizeBasedSegments, shouldNotDeleteSizeBasedSegmentsWhenUnderRetentionSize",
                "By size, the oldest segments go while what is too much is at least one segment.",
            ),
            _broker(
                "112",
                "LogConfigTest.testEnableRemoteLogStorageOnCompactedTopic",
                "Remote storage with compaction is refused.",
                "An archive has no remote tier of its own; a copied topic configuration is checked all the same.",
            ),
            _adapted(
                "113",
                "UnifiedLogTest.testCompactedTopicConstraints",
                "A compacted topic refuses keyless records, says which and how many, and takes the keyed ones.",
                "They can go to a quarantine instead.",
            ),
        ),
    ),
    Section(
        "Errors, metrics, reconfiguration",
        (
            _log(
                "114",
                "LogCleanerIntegrationTest.testMarksPartitionsAsOfflineAndPopulatesUncleanableMetrics",
                "Damaged partitions are counted with their cleanable bytes, others go on, and the count falls again.",
            ),
            _adapted(
                "115",
                "LogCleanerIntegrationTest.testIsThreadFailed",
                "A worker that died is noticed.",
                "The next run takes its work over.",
            ),
            _adapted(
                "116",
                "LogCleanerTest.testMaxCleanTimeSecs",
                "Without any cleaning the metrics read zero and fail nowhere.",
            ),
            _adapted(
                "117",
                "LogCleanerTest.testRemoveMetricsOnClose",
                "Metrics of a log end when it is deleted.",
            ),
            _adapted(
                "118",
                "LogCleanerTest.testMetricsActiveAfterReconfiguration",
                "All metrics are still there after the configuration changed.",
            ),
            _broker(
                "119",
                "LogCleanerTest.testReconfigureLogCleanerIoMaxBytesPerSecond",
                "The throttle follows the configuration.",
                "A job reads its settings when it starts; no thread lives long enough to be reconfigured.",
            ),
            _broker(
                "120",
                "LogCleanerParameterizedIntegrationTest.cleanerConfigUpdateTest",
                "A cleaner with too small a buffer works after it was reconfigured.",
                "No memory setting is too small to compact, and no thread lives long enough to be reconfigured.",
            ),
            _broker(
                "121",
                "LogCleanerParameterizedIntegrationTest.testCleanerWithMessageFormatV0 and its neighbour",
                "Old message formats are cleaned.",
                "Records come decoded; no message format reaches the archive.",
            ),
        ),
    ),
    Section(
        "Strategies (KIP-280, never merged)",
        (
            _log(
                "122",
                "pull request 8103: testTimestampCompaction",
                "By timestamp, the highest wins wherever it lies; its place moves only when a higher one comes.",
                "The loser goes in the same run; in the pull request it stays beside the winner.",
            ),
            _log(
                "123",
                "pull request 8103: testHeaderCompaction",
                "By header, the highest version wins wherever it lies.",
                "As above.",
            ),
            _log(
                "124",
                "pull request 8103: testCleanTombstoneWithTimestampCompaction",
                "A tombstone with a higher timestamp outlives a later value.",
                "The later value goes.",
            ),
            _log(
                "125",
                "pull request 8103: testCleanTombstoneWithHeaderCompaction",
                "A tombstone with a higher version wins.",
            ),
            _log(
                "126",
                "pull request 8103: testTimestampLogCompaction",
                "An older timestamp does not replace a newer one, and the covered end passes over the loser.",
            ),
            _log(
                "127",
                "pull request 8103: testSequenceLogCompaction",
                "Of shuffled versions the highest is kept.",
                "Negative versions are versions: they beat a missing one and lose to zero.",
            ),
            _adapted(
                "128",
                "pull request 8103: testSameOffsetMapInstanceForDifferentCompactionStrategy",
                "One strategy leaves nothing behind that another could see.",
                "A changed strategy makes the whole log dirty.",
            ),
            _log(
                "129",
                "pull request 8103: testInvalidCompactionHeaderKeyConfig",
                "Strategy header without the header's name is refused.",
            ),
            _log(
                "130",
                "pull request 8103: testFromPropsInvalid",
                "An empty or unknown strategy is refused.",
            ),
            _log(
                "131",
                "pull request 8103: LogCleanerTest with each strategy",
                "Without versions, or with rising ones, every strategy gives what offset gives.",
            ),
        ),
    ),
    Section(
        "Beyond Kafka's tests",
        (
            _log(
                "132",
                "none",
                "Of a tail and a head record of one key exactly one survives, for every combination of versions.",
                "KIP-280 as it was coded keeps two of them in two of five combinations.",
            ),
            _log(
                "133",
                "none",
                "A header's version is its last 8-byte value of the exact name; anything else counts as missing.",
                "The documented encoding works; as it was coded, a plain long reads as zero.",
            ),
            _log(
                "134",
                "none",
                "A tombstone that the cleaning did not cover is not stamped before its older values are gone.",
                "Kafka stamps it early, and a reader can see the old value and miss the delete.",
            ),
            _log(
                "135",
                "none",
                "delete.retention.ms of 0 needs two runs, and a change between them moves no horizon.",
            ),
            _log(
                "136",
                "none",
                "On a quiet partition tombstones go when their horizon has passed.",
                "An expired horizon is a reason of its own; Kafka waits for new data.",
            ),
            _log(
                "137",
                "none",
                "On a quiet partition data older than the maximum lag is compacted.",
                "Kafka waits for an append.",
            ),
            _log(
                "138",
                "none",
                "A checkpoint file is taken over once, also after a crash, and never over a newer entry.",
            ),
            _log(
                "139",
                "none",
                "A partition past its maximum lag comes before dirtier ones, and both are compacted.",
                "Kafka gives no priority to what is overdue.",
            ),
            _log(
                "140",
                "none",
                "Timestamps of the future hold the minimum lag and trigger neither maximum lag nor retention.",
            ),
            _log(
                "141",
                "none",
                "After a switch from delete to compact, what happens to keyless records is said.",
                "Kafka deletes them without a word.",
            ),
            _log(
                "142",
                "none",
                "A late record of a lower version does not bring a deleted key back.",
                "The tombstone stays until everything appended before its horizon has met it, and waits anew after "
                "each run in which it superseded a record.",
            ),
            _log(
                "143",
                "none",
                "With both policies the only value of a key can expire, unless the topic protects the latest.",
                "winnow.retention.protect.latest.",
            ),
            _log(
                "144",
                "none",
                "Two keys with the same hash are two keys.",
                "Keys are compared byte for byte.",
            ),
        ),
    ),
    Section(
        "Guarantees",
        (
            _log(
                "G1",
                "Latest value kept",
                "For each key whose latest record is a value, the compacted log holds that record.",
                "Under every strategy the greatest by its order; retention can take it unless it is protected.",
            ),
            _log(
                "G2", "Only removal", "What is read is a part of what was written: no record is made, changed or moved."
            ),
            _log("G3", "Offsets stay", "A surviving record keeps its offset."),
            _log("G4", "Positions stay", "Reading from a removed offset gives the next surviving record."),
            _log(
                "G5",
                "Log end stays",
                "The log end offset is what it was, also after a compaction that removed the last record.",
                "Kafka lost it until KAFKA-17076.",
            ),
            _log(
                "G6",
                "Unique tail",
                "Below the end of a cleaning each key has one record.",
                "Under timestamp and header too; keys are compared byte for byte.",
            ),
            _log("G7", "Head untouched", "Nothing at or above the first uncleanable offset is removed on key grounds."),
            _log(
                "G8",
                "Active segment untouched",
                "The active segment is the same bytes before and after.",
                "It is logical, and closed by the clock as well as by appends.",
            ),
            _log("G9", "Minimum lag", "Nothing younger than the minimum lag is removed on key grounds."),
            _log(
                "G10",
                "Maximum lag",
                "A log with an older dirty record than the maximum lag is due, whatever its ratio.",
                "Also where nothing is appended, and before all others.",
            ),
            _log(
                "G11",
                "Conflicting lags",
                "A minimum lag above the maximum lag is refused.",
                "Also when one of them is a default of the installation.",
            ),
            _log(
                "G12", "Ratio not exceeded", "Without a maximum lag a ratio at or below the threshold compacts nothing."
            ),
            _log(
                "G13",
                "Tombstones seen",
                "A reader who sees an old value and reads on within delete.retention.ms sees its tombstone.",
                "The horizon starts when readers can first miss the old value, never at a backfill's as-of.",
            ),
            _log(
                "G14",
                "Deleted at once",
                "A tombstone removes all earlier records of its key in the first cleaning that covers both.",
            ),
            _log(
                "G15",
                "Tombstones go",
                "A tombstone leaves the log after its retention.",
                "Also on a quiet partition, where Kafka never looks again.",
            ),
            _log("G16", "Only null deletes", "An empty value and the text null are values."),
            _log("G17", "Final state", "A reader from the start ends with the final state of all keys."),
            _log("G18", "Partitions apart", "Keys of two partitions never meet."),
            _log(
                "G19",
                "Keys wanted",
                "A compacted log holds no record without a key.",
                "Those from before are moved to a quarantine, not deleted.",
            ),
            _log(
                "G20",
                "Reads not blocked",
                "A reader sees the log before or after a publish, never between.",
                "One commit for all partitions of a topic; Kafka's unit is a group of segments.",
            ),
            _log(
                "G21",
                "Crashes",
                "Whatever dies, the log is the old or the new one, and the next run ends where it should have.",
            ),
            _log("G22", "Idempotence", "Compacting a log without new data changes nothing but expired tombstones."),
            _log("G23", "Throttle", "The average rate is at or below the throttle."),
            _log(
                "G24",
                "Greatest survives",
                "Under timestamp and header the survivor is the greatest by version over tail and head.",
                "Never released in Kafka.",
            ),
            _log("G25", "Equal versions", "Of equal versions the higher offset survives."),
            _log("G26", "One version", "Of two records of which one has a version, that one survives."),
            _log("G27", "Offset by default", "Without versions every strategy gives what offset gives."),
            _log(
                "G28",
                "Import",
                "After an import each first dirty offset is the file's, and no newer one is overwritten.",
            ),
            _log(
                "G29",
                "Cleaning time",
                "The recorded cleaning time is not before the commit that made the result visible.",
            ),
            _log(
                "G30",
                "Delay",
                "The compaction delay is the time past the deadline, and never negative.",
                "Of now, over all partitions, without saturation.",
            ),
        ),
    ),
)

CASES: dict[str, Case] = {case.number: case for section in SECTIONS for case in section.cases}
