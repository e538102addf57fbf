"""Every exception Winnow raises, sorted by what the caller should do.

::

    WinnowError                      exit 1   unexpected
    ├── UsageError                   exit 2   change the command or the configuration
    │   ├── ConfigurationError
    │   ├── UnknownTopicError
    │   ├── LinkedFolderError                 a link where Winnow has to write
    │   ├── ForeignTableError                 another tool committed to the table
    │   │   └── ForeignConfigurationError     another tool changed the topic's configuration
    │   └── FormatVersionError                a newer Winnow wrote this
    ├── BadInputError                exit 3   correct the input; nothing was committed
    ├── ValidationFailedError        exit 4   check the data; nothing was published
    │   ├── DamagedSegmentError               a segment of the log cannot be read
    │   ├── DamagedMetadataError              the table's metadata differ from the commit
    │   ├── DamagedBackupError                a file of a backup is not what was written
    │   ├── OlderHeadError                    the catalog is older than what was committed
    │   └── ValidationBrokenError             a check raised; the data was not judged
    ├── RunAgainError                exit 5   run it again
    │   ├── PlanVoidError                     refused: the table changed, the plan is void
    │   ├── CommitUnknownError                outcome unknown: settle it before cleaning up
    │   ├── CommitConflictError               another commit came first
    │   ├── OutdatedHeadError                 files of an older head were swept meanwhile
    │   └── TopicBusyError                    another run holds the topic
    └── ServiceError                 exit 6   wait for the service, then run it again
        ├── MissingFileError                  a file that the catalog names is not there
        └── KeptVersionsError                 the store keeps what is deleted: change the bucket first

An error is a value with three parts (:class:`Explanation`): what happened to which topic partition, what was left
behind, and what to do next. ``str()`` joins them for people; code reads the parts and never the message. A function
``make_*_error`` returns an error, a function ``require_*`` raises one. Errors are made from plain strings, so they
survive pickling across process borders.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Self


class Explanation(NamedTuple):
    """What happened to which topic partition, what was left behind, and what to do next: each in sentences.

    ``left`` and ``next`` may be empty. The last part may end with a command, which then has no full stop, so that it
    can be pasted as it is.
    """

    what: str
    left: str = ""
    next: str = ""

    def __str__(self) -> str:
        """Join the parts. Each one before the last ends with one full stop, as it was written or not."""
        parts = [part for part in self if part]
        return " ".join([*map(_end_sentence, parts[:-1]), *parts[-1:]])

    @property
    def clause(self) -> str:
        """The whole message without its last full stop, to stand in another sentence."""
        return str(self).removesuffix(".")


class WinnowError(Exception):
    """The root. ``exit_code`` is the exit code of a command line or a Spark job."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False
    of_topics: Mapping[str, Explanation] = MappingProxyType({})
    """Of an error that stands for those of several topics: that of each."""

    def __init__(self, what: str = "", left: str = "", next: str = "") -> None:  # noqa: A002  (as the documents name it)
        super().__init__(what, left, next)

    def __str__(self) -> str:
        return str(self.explanation)

    @property
    def explanation(self) -> Explanation:
        """The three parts."""
        return Explanation(*self.args)

    @property
    def what(self) -> str:
        """What happened to which topic partition."""
        return self.explanation.what

    @property
    def left(self) -> str:
        """What was left behind. Empty: the caller knows it, or nothing is to be said of it."""
        return self.explanation.left

    @property
    def next(self) -> str:
        """What to do next; may be empty."""
        return self.explanation.next

    @property
    def clause(self) -> str:
        """What happened, without its full stop, to stand in another sentence."""
        return self.what.removesuffix(".")

    def with_left(self, left: str) -> Self:
        """Return the same error with another ``left``: only the caller knows whether something was committed before."""
        changed = copy.copy(self)
        changed.args = tuple(self.explanation._replace(left=left))
        return changed


class UsageError(WinnowError):
    """The command or the configuration is wrong; repeating it changes nothing."""

    exit_code = 2


class ConfigurationError(UsageError):
    """A setting or topic configuration is not valid."""


class OtherInstallationError(ConfigurationError):
    """The warehouse's namespace belongs to another installation of Winnow."""


class UnknownTopicError(UsageError):
    """The named topic does not exist."""


