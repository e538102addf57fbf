"""Every exception Winnow raises, sorted by what the caller should do.

::

    WinnowError                      exit 1   nobody foresaw it
    ├── UsageError                   exit 2   change the command or the configuration
    │   ├── ConfigurationError
    │   ├── UnknownTopicError
    │   ├── ForeignTableError                 somebody else committed to the table
    │   │   └── ForeignConfigurationError     somebody else changed the topic's configuration
    │   └── FormatVersionError                a newer Winnow wrote this
    ├── BadInputError                exit 3   mend the input; nothing of the call landed
    ├── ValidationFailedError        exit 4   look at the data; nothing was published
    │   ├── DamagedSegmentError               a segment of the log cannot be read
    │   ├── DamagedMetadataError              the table's metadata are not what was committed
    │   └── ValidationBrokenError             a check raised; nothing is known about the data
    ├── RunAgainError                exit 5   run it again
    │   ├── PlanVoidError                     refused: the table changed, the plan is void
    │   ├── CommitUnknownError                unknown: never clean up, settle first
    │   ├── CommitConflictError               another commit came first
    │   └── TopicBusyError                    another run holds the topic
    └── ServiceError                 exit 6   wait for the service, then run it again

A message says what happened to which topic partition, what was left behind, and what to do next.
Exceptions are made from plain strings, so they survive pickling across process borders.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar


class WinnowError(Exception):
    """The root. ``exit_code`` is what a command line or a Spark job ends with."""

    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False


class UsageError(WinnowError):
    """The command or the configuration is wrong; repeating it changes nothing."""

    exit_code = 2


class ConfigurationError(UsageError):
    """A setting or topic configuration is not valid."""


class UnknownTopicError(UsageError):
    """The named topic does not exist."""


class ForeignTableError(UsageError):
    """The head of the table was committed by somebody else; Winnow does not know its state."""


class ForeignConfigurationError(ForeignTableError):
    """The table's properties hold another topic configuration than the one that Winnow committed."""


class FormatVersionError(UsageError):
    """A plan, state or manifest of a newer format than this Winnow reads."""


class BadInputError(WinnowError):
    """The input data is bad; nothing of the call landed."""

    exit_code = 3


class ValidationFailedError(WinnowError):
    """The result did not pass; nothing was published."""

    exit_code = 4


class DamagedSegmentError(ValidationFailedError):
    """A segment of the log is missing or cannot be read; its partition is marked uncleanable."""


class DamagedMetadataError(ValidationFailedError):
    """A metadata file of the table, or one that Winnow keeps beside it, is missing or is not what was committed.

    Nothing is read from it and nothing was changed.
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


class TopicBusyError(RunAgainError):
    """Another run holds the topic."""


class ServiceError(WinnowError):
    """Catalog, metadata store, object store, Spark or Kafka cannot be reached."""

    exit_code = 6
    retryable = True


def find_worst_exit_code(codes: Iterable[int]) -> int:
    """The exit code of several: 1 before all, else the highest; 0 when there are none."""
    listed = list(codes)
    return WinnowError.exit_code if WinnowError.exit_code in listed else max(listed, default=0)


def join_first(parts: Sequence[str], maximum: int, separator: str = "; ", *, last: str = "; and ") -> str:
    """Joins the first ``maximum`` parts of a message and says how many more there are."""
    more = f"{last}{len(parts) - maximum:,} more" if len(parts) > maximum else ""
    return separator.join(parts[:maximum]) + more
