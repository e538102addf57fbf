"""Spark with Iceberg's runtime, as ``winnow connect`` tells to start it, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from broker.jars import resolve_jars
from winnow.pipeline.connect.python_programs import SQLITE_JAR
from winnow.pipeline.connect.table_access import ICEBERG_VERSION

RUNTIME = f"org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:{ICEBERG_VERSION}"
PACKAGES_LINE = '    .config("spark.jars.packages", packages)\n'

PASTED_AFTER = """
import json, sys

answers = []
for query in json.load(open(sys.argv[1])):
    rows = [list(row) for row in spark.sql(query).collect()]
    answers.append([[bytes(x).hex() if isinstance(x, (bytes, bytearray)) else x for x in row] for row in rows])
json.dump(answers, open(sys.argv[2], "w"), default=str)
"""


def ask_spark(folder: Path, program: str, queries: Sequence[str]) -> list[list[list[Any]]]:
    """Run ``program`` as it is printed, but for the jars, which come from the user's cache; then the queries."""
    (folder / "queries.json").write_text(json.dumps(list(queries)))
    run_spark(folder, [program, PASTED_AFTER])
    found: list[list[list[Any]]] = json.loads((folder / "answers.json").read_text())
    return found


def run_spark(folder: Path, programs: Iterable[str]) -> str:
    """Run the programs in one process as they are printed, but for the jars; what they print."""
    program = "\n".join(programs)
    assert PACKAGES_LINE in program
    jars = resolve_jars([RUNTIME, SQLITE_JAR], "readers").glob("*.jar")
    listed = ",".join(str(jar) for jar in jars if "slf4j" not in jar.name)
    program = program.replace(PACKAGES_LINE, f'    .config("spark.jars", {listed!r})\n')
    program = program.replace(
        '.appName("winnow")',
        '.appName("winnow").master("local[1]").config("spark.ui.enabled", "false")'
        '.config("spark.sql.shuffle.partitions", "1")',
    )
    (folder / "pasted.py").write_text(program)
    command = [sys.executable, folder / "pasted.py", folder / "queries.json", folder / "answers.json"]
    done = subprocess.run([str(each) for each in command], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[:4000] + done.stderr[-4000:]
    assert "+\n|" in done.stdout, "the program shows rows"
    return done.stdout
