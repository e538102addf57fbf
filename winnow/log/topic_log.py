"""Reads one topic's log and commits changes to it, with retries.

Every commit — ingest, publish, state change — loads the head, recomputes the carried state from it, commits against
exactly that head, and begins again when another commit came first. PyIceberg's own retry stays off.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table

from winnow.clock import read_wall_clock_ms
from winnow.config.broker import TopicDefault
from winnow.config.topic import TopicConfig
from winnow.errors import (
    CommitConflictError,
    CommitUnknownError,
    ConfigurationError,
    DamagedMetadataError,
    ForeignTableError,
    MissingFileError,
    OutdatedHeadError,
    PlanVoidError,
    UnknownTopicError,
    UsageError,
)
from winnow.log import head_checks, reference_chains
from winnow.log import recorded_configuration as recorded
from winnow.log import state as carried
from winnow.log.catalog_access import find_landed, translate_catalog_errors, wait_before_retry
from winnow.log.deleted_topics import make_deleted_error
from winnow.log.document_copies import delete_documents
from winnow.log.document_places import locate_copies
from winnow.log.head import Change, Committed, Head
from winnow.log.head_age import HeadGuard, OlderHead
from winnow.log.log_update import LogUpdate
from winnow.log.manifests import list_live_manifests, list_live_segments, reduce_garbage_collection
from winnow.log.recorded_configuration import PARTITIONS_PROPERTY, read_overrides
from winnow.log.staged_transaction import StagedTransaction
from winnow.log.table import declare_sort_order
from winnow.log.warehouse_survey import WarehouseSurvey, survey_table
from winnow.values.counts import format_count
from winnow.values.model import Segment
from winnow.values.results import Receipt
from winnow.values.topic_state import ReceiptReference, TopicState

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.typedef import Identifier

_BY_OFFSET = operator.attrgetter("first_offset")

MAXIMUM_COMMIT_TRIES = 12
"""Maximum tries of the commit loop before it raises CommitConflictError."""

MAXIMUM_CLOCK_DIFFERENCE_MS = 86_400_000
"""Maximum difference between machines' clocks: the search for a receipt starts this much before its earliest time."""


