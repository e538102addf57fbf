"""``make dist``: wheel and sdist, built twice and compared, with a software bill of materials of the lock beside them.

Both are the same to the last byte wherever one commit is built: times in them are those of the commit.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from winnow.version import find_source_version, read_newest_release

ROOT = Path(__file__).parents[1]
FALLBACK_EPOCH_S = 1_577_836_800
"""2020-01-01, where there is no commit: zip files know no time before 1980."""


def main() -> int:
    """Build into ``dist``; return 1 if two builds differ, or if the changelog has no section of a release."""
    version = find_source_version(ROOT)
    if (problem := explain_unready(version, *read_newest_release(ROOT))) is not None:
        sys.stderr.write(f"error: {problem} Nothing was built.\n")
        return 1
    epoch_s = find_commit_time_s(ROOT)
    with tempfile.TemporaryDirectory() as second:
        built, again = build(ROOT, ROOT / "dist", epoch_s), build(ROOT, Path(second), epoch_s)
    if built != again:
        sys.stderr.write(f"error: two builds of one commit differ: {built} and {again}. dist holds the first.\n")
        return 1
    name = f"{next(iter(built)).split('-')[0]}-sbom.cdx.json"
    (ROOT / "dist" / name).write_text(make_sbom((ROOT / "requirements.lock").read_text(), version, epoch_s))
    for file, digest in sorted(built.items()):
        sys.stdout.write(f"{digest}  dist/{file}\n")
    sys.stdout.write(f"Built twice with the same digests; the software bill of materials is dist/{name}.\n")
    return 0


def explain_unready(version: str, release: str, day: str | None) -> str | None:
    """Explain why ``version`` is no release yet; None if it is one, or a development version.

    Args:
        version: that of the commit.
        release: the version in the changelog's first heading.
        day: the day in that heading, None if it says that it is not released.
    """
    if version.endswith("+dirty"):
        return "Files differ from those of the tag; commit or restore them."
    if ".dev" in version or (version == release and day is not None):
        return None
    return f"The tag is v{version}, but CHANGELOG.md begins with {release} ({day or 'unreleased'})."


def find_commit_time_s(root: Path) -> int:
    """Find the time of the last commit, or what SOURCE_DATE_EPOCH says, in seconds since the epoch."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return int(given)
    said = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True)
    return int(said.stdout) if said.returncode == 0 and said.stdout.strip() else FALLBACK_EPOCH_S


def build(root: Path, folder: Path, epoch_s: int) -> dict[str, str]:
    """Build wheel and sdist of ``root`` into ``folder``; return their sha256 by file name."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("*.whl"), *folder.glob("*.tar.gz"), *folder.glob("*.cdx.json")]:
        old.unlink()
    env = os.environ | {"SOURCE_DATE_EPOCH": str(epoch_s)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, env=env, check=True, stdout=subprocess.DEVNULL)
    files = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}


def make_sbom(lock: str, version: str, epoch_s: int) -> str:
    """Make the CycloneDX document of ``version`` and its lock.

    Each package has its version, package URL and the digests of its files.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    components = [_make_component(entry) for entry in re.split(r"\n(?=\S)", lock.strip()) if "==" in entry]
    document: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, lock)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "application",
                "bom-ref": project["name"],
                "name": project["name"],
                "version": version,
                "licenses": [{"license": {"id": project["license"]}}],
            },
        },
        "components": components,
    }
    return json.dumps(document, indent=2) + "\n"


def _make_component(entry: str) -> dict[str, Any]:
    found = re.match(r"([\w.-]+)(?:\[.*?\])?==([^\s;\\]+)", entry)
    assert found is not None, entry.splitlines()[0]
    name, version = found.groups()
    purl = f"pkg:pypi/{name.lower()}@{version}"
    # A lock has one digest per file, and CycloneDX one per algorithm of a component: those of files go into properties.
    digests = sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return {
        "type": "library",
        "bom-ref": purl
        if ";" not in entry.splitlines()[0]
        else f"{purl}#{hashlib.sha256(entry.encode()).hexdigest()[:8]}",
        "name": name,
        "version": version,
        "purl": purl,
        "properties": [{"name": "winnow:file:sha256", "value": digest} for digest in digests],
    }


if __name__ == "__main__":
    sys.exit(main())
