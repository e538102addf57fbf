"""The index of the Data Docs site, built from the results as they lie there. Imports GX; its site builder loads it.

GX's own index builder makes objects of every check of every earlier result to learn whether it passed: seconds, once
the site holds hundreds. Here two fields of each are read.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from great_expectations.exceptions.exceptions import GreatExpectationsError
from great_expectations.render.renderer.site_builder import DefaultSiteIndexBuilder

LOG = logging.getLogger(__name__)


class SiteIndexBuilder(DefaultSiteIndexBuilder):
    """Lists every page with a result, the newest first."""

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
