"""Data Docs pages, one per verdict with all its suites, and the site's index. Loaded by GX.

GX renders one suite per page. The result behind a page holds the results of every suite of the verdict, each with its
suite's name in ``meta``; here they are split again, and each suite gets GX's own overview and sections.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from types import CodeType
from typing import Any, Final

from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.exceptions.exceptions import GreatExpectationsError
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.renderer.site_builder import DefaultSiteIndexBuilder
from jinja2.bccache import Bucket, BytecodeCache

from winnow.quality.suites import SUITE_META, TOPICS_META, SuiteFindings, convert_to_gx

LOG = logging.getLogger(__name__)


class CompiledTemplates(BytecodeCache):
    """Keeps the compiled templates of GX's pages for the whole process.

    Each page of each suite has a template environment of its own, all with the same templates and the same options,
    and GX would compile each template for each of them: a third of a suite's first judgement.
    """

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Set the code of a template with the same name, file and text, if there is one."""
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep the code of a template that was compiled."""
        assert bucket.code is not None
        self._codes[bucket.key, bucket.checksum] = bucket.code


COMPILED_TEMPLATES: Final = CompiledTemplates()
"""Those of every suite and site of this process."""


class SiteIndexBuilder(DefaultSiteIndexBuilder):
    """Lists all pages that have a result, the newest first."""

    def _add_validations_to_index_links(
        self,
        index_links_dict: OrderedDict[str, Any],
        validation_and_profiling_result_site_keys: Sequence[Any],
    ) -> None:
        pages = sorted(validation_and_profiling_result_site_keys, key=lambda key: key.run_id.run_time, reverse=True)
        add: Any = self.add_resource_info_to_index_links_dict
        results: Any = self.data_context.validation_results_store.store_backend
        for page in pages:
            suite_name = page.expectation_suite_identifier.name
            try:
                result = json.loads(results.get(page.to_tuple()))
                success = bool(result["success"])
                asset = result["meta"]["active_batch_definition"]["data_asset_name"]
            except (OSError, ValueError, KeyError, TypeError, GreatExpectationsError):
                LOG.warning("The result of a page is not there or not complete: %s", page.run_id.run_name)
                continue
            add(
                index_links_dict=index_links_dict,
                expectation_suite_name=suite_name,
                section_name="validations",
                batch_identifier=page.batch_identifier,
                run_id=page.run_id,
                validation_success=success,
                run_time=page.run_id.run_time,
                run_name=page.run_id.run_name,
                asset_name=asset,
            )


MAXIMUM_PLACES = 20
"""Maximum partitions that a page names beside a failed expectation of a content suite."""

_NO_EXCEPTION = {"raised_exception": False, "exception_traceback": None, "exception_message": None}


class VerdictPageRenderer(ValidationResultsPageRenderer):
    """Renders one page per verdict: an overview of all suites, then each suite, the failing ones first."""

    def render(self, validation_results: ExpectationSuiteValidationResult, suite_parameters: Any = None) -> Any:
        """Return the page's content; that of a single suite is GX's own."""
        page = super().render(validation_results, suite_parameters)
        by_suite = _split_by_result(validation_results)
        if len(by_suite) <= 1:
            return page
        overview, parts = page.sections[0], []
        for suite in sorted(by_suite, key=_sort_failing_first):
            sections = super().render(suite, suite_parameters).sections
            header, statistics, *_ = sections[0].content_blocks
            sections[0].section_name = f"{suite.suite_name} ({_format_status(suite).lower()})"
            sections[0].content_blocks = [header, statistics]
            header.header.string_template["template"] = suite.suite_name
            parts += sections
        page.sections = [overview, *parts]
        return page

    @classmethod
    def _render_validation_header(cls, validation_results: ExpectationSuiteValidationResult) -> Any:
        header: Any = super()._render_validation_header(validation_results)  # type: ignore[no-untyped-call]
        subheader = header.subheader.string_template
        subheader["params"]["success"] = _format_status(validation_results)
        meta: dict[str, Any] = {**validation_results.meta}
        topics = meta.get(TOPICS_META)
        if topics:
            subheader["template"] += "\n ${topics_title} ${topics}"
            subheader["params"] |= {"topics_title": "Topics:", "topics": ", ".join(topics)}
        return header


def add_suite_failures(
    result: ExpectationSuiteValidationResult, findings: SuiteFindings
) -> ExpectationSuiteValidationResult:
    """Merge what another suite found into ``result``: figures and reviewed sentences, no user bytes."""
    further = [
        _make_result(findings, expectation.id, implementation.configuration)
        for expectation, implementation in zip(
            findings.suite.expectations, convert_to_gx(findings.suite).expectations, strict=True
        )
    ]
    names = f"{result.suite_name}, {findings.suite.name}"
    return _make_expectation_result(names, [*further, *result.results], result)


def _make_result(findings: SuiteFindings, expectation_id: str, configuration: Any) -> ExpectationValidationResult:
    sentence = findings.suite.find(expectation_id).sentence
    failures = [each for each in findings.failures if each.expectation.partition(":")[0] == expectation_id]
    details = [
        f"{'' if each.partition is None else f'partition {each.partition}: '}"
        f"{each.detail.removeprefix(sentence).strip()}"
        for each in failures[:MAXIMUM_PLACES]
    ]
    if len(failures) > MAXIMUM_PLACES:
        details.append(f"and {len(failures) - MAXIMUM_PLACES} more")
    return ExpectationValidationResult(
        success=not failures,
        expectation_config=configuration,
        result={"observed_value": " ".join(details)} if details else {},
        exception_info=dict(_NO_EXCEPTION),
    )


def _split_by_result(result: ExpectationSuiteValidationResult) -> list[ExpectationSuiteValidationResult]:
    by_name: dict[str, list[ExpectationValidationResult]] = {}
    for each in result.results:
        meta = each.expectation_config.meta if each.expectation_config is not None else None
        by_name.setdefault((meta or {}).get(SUITE_META, result.suite_name), []).append(each)
    return [_make_expectation_result(name, found, result) for name, found in by_name.items()]


def _make_expectation_result(
    name: str, results: Sequence[ExpectationValidationResult], like: ExpectationSuiteValidationResult
) -> ExpectationSuiteValidationResult:
    passed = sum(bool(each.success) for each in results)
    return ExpectationSuiteValidationResult(
        success=passed == len(results),
        results=list(results),
        suite_name=name,
        suite_parameters=like.suite_parameters,
        statistics={
            "evaluated_expectations": len(results),
            "successful_expectations": passed,
            "unsuccessful_expectations": len(results) - passed,
            "success_percent": 100 * passed / len(results) if results else None,
        },
        meta=like.meta,
        batch_id=like.batch_id,
    )


def _count_voiding_failures(result: ExpectationSuiteValidationResult) -> int:
    """Count the failed expectations that void the plan; the others are warnings."""
    failed = [each.expectation_config for each in result.results if not each.success]
    return sum(config is None or config.severity == "critical" for config in failed)


def _format_status(result: ExpectationSuiteValidationResult) -> str:
    warnings = sum(not each.success for each in result.results)
    if _count_voiding_failures(result):
        return "Failed"
    return f"Succeeded with {warnings} warning{'s' if warnings > 1 else ''}" if warnings else "Succeeded"


def _sort_failing_first(result: ExpectationSuiteValidationResult) -> tuple[bool, bool]:
    return not _count_voiding_failures(result), bool(result.success)
