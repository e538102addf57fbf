from hypothesis import settings, HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test
from tests.integration import test_state_machine as m
from collections import Counter
seen = Counter()
genuine = m.undo_ingest
def counted(*a):
    try:
        r = genuine(*a); seen["undone"] += 1; return r
    except m.UndoRefusedError as e:
        seen["refused " + str(e).split(": ")[1][:12]] += 1; raise
m.undo_ingest = counted
def test_it():
    try:
        run_state_machine_as_test(m.LogMachine, settings=settings(max_examples=70, stateful_step_count=20, deadline=None, derandomize=False, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink], database=None))
    finally:
        print(seen)
