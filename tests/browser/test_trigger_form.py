"""Airflow's own form for triggering a DAG: everything is open, and an empty field looks empty."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Open


def test_form_of_a_compaction_shows_dry_run_at_once_and_no_null(look: Open) -> None:
    """A section that is closed at first would hide what makes a run harmless."""
    seen = look("small")
    seen.page.goto(f"{seen.server.url}/dags/compact_now")
    seen.page.get_by_role("button", name=re.compile("Trigger")).first.click()
    form = seen.page.get_by_role("dialog")
    expect(form.get_by_text(re.compile("^Dry run")).first).to_be_visible()
    expect(form.get_by_text("no comparison", exact=True)).to_be_visible()
    expect(form.get_by_text("null", exact=True)).to_have_count(0)
