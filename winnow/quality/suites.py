"""Loads reviewed suites from JSON: each expectation has an id, a severity and a sentence.

GX's own ids and version stamps change with every save, so the files leave them out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from winnow.embedded.bundle import find_bundled_folder
from winnow.errors import ConfigurationError
from winnow.quality.gx_runtime import import_great_expectations
from winnow.values.model import Severity
from winnow.values.results import Failure

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite

STRUCTURAL_SUITE = "compaction"
RAISED = ":raised"
"""Suffix of the expectation id in a failure whose check raised."""
SUITE_META = "suite"
"""Key in the ``meta`` of a GX expectation that names its suite: a page shows several."""
TOPICS_META = "topics"
"""Key in the ``meta`` of a GX result that names the topics it is about, if it is about several."""
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_SEVERITIES = {"critical": Severity.FAIL, "warning": Severity.WARN, "info": Severity.WARN}
_NOT_ROW_WISE = frozenset(
    {
        "expect_column_values_to_be_unique",
        "expect_column_values_to_be_increasing",
        "expect_column_values_to_be_decreasing",
        "expect_column_value_z_scores_to_be_less_than",
        "expect_column_values_to_not_be_outliers",
        "expect_compound_columns_to_be_unique",
        "expect_multicolumn_values_to_be_unique",
    }
)
"""Map expectations that read more than one row at a time."""


class _ExpectationFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    severity: Literal["critical", "warning", "info"]
    kwargs: dict[str, Any]
    meta: dict[str, str]


class _SuiteFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    notes: str | None = None
    expectations: Annotated[tuple[_ExpectationFile, ...], Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Expectation:
    """One reviewed expectation. ``gx_severity`` is GX's word, ``severity`` what a failure does here."""

    id: str
    type: str
    kwargs: dict[str, Any]
    gx_severity: str
    severity: Severity
    sentence: str


@dataclass(frozen=True, slots=True)
class Suite:
    """A reviewed suite, not yet converted to GX's."""

    name: str
    expectations: tuple[Expectation, ...]

    def find(self, expectation_id: str) -> Expectation:
        """Return the expectation with that id, which must exist."""
        return next(e for e in self.expectations if e.id == expectation_id)


@dataclass(frozen=True, slots=True)
class SuiteFindings:
    """Failures of a suite that judged something other than the fact table; they never hold user bytes."""

    suite: Suite
    failures: tuple[Failure, ...]


def list_suites(extra_folder: Path | None = None) -> dict[str, Path]:
    """Return every suite by name: Winnow's own and those of ``extra_folder``.

    Raises:
        ConfigurationError: ``extra_folder`` has a suite with the name of one of Winnow's, which would weaken a
            structural check.
    """
    known = {path.stem: path for path in sorted(find_bundled_folder("expectations").glob("*.json"))}
    extra = sorted(extra_folder.glob("*.json")) if extra_folder is not None else []
    for path in extra:
        if path.stem in known:
            raise ConfigurationError(
                f"The suite {path.stem} in {extra_folder} has the name of a suite that comes with Winnow.",
                next="Rename it.",
            )
    return known | {path.stem: path for path in extra}


def load_suite(name: str, extra_folder: Path | None = None) -> Suite:
    """Load the suite of that name. Reads one file; does not import GX.

    Raises:
        ConfigurationError: there is no such suite (the known ones are listed), or its file is invalid.
    """
    known = list_suites(extra_folder)
    if not _NAME.fullmatch(name) or name not in known:
        raise ConfigurationError(f"There is no suite {name!r}.", next=f"Known suites: {', '.join(sorted(known))}.")
    path = known[name]
    try:
        file = _SuiteFile.model_validate_json(path.read_bytes())
    except ValidationError as problem:
        where = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in problem.errors()[:3])
        raise ConfigurationError(f"The suite file {path} is not valid: {where}.") from problem
    return _make_suite(name, file)


