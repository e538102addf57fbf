"""docs/archives.md is made of the table of layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.docs_site.archives_page import format_page
from winnow.sources.layout import Layout
from winnow.sources.layouts.all_layouts import LAYOUTS


def test_page_is_what_the_table_says(root: Path) -> None:
    written = (root / "docs" / "archives.md").read_text(encoding="utf-8")
    assert written == format_page(), "Write it anew: make docs"


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_each_layout_says_what_recognises_it_what_it_loses_and_the_command(layout: Layout) -> None:
    page = format_page()
    section = page.split(f"## {layout.name}\n")[1].split("\n## ")[0]
    assert layout.description.recognised_by in section
    assert all(loss in section for loss in layout.description.loses)
    assert f"--layout {layout.name}" in section
