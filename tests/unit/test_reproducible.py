"""What fails once fails again: the examples of `make test` are fixed, those of `make test-long` come from a seed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import Phase, settings

UNSEEDED = re.compile(
    r"os\.urandom|secrets\.token|SystemRandom|Random\(\)|default_rng\(\)|RandomState\(\)"
    r"|(?<![\w.])random\.(?!Random\b)[a-z]\w*\(|np\.random\.(?!default_rng\b)[a-z]\w*\("
)


def test_make_test_tries_the_same_examples_every_time_and_shrinks_none() -> None:
    """Nothing of an earlier run is remembered, and a failure costs no minutes."""
    quick = settings.get_profile("quick")
    assert (quick.derandomize, quick.database, quick.print_blob) == (True, None, True)
    assert Phase.shrink not in quick.phases


def test_make_test_long_tries_new_examples_and_shrinks_what_it_finds() -> None:
    """Without a database, so that its seed says everything."""
    long = settings.get_profile("long")
    assert (long.derandomize, long.database, long.max_examples) == (False, None, 2_000)
    assert Phase.shrink in long.phases


@pytest.mark.parametrize("seed", ["", "7"])
def test_make_test_long_prints_the_seed_that_repeats_it(root: Path, tmp_path: Path, seed: str) -> None:
    """A new one, or the one that is asked for; pytest gets the same."""
    seen = tmp_path / "test_seen.py"
    seen.write_text("def test_seen(pytestconfig):\n    print('given', pytestconfig.getoption('hypothesis_seed'))\n")
    made = subprocess.run(
        ["make", "--no-print-directory", "test-long", f"LONG=-s {seen}", f"SEED={seed}"],
        cwd=root, env={**os.environ, "MAKEFLAGS": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    said, given = made.stdout.splitlines()[:2]
    chosen = said.removeprefix("Again with these examples: make test-long SEED=")
    assert given == f"given {chosen}"
    assert chosen == seed if seed else re.fullmatch(r"20\d{12}", chosen)


def test_no_test_draws_random_numbers_without_a_seed(root: Path) -> None:
    """Names and passwords of services that a test starts may be new each time; what it compares may not."""
    found = [
        f"{path.relative_to(root)}: {line.strip()}"
        for path in sorted((root / "tests").rglob("*.py"))
        for line in path.read_text().splitlines()
        if UNSEEDED.search(line) and path.name != Path(__file__).name
    ]
    assert found == []
