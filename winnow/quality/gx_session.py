"""Great Expectations contexts, one per suite and process, used for every topic.

GX is first asked for the short result, and for the long one (figures of every failing partition) only if something is
wrong. Pages are built one by one; the index, which names all of them, on request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from winnow.quality.gx_runtime import (
    SITE,
    import_great_expectations,
    make_ephemeral_context,
    make_site_config,
    spare_repeated_work,
)
from winnow.quality.suites import TOPICS_META, Suite, SuiteFindings, convert_to_gx

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations.core import ExpectationSuiteValidationResult
    from great_expectations.core.run_identifier import RunIdentifier
    from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier
    from jinja2 import Environment

_INT64 = range(-(2**63), 2**63)
_SHORT = {"result_format": "BASIC"}
_LONG = {"result_format": "COMPLETE", "unexpected_index_column_names": ["partition"]}
_sessions: dict[tuple[str, Path | None], GxSession] = {}


class GxSession:
    """Judges fact tables by one suite. Hold :data:`winnow.quality.gx_runtime.GX_LOCK` while using it.

    ``site``: folder of the Data Docs; None keeps no result and builds no page.
    """

    def __init__(self, suite: Suite, site: Path | None) -> None:
        gx = import_great_expectations()
        self.suite = suite
        self._context = make_ephemeral_context(site)
        asset = self._context.data_sources.add_pandas("facts").add_dataframe_asset("partitions")
        self._definition = self._context.validation_definitions.add(
            gx.ValidationDefinition(
                name=suite.name,
                data=asset.add_batch_definition_whole_dataframe("all"),
                suite=self._context.suites.add(convert_to_gx(suite)),
            )
        )
        self._site = site
        self._builder: Any = None
        if site is None:
            # GX would spend a sixth of each judgement on the text of a result that nobody reads.
            results: Any = self._context.validation_results_store
            results.serialize = lambda _: ""

    def prepare_pages(self) -> None:
        """Compile the templates of the pages, a third of the time of the first judgement. Writes no page."""
        for environment in _list_template_environments(self._make_site_builder()):
            for name in environment.list_templates(extensions=["j2", "css"]):
                environment.get_template(name)

    def run(
        self, rows: Sequence[Mapping[str, int | str]], run_name: str, checked_at_ms: int
    ) -> ExpectationSuiteValidationResult:
        """Judge ``rows`` and return the result, which the site stores under ``run_name`` and the time."""
        from great_expectations.core.run_identifier import RunIdentifier

        frame = make_fact_frame(rows)
        run_id = RunIdentifier(run_name=run_name, run_time=datetime.fromtimestamp(checked_at_ms / 1000, tz=UTC))
        result = self._run(frame, run_id, _SHORT)
        # A check that raised is not a success either.
        result = result if result.success else self._run(frame, run_id, _LONG)
        if self._site is None:
            results: Any = self._context.validation_results_store
            results.remove_key(_identify(result, self.suite))
        return result

    def _run(
        self, frame: pd.DataFrame, run_id: RunIdentifier, result_format: dict[str, Any]
    ) -> ExpectationSuiteValidationResult:
        with spare_repeated_work():
            return self._definition.run(
                batch_parameters={"dataframe": frame}, run_id=run_id, result_format=result_format
            )

    def discard(self, result: ExpectationSuiteValidationResult) -> None:
        """Remove ``result``, which no verdict rests on, from the site's results."""
        if self._site is not None:
            results: Any = self._context.validation_results_store
            results.remove_key(_identify(result, self.suite))

    def write_page(
        self,
        result: ExpectationSuiteValidationResult,
        findings: SuiteFindings | None = None,
        *,
        topics: Sequence[str] = (),
    ) -> str | None:
        """Build the page of one result; return its URL, None if GX could not render it (and has logged why).

        ``findings``: of another suite with the same verdict, shown on the same page. ``topics``: those that ``result``
        is about, named on the page, if it is about several.

        Raises:
            OSError: the page cannot be written.
        """
        identifier = _identify(result, self.suite)
        if findings is not None:
            from winnow.quality.gx_pages import add_suite_failures

            # The index and later builds of the site read the stored result.
            self._context.validation_results_store.set(identifier, add_suite_failures(result, findings))
        if topics:
            meta: dict[str, Any] = {**result.meta, TOPICS_META: list(topics)}
            result.meta = meta
            self._context.validation_results_store.set(identifier, result)
        builder = self._make_site_builder()
        # About 4 MB that GX would copy with every page.
        copied = self._folder / f".static-{import_great_expectations().__version__}"
        if not copied.is_file():
            builder.target_store.copy_static_assets()
            copied.touch()
        builder.site_section_builders["validations"].build(resource_identifiers=[identifier])
        url: str | None = builder.get_resource_url(identifier)
        return url

    def write_index(self) -> None:
        """Build the index of the site from its stored results.

        Raises:
            OSError: the index cannot be written.
        """
        self._make_site_builder().site_index_builder.build()

    @property
    def _folder(self) -> Path:
        assert self._site is not None
        return self._site

    def _make_site_builder(self) -> Any:
        # GX would make one for every build, and compile all of its templates again.
        if self._builder is None:
            from great_expectations.render.renderer.site_builder import SiteBuilder

            from winnow.quality.gx_pages import COMPILED_TEMPLATES

            config = {name: value for name, value in make_site_config(self._folder).items() if name != "class_name"}
            self._builder = SiteBuilder(data_context=self._context, site_name=SITE, **config)
            for environment in _list_template_environments(self._builder):
                environment.bytecode_cache = COMPILED_TEMPLATES
        return self._builder


def _list_template_environments(builder: Any) -> list[Environment]:
    from great_expectations.render.view.view import DefaultJinjaView

    parts = [*builder.site_section_builders.values(), builder.site_index_builder]
    return [part.view_class.env for part in parts if isinstance(part.view_class, DefaultJinjaView)]


def _identify(result: ExpectationSuiteValidationResult, suite: Suite) -> ValidationResultIdentifier:
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    return ValidationResultIdentifier(
        expectation_suite_identifier=ExpectationSuiteIdentifier(name=suite.name),
        run_id=result.meta["run_id"],
        batch_identifier=result.batch_id,
    )


def get_session(suite: Suite, site: Path | None) -> GxSession:
    """Return this process's session for ``suite`` and ``site``."""
    held = _sessions.get((suite.name, site))
    if held is None or held.suite != suite:
        held = _sessions[suite.name, site] = GxSession(suite, site)
    return held


def make_fact_frame(rows: Sequence[Mapping[str, int | str]]) -> pd.DataFrame:
    """Return the fact table as a frame with exact integers: int64, or Python's own beyond it; never floats."""
    import pandas as pd

    columns: dict[str, Any] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        exact = all(isinstance(value, int) and value in _INT64 for value in values)
        columns[name] = pd.Series(values, dtype="int64" if exact else "object")
    return pd.DataFrame(columns)