class DeletedTopicError(UnknownTopicError):
    """The named topic is deleted; until its files are removed it can be restored."""


class LinkedFolderError(UsageError):
    """A folder that Winnow has to write in is a link. Nothing was written there."""


class UndoRefusedError(UsageError):
    """An ingest call, a run or a change of configuration cannot be undone as things are. Nothing was changed."""


class EraseRefusedError(UsageError):
    """Keys cannot be erased as things are; nothing was changed."""


class ForeignTableError(UsageError):
    """Another tool committed the head of the table; Winnow does not know its state."""


class ForeignConfigurationError(ForeignTableError):
    """The table's properties hold another topic configuration than the one that Winnow committed."""


class FormatVersionError(UsageError):
    """A plan, state or manifest has a newer format than this Winnow reads."""


class BadInputError(WinnowError):
    """The input data is bad; nothing of the call was committed."""

    exit_code = 3


class ValidationFailedError(WinnowError):
    """The result did not pass; nothing was published."""

    exit_code = 4


class DamagedSegmentError(ValidationFailedError):
    """A segment of the log is missing or cannot be read; its partition is marked uncleanable."""


class DamagedMetadataError(ValidationFailedError):
    """A metadata file of the table, or one that Winnow keeps beside it, is missing or differs from the committed one.

    Nothing is read from it and nothing was changed.
    """


class DamagedBackupError(ValidationFailedError):
    """A file of a backup is missing or is not the one that was written; nothing of it was put to use."""


class OlderHeadError(ValidationFailedError):
    """The catalog names an older head of a topic than the one that was recorded after Winnow's last commit.

    Nothing was swept and nothing was written.
    """


class ValidationBrokenError(ValidationFailedError):
    """A check raised instead of judging; nothing was published, no partition was marked."""


class RunAgainError(WinnowError):
    """Nothing is wrong with the data or the configuration: run the same thing again."""

    exit_code = 5
    retryable = True


class PlanVoidError(RunAgainError):
    """Refused: a planned file is gone or the log moved under the plan. Nothing was published."""


class CommitUnknownError(RunAgainError):
    """The outcome of a commit is not known. Nothing may be cleaned up before it is settled."""


class CommitConflictError(RunAgainError):
    """Another commit came first, more often than the commit loop tries."""


class OutdatedHeadError(RunAgainError):
    """The topic has a newer head, and files of the one that was at work were swept. Nothing was changed."""


class TopicBusyError(RunAgainError):
    """Another run holds the topic."""


class ServiceError(WinnowError):
    """Catalog, metadata store, object store, Spark or Kafka cannot be reached."""

    exit_code = 6
    retryable = True


class MissingFileError(ServiceError):
    """A file that the catalog names is not there."""


class KeptVersionsError(ServiceError):
    """The object store keeps what is deleted from it, cannot say so, or lacks a right; waiting changes nothing."""

    retryable = False


_BY_EXIT_CODE: dict[int, type[WinnowError]] = {
    kind.exit_code: kind for kind in (UsageError, BadInputError, ValidationFailedError, RunAgainError, ServiceError)
}


def make_error(exit_code: int, explanation: Explanation) -> WinnowError:
    """Make the error that belongs to the exit code of another process."""
    return _BY_EXIT_CODE.get(exit_code, WinnowError)(*explanation)


@contextmanager
def say_left(left: str) -> Iterator[None]:
    """Say of errors of the block that ``left`` was left behind. For who committed something before: it alone knows."""
    try:
        yield
    except WinnowError as problem:
        raise problem.with_left(left) from problem


def _end_sentence(part: str) -> str:
    return part if part.endswith((".", "!", "?", ":")) else f"{part}."


def find_worst_exit_code(codes: Iterable[int]) -> int:
    """Combine several exit codes: 1 before all, else the highest; 0 when there are none."""
    listed = list(codes)
    return WinnowError.exit_code if WinnowError.exit_code in listed else max(listed, default=0)


def join_first(parts: Sequence[str], maximum: int, separator: str = "; ", *, last: str = "; and ") -> str:
    """Join the first ``maximum`` parts of a message and say how many more there are."""
    more = f"{last}{len(parts) - maximum:,} more" if len(parts) > maximum else ""
    return separator.join(parts[:maximum]) + more