def _make_suite(name: str, file: _SuiteFile) -> Suite:
    ids = [e.id for e in file.expectations]
    repeated = sorted({i for i in ids if ids.count(i) > 1})
    silent = sorted(e.id for e in file.expectations if not e.meta.get("sentence"))
    if file.name != name:
        raise ConfigurationError(f"The suite file {name}.json names itself {file.name!r}.")
    if repeated:
        raise ConfigurationError(f"The suite {name} has more than one expectation of id {', '.join(repeated)}.")
    if silent:
        raise ConfigurationError(f"The suite {name} has no meta.sentence for {', '.join(silent)}.")
    return Suite(
        name=name,
        expectations=tuple(
            Expectation(e.id, e.type, e.kwargs, e.severity, _SEVERITIES[e.severity], e.meta["sentence"])
            for e in file.expectations
        ),
    )


def convert_to_gx(suite: Suite) -> ExpectationSuite:
    """Convert ``suite`` to GX's object. GX assigns new ids, so ours are kept in the expectations' ``meta``.

    Raises:
        ConfigurationError: an expectation type that GX does not have, or arguments that it rejects.
    """
    gx = import_great_expectations()
    made: ExpectationSuite = gx.ExpectationSuite(
        name=suite.name, expectations=[_make_implementation(suite, expectation) for expectation in suite.expectations]
    )
    return made


def _make_implementation(suite: Suite, expectation: Expectation) -> Any:
    kind = _find_implementation_class(suite, expectation)
    try:
        return kind(
            **expectation.kwargs,
            severity=expectation.gx_severity,
            description=expectation.sentence,
            meta={"expectation": expectation.id, "sentence": expectation.sentence, SUITE_META: suite.name},
        )
    except (ValueError, TypeError) as problem:
        raise ConfigurationError(
            f"The arguments of {expectation.id} in suite {suite.name} are refused by {expectation.type}: "
            f"{str(problem).splitlines()[0]}."
        ) from problem


def _find_implementation_class(suite: Suite, expectation: Expectation) -> Any:
    gx = import_great_expectations()
    from great_expectations.exceptions.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.registry import get_expectation_impl

    try:
        return get_expectation_impl(expectation.type)
    except ExpectationNotFoundError as problem:
        raise ConfigurationError(
            f"The suite {suite.name} asks for {expectation.type} ({expectation.id}), which GX {gx.__version__} does "
            "not have."
        ) from problem


def check_row_wise(suite: Suite) -> None:
    """Raise for a suite that cannot be judged chunk by chunk.

    Raises:
        ConfigurationError: an expectation that is not a map over rows, that compares rows, or that tolerates a share of
            bad rows (``mostly``): its outcome would depend on chunk boundaries.
    """
    for expectation in suite.expectations:
        if not is_row_wise(suite, expectation, even_mostly=True):
            raise ConfigurationError(
                f"{expectation.id} in suite {suite.name} ({expectation.type}) does not judge row by row. Records are "
                "judged in chunks, so a content suite may hold map expectations over single rows only."
            )
        if not is_row_wise(suite, expectation):
            raise ConfigurationError(
                f"{expectation.id} in suite {suite.name} sets mostly. Records are judged in chunks, so it would mean "
                "a share of each chunk.",
                next="Leave it out and use the severity warning instead.",
            )


def is_row_wise(suite: Suite, expectation: Expectation, *, even_mostly: bool = False) -> bool:
    """Check whether ``expectation`` of ``suite`` judges each row by itself. Imports GX.

    ``even_mostly``: one that tolerates a share of bad rows counts too.

    Raises:
        ConfigurationError: GX has no such expectation.
    """
    import_great_expectations()
    from great_expectations.expectations.expectation import (
        ColumnMapExpectation,
        ColumnPairMapExpectation,
        MulticolumnMapExpectation,
    )

    kind = _find_implementation_class(suite, expectation)
    is_map = issubclass(kind, ColumnMapExpectation | ColumnPairMapExpectation | MulticolumnMapExpectation)
    tolerates = expectation.kwargs.get("mostly", 1) != 1 and not even_mostly
    return is_map and expectation.type not in _NOT_ROW_WISE and not tolerates
