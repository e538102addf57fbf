"""What a release consists of: files that anyone can build again, what is in them, and what changed."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

from packaging.version import Version

from scripts.build_release import build, explain_unready, find_commit_time_s, make_sbom
from winnow.version import find_source_version, read_newest_release


def test_two_builds_of_one_commit_are_equal_to_the_last_byte(root: Path, tmp_path: Path) -> None:
    """Whoever builds a tag again gets the digests that were published."""
    built = build(root, tmp_path / "first", find_commit_time_s(root))
    assert sorted(name.rpartition(".")[2] for name in built) == ["gz", "whl"]
    assert build(root, tmp_path / "second", find_commit_time_s(root)) == built
    assert build(root, tmp_path / "third", 1_700_000_000) != built


def test_sdist_has_what_builds_the_wheel_and_no_environment(root: Path, tmp_path: Path) -> None:
    """Nothing of a clone's installation or data travels."""
    build(root, tmp_path, find_commit_time_s(root))
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "README.md",
        "winnow/__init__.py",
        "jobs/compact.py",
        "dags/compact_topics.py",
    } <= names
    assert [name for name in names if name.split("/")[0] in {".venv", ".winnow", "node_modules", ".git", "dist"}] == []


def test_bill_of_materials_lists_every_package_of_the_lock(root: Path) -> None:
    """By package URL, with the digests of its files; the same text each time."""
    lock = (root / "requirements.lock").read_text()
    document = json.loads(make_sbom(lock, "0.2.0", 1_700_000_000))
    assert (document["bomFormat"], document["metadata"]["timestamp"]) == ("CycloneDX", "2023-11-14T22:13:20Z")
    locked = re.findall(r"^([\w.-]+)(?:\[.*?\])?==([^\s;\\]+)", lock, re.MULTILINE)
    assert [(each["name"], each["version"]) for each in document["components"]] == locked
    assert all(each["properties"] for each in document["components"])
    references = [each["bom-ref"] for each in document["components"]]
    assert len(set(references)) == len(references)
    assert make_sbom(lock, "0.2.0", 1_700_000_000) == make_sbom(lock, "0.2.0", 1_700_000_000)


def test_changelog_has_one_section_for_each_release_and_the_newest_is_the_one_that_is_prepared(root: Path) -> None:
    """Each with its day, but for the newest, whose number this checkout has: as a release, or on the way to it."""
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ \(20\d\d-\d\d-\d\d\)", each) for each in headings[1:])
    release, day = read_newest_release(root)
    assert headings[0] == f"{release} ({day or 'unreleased'})"
    assert day is not None or Version(find_source_version(root)).base_version == release


def test_tag_is_not_built_unless_the_changelog_has_its_section() -> None:
    """A section that is missing or open, or other files than the tag's: refused. Other commits are built."""
    assert explain_unready("0.2.0", "0.2.0", "2026-05-04") is None
    assert explain_unready("0.3.0.dev4+g0123456789.dirty", "0.3.0", None) is None
    assert "begins with 0.2.0 (unreleased)" in str(explain_unready("0.2.0", "0.2.0", None))
    assert "begins with 0.1.0 (2026-01-31)" in str(explain_unready("0.2.0", "0.1.0", "2026-01-31"))
    assert "Files differ" in str(explain_unready("0.2.0+dirty", "0.2.0", "2026-05-04"))
