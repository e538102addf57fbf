"""Threads decode documents at the same time, also the first ones of their kinds."""

from __future__ import annotations

import subprocess
import sys

MANY_KINDS_AT_ONCE = """
import sys, threading, types
from winnow.values.documents import load_json

sys.setswitchinterval(1e-6)
FIELDS = "".join(f"    field_{n}: int | None = None\\n" for n in range(20))
CLASS = "@dataclass(frozen=True, slots=True)\\nclass {name}:\\n    parts: dict[int, {part}] | None = None\\n" + FIELDS
LAYERS = [("Inner", "int"), ("Middle", "Inner"), ("Outer", "Middle")]
# Classes that share nested ones, as a plan and a state share segments.
KINDS = [(f"Kind{n}", "Outer") for n in range(6)]
HEAD = "from __future__ import annotations\\nfrom dataclasses import dataclass\\n"
SOURCE = HEAD + "".join(CLASS.format(name=name, part=part) for name, part in LAYERS + KINDS)

document = b'{"parts":{"0":{"parts":{"1":{"parts":{"2":{"field_19":19}}}}}}}'
for number in range(40):
    module = sys.modules[f"kinds{number}"] = types.ModuleType(f"kinds{number}")
    exec(SOURCE, vars(module))
    barrier = threading.Barrier(len(KINDS))

    def run(kind):
        barrier.wait()
        assert load_json(kind, document).parts[0].parts[1].parts[2].field_19 == 19

    threads = [threading.Thread(target=run, args=(getattr(module, name),)) for name, _ in KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("decoded")
"""


def test_the_first_documents_of_several_kinds_are_decoded_at_once() -> None:
    """In a process of its own: a decoder that is not ready keeps every other thread waiting for ever."""
    ended = subprocess.run([sys.executable, "-c", MANY_KINDS_AT_ONCE], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout.strip()) == (0, "decoded"), ended.stderr[-500:]
