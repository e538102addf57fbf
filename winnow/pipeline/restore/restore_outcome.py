"""What a restore is known to have committed: for the words and the audit entry of a call that failed."""

from __future__ import annotations

import shlex

from winnow.errors import (
    BadInputError,
    ConfigurationError,
    DamagedSegmentError,
    Explanation,
    ServiceError,
    TopicBusyError,
    UsageError,
    ValidationFailedError,
    WinnowError,
)
from winnow.kafka.client_settings import ClientSettings
from winnow.pipeline.restore.restore_request import RestoreRequest
from winnow.pipeline.restore.restore_state import Phase, RestoreState
from winnow.values.counts import format_count


class RestoreOutcome:
    """Follows one call. The last transaction may be committed although its answer was lost, so this is a minimum."""

    def __init__(self, request: RestoreRequest, settings: ClientSettings) -> None:
        self._request, self._settings = request, settings
        self._records_before = 0
        self.state: RestoreState | None = None

    def begin(self, state: RestoreState) -> None:
        """Take in the state that the call begins or goes on with."""
        self.state, self._records_before = state, state.records

    def move(self, state: RestoreState) -> None:
        """Take in the state of a transaction that was committed."""
        self.state = state

    def describe(self) -> str:
        """Say in a sentence what the target has."""
        topic = self._request.target_topic
        if self.state is None:
            return f"Nothing was written to topic {topic}."
        records = self.state.records
        if self.state.phase is not Phase.WRITING:
            return f"{format_count(records, 'record', 'are')} in topic {topic}, all read back."
        if not records:
            return f"No record is committed in topic {topic} yet."
        filled = sum(progress.records > 0 for progress in self.state.partitions.values())
        return (
            f"Known to be committed in topic {topic}: {format_count(records, 'record')} in {filled} of "
            f"{format_count(len(self.state.partitions), 'partition')}, {records - self._records_before:,} of them by "
            "this call."
        )

    def explain(self, problem: WinnowError) -> Explanation:
        """Return the parts of ``problem`` with what the call left behind and the next command, where it lacks them.

        Whoever raised it does not know what was committed before, so this call's own words take the place of its.
        """
        if self.state is None:
            is_silent = isinstance(problem, ServiceError) or type(problem) is ConfigurationError
            return self._complete(problem, "Then run it again.") if is_silent else problem.explanation
        if isinstance(problem, TopicBusyError):
            return self._complete(problem)
        if isinstance(problem, DamagedSegmentError | ServiceError | ConfigurationError):
            return self._complete(problem, self._advise())
        if isinstance(problem, ValidationFailedError):
            return self._complete(problem)
        if isinstance(problem, BadInputError | UsageError):
            return problem.explanation
        return self._complete(problem, self._advise())

    def _complete(self, problem: WinnowError, advice: str = "") -> Explanation:
        return Explanation(problem.what, self.describe(), str(Explanation(problem.next, next=advice)))

    def _advise(self) -> str:
        if self.state is not None and self.state.phase is not Phase.WRITING:
            return "Run the same command again: it does the rest."
        wish = self._request
        words = ["winnow", "restore", wish.topic, "--target-topic", wish.target_topic]
        words += ["--bootstrap-servers", self._settings.bootstrap_servers]
        if self._settings.properties_file is not None:
            words += ["--client-properties", self._settings.properties_file]
        return f"Run the same command again: it goes on from there. To give it up: {shlex.join([*words, '--abandon'])}"