class TopicLog:
    """The log of one topic. Cheap to make; every method loads the head anew.

    It commits to the topic whose head it loaded first: another one of the name, created since, is not what its user
    looked at.

    ``copies``: the folder in which the copies of all topics' documents lie. ``before_commit`` may refuse a commit.
    """

    def __init__(
        self,
        catalog: Catalog,
        identifier: Identifier,
        topic: str,
        copies: str,
        defaults: Mapping[str, TopicDefault] | None = None,
        guard: HeadGuard | None = None,
        before_commit: Callable[[], None] | None = None,
    ) -> None:
        self._guard = guard
        self._catalog = catalog
        self._copies = copies
        self._identifier = identifier
        self.topic = topic
        self._defaults = defaults or {}
        self._before_commit = before_commit or (lambda: None)
        self._manifests_listed: tuple[int | None, int] = (None, 0)
        self._table_uuid: str | None = None

    # ------------------------------------------------------------------ reading

    def load_table(self) -> Table:
        """Load the table without its state.

        Raises:
            UnknownTopicError: there is no such topic.
            DamagedMetadataError: the table's metadata cannot be read.
            ServiceError: the catalog cannot be reached.
        """
        with translate_catalog_errors(f"Topic {self.topic} could not be opened"):
            try:
                table = self._catalog.load_table(self._identifier)
            except NoSuchTableError as problem:
                raise UnknownTopicError(
                    f"There is no topic {self.topic}.{self._propose_name()}",
                    next=f"Create it with: winnow topics create {self.topic} --partitions N",
                ) from problem
            except FileNotFoundError:
                if self._guard is not None:
                    self._guard.require_not_older(self.topic)
                raise
            except (ValueError, TypeError, LookupError, AttributeError, ValidationError) as problem:
                raise DamagedMetadataError(
                    f"The catalog has metadata of topic {self.topic} that cannot be read ({type(problem).__name__}).",
                    left="Nothing was changed.",
                    next=(
                        "Restore the table's metadata file from a backup or the object store's versions, then run it "
                        "again."
                    ),
                ) from problem
        head_checks.require_same_name(self.topic, table)
        return table

    def _propose_name(self) -> str:
        """Say which topic has a name like this one's; nothing if none has, or the catalog does not list them."""
        try:
            names = [each[-1] for each in self._catalog.list_tables(self._identifier[:-1])]
        except Exception:  # the error that is being told matters more
            return ""
        near = difflib.get_close_matches(self.topic, names, 1, cutoff=0.75)
        return f" Did you mean {near[0]}?" if near and near[0] != self.topic else ""

    def head(self, *, even_deleted: bool = False) -> Head:
        """Load the newest snapshot and its state, to read; of a deleted topic only with ``even_deleted``.

        If the catalog is older than what was recorded after the last commit, a warning says so.

        Raises:
            DeletedTopicError: the topic is deleted.
            UnknownTopicError: there is no such topic.
            ForeignTableError: the newest snapshot is not Winnow's.
            DamagedMetadataError: the table's metadata, or the state they name, differ from the commit.
            ServiceError: the catalog cannot be reached.
        """
        table = self.load_table()
        if self._guard is None:
            return self._require_not_deleted(self._load_head(table), even_deleted)
        self._guard.warn_of_older(self.topic, table, self.load_table)
        return self._require_not_deleted(self._guard.load_to_read(self.topic, table, self._load_head), even_deleted)

    def newest_head(self, *, even_deleted: bool = False) -> Head:
        """Load the newest snapshot and its state, to write over them.

        Raises:
            OlderHeadError: the catalog is older than what was recorded after the last commit.
            Also the errors of :meth:`head`.
        """
        found = (
            self._load_head(self.load_table())
            if self._guard is None
            else self._guard.load_newest(self.topic, self.load_table, self._load_head)
        )
        return self._require_not_deleted(found, even_deleted)

    def find_older(self, head: Head) -> OlderHead | None:
        """Find how ``head`` is older than recorded; None: it is not, or nothing can be asked."""
        return None if self._guard is None else self._guard.find_older(self.topic, head.table)

    def survey(self, head: Head, known: Collection[str] = ()) -> WarehouseSurvey:
        """Survey the folder of the table; ``known``: further metadata files that landed."""
        locations = [head.table.metadata_location, *known]
        return survey_table(head.table.io, head.location, table_uuid=head.table_uuid, known=locations)

    def record(self, head: Head) -> None:
        """Record ``head``, which a commit of this process made, so that an older catalog is noticed; never raises."""
        if self._guard is not None:
            self._guard.record(head)

    def _require_not_deleted(self, head: Head, even_deleted: bool) -> Head:
        self._table_uuid = self._table_uuid or head.table_uuid
        if head.state.deleted_at_ms is not None and not even_deleted:
            raise make_deleted_error(head.state)
        return head

    def _load_head(self, table: Table) -> Head:
        """Load the head of ``table``, or the newest if a sweep has removed the state of that one meanwhile."""
        while True:
            with suppress(OutdatedHeadError), self.notice_newer_head(table):
                return self._head(table)
            table = self.load_table()

    def _head(self, table: Table) -> Head:
        head_checks.require_consistent(self.topic, table)
        snapshot = table.current_snapshot()
        if snapshot is None:
            configuration = recorded.read_initial_configuration(table.properties)
            state = carried.make_empty_state(self.topic, int(table.properties[PARTITIONS_PROPERTY]))
            state = replace(state, live=head_checks.NO_SEGMENTS, configuration=configuration)
            return Head(table, None, state, self._locate_copies(table))
        reference = self._get_state_reference(snapshot)
        head_checks.require_below(self.topic, table, reference.path)
        state = carried.read_state(self.topic, reference)
        head_checks.require_same_table(self.topic, table, state, reference.copies)
        return Head(table, snapshot.snapshot_id, state, state.copies or self._locate_copies(table))

    def _locate_copies(self, table: Table) -> str:
        return locate_copies(self._copies, self.topic, str(table.metadata.table_uuid))

    def _get_state_reference(self, snapshot: Snapshot) -> carried.StateReference:
        summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
        return carried.StateReference.from_summary(self.topic, summary)

    def snapshot(self, snapshot_id: int) -> Head:
        """Load a snapshot that the table still has, and its state; nothing is committed over an old one.

        Raises:
            UsageError: the table has no such snapshot, or no longer.
            Also the errors of :meth:`head`.
        """
        head = self.head()
        table = head.table
        snapshot = table.snapshot_by_id(snapshot_id)
        if snapshot is None:
            raise UsageError(
                f"Topic {self.topic} has no snapshot {snapshot_id}, or no longer: a sweep removes a snapshot when "
                "winnow.retired.grace.ms have passed since the next one."
            )
        # A sweep copies documents of snapshots from before there were copies.
        reference = replace(self._get_state_reference(snapshot), copies=head.state.copies)
        state = replace(carried.read_state(self.topic, reference), copies=head.state.copies)
        return Head(table, snapshot_id, state, head.copies)

    @contextmanager
    def notice_newer_head(self, table: Table) -> Iterator[None]:
        """Explain a missing or damaged file of ``table`` if it is not the newest: a sweep took it, it is not lost.

        A process that was paused goes on with a head whose snapshot may have expired.

        Raises:
            OutdatedHeadError: the topic has a newer head; whoever loads that starts from what is there.
        """
        try:
            yield
        except (DamagedMetadataError, MissingFileError, FileNotFoundError) as problem:
            newest = self.load_table()
            if newest.metadata_location == table.metadata_location:
                raise
            raise OutdatedHeadError(
                f"Topic {self.topic} was changed and swept while this was at work with an older state of it, whose "
                "files are gone.",
                left="Nothing was changed, and nothing that is needed is gone.",
                next="Run it again.",
            ) from problem

    def config(self, head: Head | None = None) -> TopicConfig:
        """Load the topic's configuration, parsed and checked; the installation's defaults fill in the rest.

        Raises:
            ConfigurationError: the topic's values and the present defaults contradict one another.
            ForeignConfigurationError: the table's properties are not the configuration that Winnow committed.
        """
        head = head or self.head()
        recorded.check_recorded(
            self.topic, head.state.configuration, head.table.properties, head.table.metadata_location
        )
        try:
            return self.parse(read_overrides(head.table.properties))
        except ConfigurationError as problem:
            raise ConfigurationError(f"Topic {self.topic}: {problem}") from None

    def parse(self, overrides: Mapping[str, str]) -> TopicConfig:
        """Parse the configuration that this topic would have if it set only ``overrides``.

        Raises:
            ConfigurationError: as :meth:`winnow.config.topic.TopicConfig.parse`.
        """
        return TopicConfig.parse(overrides, self._defaults)

    def partitions(self, head: Head | None = None) -> int:
        """Return the number of partitions."""
        return len((head or self.head()).state.partitions)

    def segments(self, head: Head) -> dict[int, tuple[Segment, ...]]:
        """List the live segments per partition in offset order, from the manifests alone; opens no data file.

        Raises:
            ForeignTableError: the table holds delete files or files without offset bounds.
            DamagedMetadataError: a manifest is damaged, or the manifests name other segments than were committed.
        """
        found: dict[int, list[Segment]] = {}
        with (
            self.notice_newer_head(head.table),
            reduce_garbage_collection(),
            translate_catalog_errors(f"The segments of topic {self.topic} could not be listed"),
        ):
            listed = self._list_segments(head)
            if head.state.live is not None:
                snapshot = head.snapshot
                head_checks.require_segments(
                    self.topic,
                    head.state.live,
                    head_checks.compute_segment_digest(listed),
                    snapshot.manifest_list if snapshot is not None else head.table.metadata_location,
                )
            for segment in listed:
                found.setdefault(segment.partition, []).append(segment)
            return {p: tuple(sorted(found[p], key=_BY_OFFSET)) for p in sorted(found)}

    def _list_segments(self, head: Head) -> list[Segment]:
        return [
            segment
            for manifest in self._manifests(head)
            for segment in list_live_segments(head.table.io, manifest, self._make_foreign_file_error)
        ]

    def _make_foreign_file_error(self, path: str) -> ForeignTableError:
        return ForeignTableError(
            f"Topic {self.topic} holds a data file that Winnow did not write: {path}.",
            left="Nothing was changed.",
            next="Remove it from the table or roll the table back to the last Winnow snapshot.",
        )

    def find_manifest_count(self, head: Head) -> int | None:
        """Return how many manifests ``head`` has, if they were listed last; None: not known without reading."""
        snapshot_id, count = self._manifests_listed
        return count if snapshot_id == head.snapshot_id else None

    def _manifests(self, head: Head) -> list[ManifestFile]:
        snapshot = head.snapshot
        if snapshot is None:
            return []
        manifests = list_live_manifests(head.table.io, snapshot)
        self._manifests_listed = (head.snapshot_id, len(manifests))
        if any(manifest.content != ManifestContent.DATA for manifest in manifests):
            raise ForeignTableError(
                f"Topic {self.topic} holds row-level deletes that Winnow does not write.",
                left="Nothing was changed.",
                next="Roll the table back to the last Winnow snapshot, or rewrite it without delete files.",
            )
        return manifests

    def find_receipt(self, plan_id: str, head: Head | None = None, *, since_ms: int | None = None) -> Receipt | None:
        """Find the receipt of ``plan_id`` if it was published; None if it never was.

        Args:
            plan_id: the plan.
            head: the head to search; None: the newest.
            since_ms: earliest time of the publish by any machine's clock; None: search all receipts.
        """
        head = head or self.head()
        with self.notice_newer_head(head.table):
            for reference in reversed(self.receipt_references(head, since_ms=since_ms)):
                if reference.plan_id == plan_id:
                    return carried.read_receipt(head.state, reference)
        return None

    def receipt_references(self, head: Head, *, since_ms: int | None = None) -> list[ReceiptReference]:
        """List references to receipts, oldest first: all, or those since ``since_ms`` and some before them."""
        since_ms = None if since_ms is None else since_ms - MAXIMUM_CLOCK_DIFFERENCE_MS
        return reference_chains.list_receipt_references(head.state, since_ms=since_ms)

    def receipts(self, head: Head | None = None) -> list[Receipt]:
        """List the receipts of all published plans, oldest first."""
        head = head or self.head()
        return [carried.read_receipt(head.state, reference) for reference in self.receipt_references(head)]

    # ------------------------------------------------------------------ writing

    def commit(
        self, build: Callable[[Head], Change], *, even_deleted: bool = False, over_older: bool = False
    ) -> Committed:
        """Commit the change that ``build`` makes of the head; ``build`` is called again after each conflict.

        ``over_older``: also over a head that is older than what was recorded; the change must be above all of that.

        Raises:
            OlderHeadError: the catalog is older than what was recorded after the last commit.
            DeletedTopicError: the topic is deleted, and ``even_deleted`` is not set.
            PlanVoidError: a file to remove is no longer in the log.
            UnknownTopicError: the topic that was looked at is gone, and this is another one of its name.
            CommitConflictError: other commits came first :data:`MAXIMUM_COMMIT_TRIES` times.
            CommitUnknownError: the catalog did not confirm the commit; nothing was cleaned up.
            Also the errors of ``build`` and ``before_commit``.
        """
        for attempt in range(MAXIMUM_COMMIT_TRIES):
            head = (self.head if over_older else self.newest_head)(even_deleted=even_deleted)
            head_checks.require_same_topic(self.topic, head.table_uuid, seen=self._table_uuid)
            committed, begun_ms = None, read_wall_clock_ms()
            # Paused here, it goes on with a head whose files may be swept: the next try begins with the newest.
            with suppress(OutdatedHeadError), self.notice_newer_head(head.table):
                change = replace(build(head), begun_ms=begun_ms)
                self._before_commit()
                committed = self._try(head, change)
            if committed is not None:
                self.record(committed.head)
                return committed
            wait_before_retry(attempt)
        raise self.conflict()

    def conflict(self) -> CommitConflictError:
        """Make the error for a commit that lost too often."""
        return CommitConflictError(
            f"Other commits to topic {self.topic} came first {MAXIMUM_COMMIT_TRIES} times.",
            left="Nothing of this one landed.",
            next="Run it again.",
        )

    def _try(self, head: Head, change: Change) -> Committed | None:
        table = head.table
        with translate_catalog_errors(f"The commit to topic {self.topic} was not started"):
            manifests = self._manifests(head)
            transaction = StagedTransaction(table, above_sequence_number=change.above_sequence_number)
            if change.properties:
                transaction.set_properties(change.properties)
            if change.dropped_properties:
                transaction.remove_properties(*change.dropped_properties)
            declare_sort_order(transaction)  # of a table that an earlier Winnow created
            producer = LogUpdate(
                transaction,
                table,
                manifests,
                add=change.add,
                remove=change.remove,
                remove_from=change.remove_from,
                begun_ms=change.begun_ms,
            )
            if producer.missing:
                raise PlanVoidError(
                    f"The log of topic {self.topic} has no longer "
                    f"{format_count(producer.missing, 'planned segment')}; the plan is void and nothing was published.",
                    next="Run it again: the next plan starts from the log as it is.",
                )
            receipt = change.receipt(producer.snapshot_id) if change.receipt is not None else None
            new_state, leftovers = replace(change.state, fence=max(change.state.fence, head.fence)), list[str]()
            if receipt is not None:
                reference = carried.write_receipt(head.documents, receipt, change.reversal)
                new_state = replace(new_state, receipts=(*new_state.receipts, reference))
                leftovers += head.documents.list_places(reference.path)
            new_state = self._add_digests(head, change, producer.removed, new_state)
            new_state, links = reference_chains.shorten_chains(head.documents, new_state)
            leftovers += [place for link in links for place in head.documents.list_places(link)]
            state_reference = carried.write_state(head.documents, new_state)
            producer.snapshot_properties = {
                **change.summary,
                carried.STATE_PROPERTY: state_reference.to_property(),
            }
            leftovers += head.documents.list_places(state_reference.path)
        with translate_catalog_errors(f"The commit to topic {self.topic} was not started"):
            producer.commit()
        snapshot_id = producer.snapshot_id
        try:
            committed = transaction.commit_transaction()
        except CommitFailedException:
            # The catalog has checked whether the commit succeeded (winnow.log.catalog_access).
            delete_documents(head.documents, leftovers)
            return None
        except Exception as problem:
            found = find_landed(self._catalog, self._identifier, snapshot_id)
            if found is None:
                raise CommitUnknownError(
                    f"The catalog did not say whether the commit to topic {self.topic} landed "
                    f"({type(problem).__name__}).",
                    left="Nothing was cleaned up.",
                    next="Run it again: it first looks for this commit in the table's history.",
                ) from problem
            committed = found
        return Committed(snapshot_id, new_state, receipt, Head(committed, snapshot_id, new_state, head.copies))

    def _add_digests(self, head: Head, change: Change, removed: Sequence[Segment], state: TopicState) -> TopicState:
        """Add to ``state`` the values that a reader compares: digest of its segments, configuration, table."""
        live = head.state.live
        if live is None:  # the state is from a Winnow that kept none
            live = head_checks.compute_segment_digest(self._list_segments(head))
        configuration = head.state.configuration
        touched = recorded.read_configuration(dict.fromkeys((*change.properties, *change.dropped_properties), ""))
        if configuration is None or change.accepts_configuration or touched:
            after = {**head.table.properties, **change.properties}
            configuration = recorded.read_configuration(
                {key: text for key, text in after.items() if key not in change.dropped_properties}
            )
        return replace(
            state,
            live=head_checks.update_segment_digest(live, added=change.add, removed=removed),
            configuration=configuration,
            table_uuid=head.table_uuid,
            location=head.location,
            copies=head.copies,
        )
