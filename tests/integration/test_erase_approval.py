"""Erasures that take two persons: nothing is erased before another one approved exactly that, and then only once."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.cli_runner import b64, winnow
from tests.support.erasing import FIRST, GRACE_MS, KEY, SECOND, without
from tests.support.world import TOPIC, FakeClock, World, open_world, record, run_between_head_and_commit
from winnow.clock import DAY_MS, read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.errors import ConfigurationError, EraseRefusedError, PlanVoidError, RunAgainError
from winnow.log.erasures import read_erasures
from winnow.pipeline.erase.approval import find_carried_out, read_plan
from winnow.pipeline.erase.certificate import make_certificate, make_certificate_document
from winnow.pipeline.erase.complete import EraseReport, erase_keys, erase_or_ask
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure
from winnow.pipeline.erase.lift import lift_erasure
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.report.certificate_page import render_certificate
from winnow.store.audit import AuditAction
from winnow.store.erase_requests import RequestedErasure, RequestState, is_same_person
from winnow.store.rows import Window
from winnow.values import documents
from winnow.values.erasures import ErasureDocument

OTHER = b"key-2"
TWO_PERSONS = {"WINNOW_ERASE__APPROVALS": "2"}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two partitions with records of three keys each, where erasures take two persons."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), TWO_PERSONS) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0", segment_ms="1", winnow_retired_grace_ms=str(GRACE_MS))
        opened.ingest(FIRST)
        opened.ingest(SECOND)
        yield opened


def by(world: World, name: str) -> Installation:
    """The installation as somebody has it."""
    return replace(world.installation, actor=name)


def want(*keys: bytes, **options: object) -> EraseRequest:
    wanted = EraseRequest(TOPIC, keys or (KEY,), "request 4711")
    return replace(wanted, **options)  # type: ignore[arg-type]


def ask(world: World, *keys: bytes, **options: object) -> RequestedErasure:
    """Anna asks."""
    asked = erase_or_ask(by(world, "anna"), want(*keys, **options))
    assert isinstance(asked, RequestedErasure)
    return asked


def approve(world: World, asked: RequestedErasure, name: str = "bert", *, approves: bool = True) -> RequestedErasure:
    return world.installation.store.erase_requests.decide(
        asked.request_id, asked.plan_sha256, approves=approves, by=name, why="checked", now_ms=world.clock()
    )


def carry_out(world: World, asked: RequestedErasure, *keys: bytes, **options: object) -> EraseReport:
    """What a DAG run with the request's id does, triggered by who approved it."""
    is_first_try = bool(options.pop("is_first_try", True))
    wanted = want(*keys, request_id=asked.request_id, **options)
    report = erase_or_ask(by(world, "bert"), wanted, is_first_try=is_first_try)
    assert isinstance(report, EraseReport)
    return report


def test_who_asks_erases_nothing_and_says_what_would_go(world: World) -> None:
    before, head = world.read(), world.head()
    plan = read_plan(ask(world))
    assert world.read() == before
    assert world.head().table.metadata_location == head.table.metadata_location
    assert (plan.requested_by, plan.reason, plan.topic) == ("anna", "request 4711", TOPIC)
    assert (plan.keys, plan.keys_found, plan.records, plan.files_total) == (1, 1, 5, 2)
    live = {segment.path: segment.size_bytes for number in (0, 1) for segment in world.segments(number)}
    assert {file.path for file in plan.files} <= set(live)
    assert plan.size_bytes == sum(live[file.path] for file in plan.files)
    assert [(file.place, file.records) for file in plan.files] == [("live", 3), ("live", 2)]


def test_asking_again_makes_no_second_request(world: World) -> None:
    asked = ask(world)
    assert ask(world) == asked
    assert world.installation.store.erase_requests.list_requests(Window(), topic=TOPIC).total == 1
    (entry,) = world.installation.store.audit.list_entries(Window(), action=AuditAction.ERASE_REQUEST).rows
    assert (entry.actor, entry.topic, entry.reason) == ("anna", TOPIC, "request 4711")
    assert entry.detail == f"{asked.request_id}: 1 key, 5 records in 2 files"


def test_what_another_person_approved_is_erased_and_the_certificate_names_both(world: World) -> None:
    before = world.read()
    asked = ask(world)
    approve(world, asked)
    report = carry_out(world, asked, reason="another reason")
    assert world.read() == without(before)
    certificate = make_certificate(world.installation, report.erasure_id)
    (approval,) = certificate.document.approvals
    assert (approval.requested_by, approval.approved_by) == ("anna", "bert")
    assert (approval.request_id, approval.plan_sha256) == (asked.request_id, asked.plan_sha256)
    assert certificate.document.reason == "request 4711"
    page = render_certificate(make_certificate_document(certificate))
    assert "<dt>Asked for by</dt><dd>anna, " in page
    assert "<dt>Approved by</dt><dd>bert, " in page
    found = world.installation.store.erase_requests.find(asked.request_id)
    assert found is not None
    assert (found.state, found.erasure_id) == (RequestState.USED, report.erasure_id)


def test_who_asked_carries_it_out_by_the_same_call_once_it_is_approved(world: World) -> None:
    """At a shell, where keys may have been typed and nobody else has them."""
    approve(world, ask(world))
    report = erase_or_ask(by(world, "anna"), want())
    assert isinstance(report, EraseReport)
    assert report.records == 5
    again = erase_or_ask(by(world, "anna"), want())
    assert isinstance(again, EraseReport)
    assert (again.erasure_id, again.was_erased) == (report.erasure_id, True)


@pytest.mark.parametrize("name", ["anna", "ANNA", "anna@laptop"])
def test_who_asked_may_not_approve(world: World, name: str) -> None:
    """A user of Airflow is nobody else at a shell."""
    asked = ask(world)
    with pytest.raises(EraseRefusedError, match="may not approve"):
        approve(world, asked, name)
    with pytest.raises(EraseRefusedError, match="pending, not approved"):
        carry_out(world, asked)


def test_names_of_one_person_are_told_from_those_of_two() -> None:
    assert is_same_person("anna@a.example", " Anna@b.example")
    assert not is_same_person("anna", "annabel")


def test_erasure_without_a_request_is_refused_wherever_it_begins(world: World) -> None:
    """Not only in the call that asks."""
    before = world.read()
    with pytest.raises(EraseRefusedError, match="takes two persons"):
        erase_keys(world.installation, want())
    assert world.read() == before


def test_request_that_was_rejected_is_not_carried_out_and_asking_again_makes_another(world: World) -> None:
    asked = ask(world)
    approve(world, asked, approves=False)
    with pytest.raises(EraseRefusedError, match="rejected, not approved"):
        carry_out(world, asked)
    assert ask(world).request_id != asked.request_id
    with pytest.raises(EraseRefusedError, match="rejected already"):
        approve(world, asked, "carla")


def test_approval_that_is_taken_back_while_the_erasure_is_at_work_stops_it(world: World) -> None:
    """It is looked at again on each turn, and last before the commit."""
    before = world.read()
    asked = ask(world)
    approve(world, asked)

    def take_back() -> None:
        approve(world, asked, approves=False)
        world.ingest([record(9, b"key-9", b"value")])

    with run_between_head_and_commit(take_back), pytest.raises(EraseRefusedError, match="rejected, not approved"):
        carry_out(world, asked)
    assert world.read() == [*before[:9], record(9, b"key-9", b"value"), *before[9:]]


def test_file_with_other_keys_than_were_approved_is_refused(world: World) -> None:
    """Fewer, more or others; and no request is made in its stead."""
    before = world.read()
    asked = ask(world, KEY, OTHER)
    approve(world, asked)
    for keys in ((KEY,), (KEY, OTHER, b"key-0"), (KEY, b"key-0")):
        with pytest.raises(EraseRefusedError, match="other keys"):
            carry_out(world, asked, *keys)
    assert world.read() == before
    assert world.installation.store.erase_requests.list_requests(Window()).total == 1
    assert carry_out(world, asked, OTHER, KEY).keys == 2


@pytest.mark.parametrize("option", ["with_tombstone", "break_pins"])
def test_other_options_than_were_approved_are_refused(world: World, option: str) -> None:
    asked = ask(world)
    approve(world, asked)
    with pytest.raises(EraseRefusedError, match="other options"):
        carry_out(world, asked, **{option: True})


def test_request_is_approved_and_used_within_seven_days(world: World) -> None:
    asked = ask(world)
    approve(world, asked)
    world.clock.now_ms += 7 * DAY_MS + 1
    with pytest.raises(EraseRefusedError, match="more than 7 days old"):
        carry_out(world, asked)
    another = ask(world)
    assert another.request_id != asked.request_id
    world.clock.now_ms += 7 * DAY_MS + 1
    with pytest.raises(EraseRefusedError, match="more than 7 days old"):
        approve(world, another)


def test_approver_who_was_paused_for_a_week_approves_nothing(world: World) -> None:
    """The time of the decision was read before; what counts is that of the commit."""
    asked = ask(world)
    read_at_ms = world.clock()
    world.clock.now_ms += 7 * DAY_MS + 1
    world.installation.store.erase_requests.decide(
        asked.request_id, asked.plan_sha256, approves=True, by="bert", why="", now_ms=read_at_ms
    )
    with pytest.raises(EraseRefusedError, match="more than 7 days old"):
        carry_out(world, asked)


def test_approval_is_of_the_plan_that_was_seen(world: World) -> None:
    asked = ask(world)
    with pytest.raises(EraseRefusedError, match="no such request"):
        approve(world, replace(asked, plan_sha256="0" * 64))


def test_plan_that_was_changed_in_the_store_is_refused(world: World) -> None:
    asked = ask(world)
    approve(world, asked)
    with closing(sqlite3.connect(world.folder / "home" / "store.db")) as database:
        database.execute("UPDATE winnow_erase_request SET plan = replace(plan, 'anna', 'carla')")
        database.commit()
    with pytest.raises(EraseRefusedError, match="was changed"):
        carry_out(world, asked)


def test_approval_is_used_once(world: World) -> None:
    """The key came again since: a second erasure needs another request."""
    asked = ask(world)
    approve(world, asked)
    report = carry_out(world, asked)
    world.clock.now_ms += 1_000
    world.ingest([record(9, KEY, b"again", world.clock())])
    before = world.read()
    with pytest.raises(EraseRefusedError, match=f"carried out by erasure {report.erasure_id}"):
        carry_out(world, asked)
    assert world.read() == before
    assert ask(world).request_id != asked.request_id


def test_second_run_of_one_approval_that_began_before_the_first_ended_erases_nothing(world: World) -> None:
    """It is told to run again, and finds it done."""
    asked = ask(world)
    approve(world, asked)
    with run_between_head_and_commit(lambda: carry_out(world, asked)), pytest.raises(RunAgainError):
        carry_out(world, asked)
    assert carry_out(world, asked, is_first_try=False).was_erased
    assert len(world.head().state.erasures) == 1


def test_try_that_died_after_its_commit_finds_its_erasure_done_and_completes_it(world: World) -> None:
    """The log says that the approval was used, the store was not told; what came since stays."""
    asked = ask(world)
    approve(world, asked)
    committed = commit_erasure(by(world, "bert"), want(request_id=asked.request_id))
    found = world.installation.store.erase_requests.find(asked.request_id)
    assert found is not None
    assert found.state is RequestState.APPROVED
    world.clock.now_ms += 1_000
    world.ingest([record(9, KEY, b"again", world.clock())])
    report = carry_out(world, asked, is_first_try=False)
    assert (report.erasure_id, report.was_erased, report.deleted) == (committed.erasure_id, True, True)
    assert carry_out(world, asked, is_first_try=False).erasure_id == committed.erasure_id
    assert [each.value for each in world.read() if each.key == KEY] == [b"again"]
    assert len(world.head().state.erasures) == 1


def test_call_whose_files_could_not_be_deleted_yet_goes_on_and_asks_nobody_again(world: World) -> None:
    asked = ask(world)
    approve(world, asked)
    with (
        hold_lease(replace(world.installation, holder="another"), TOPIC),
        pytest.raises(RunAgainError, match="not yet from disk"),
    ):
        carry_out(world, asked)
    world.clock.now_ms += 1_000
    world.ingest([record(9, b"key-9", b"value", world.clock())])
    report = erase_or_ask(by(world, "anna"), want())
    assert isinstance(report, EraseReport)
    assert (report.was_erased, report.deleted) == (True, True)


def test_lifted_erasure_is_asked_for_anew(world: World) -> None:
    asked = ask(world)
    approve(world, asked)
    carry_out(world, asked)
    lift_erasure(world.installation, TOPIC, [KEY], "withdrawn")
    assert ask(world).request_id != asked.request_id


def test_approval_is_gone_with_the_life_of_its_topic(world: World) -> None:
    """Who asked, who approves and who carries it out were all paused while the topic was removed and created again."""
    asked = ask(world)
    approve(world, asked)
    delete_topic(world.installation, TOPIC, now=True)
    world.create(2)
    world.ingest(FIRST)
    with pytest.raises(EraseRefusedError, match="gone if the topic was created again"):
        carry_out(world, asked)
    with pytest.raises(PlanVoidError, match="created again"):
        world.installation.store.erase_requests.open(asked)
    with pytest.raises(EraseRefusedError, match="no such request"):
        approve(world, asked)
    assert world.read() == FIRST


def test_approval_of_an_earlier_life_is_for_other_keys_even_where_its_row_stayed(world: World) -> None:
    asked = ask(world)
    approve(world, asked)
    delete_topic(world.installation, TOPIC, now=True)
    world.create(2)
    world.ingest(FIRST)
    late = replace(asked, table_uuid=world.head().table_uuid, state=RequestState.APPROVED)
    world.installation.store.erase_requests.open(replace(late, decided_by="bert", decided_at_ms=world.clock()))
    with pytest.raises(EraseRefusedError, match="earlier life"):
        carry_out(world, asked)
    assert world.read() == FIRST


def test_request_of_another_topic_is_not_known(world: World) -> None:
    world.create(1, "clicks")
    asked = ask(world)
    approve(world, asked)
    with pytest.raises(EraseRefusedError, match="not known"):
        erase_keys(world.installation, want(topic="clicks", request_id=asked.request_id))


def test_old_requests_go_with_the_history(world: World) -> None:
    asked = ask(world)
    for _ in world.installation.store.history.prune(TOPIC, asked.requested_at_ms + 7 * DAY_MS):
        pass
    assert world.installation.store.erase_requests.find(asked.request_id) == asked
    for _ in world.installation.store.history.prune(TOPIC, asked.requested_at_ms + 7 * DAY_MS + 1):
        pass
    assert world.installation.store.erase_requests.find(asked.request_id) is None


def test_erasure_from_before_there_were_approvals_is_read(world: World) -> None:
    approve(world, ask(world))
    erase_or_ask(by(world, "anna"), want())
    (document,) = read_erasures(world.head().state)
    plain = json.loads(documents.dump_json(document))
    del plain["approvals"]
    older = documents.load_json(ErasureDocument, json.dumps(plain).encode())
    assert older == replace(document, approvals=())
    assert find_carried_out(world.head().state, None) is None


@pytest.mark.parametrize("number", ["0", "3", "two"])
def test_an_erasure_takes_one_person_or_two(tmp_path: Path, number: str) -> None:
    with pytest.raises(ConfigurationError, match=r"erase\.approvals"):
        load_settings(cwd=tmp_path, env={"WINNOW_HOME": str(tmp_path), "WINNOW_ERASE__APPROVALS": number})
    assert load_settings(cwd=tmp_path, env={"WINNOW_HOME": str(tmp_path)}).erase.approvals == 1


def test_no_byte_of_a_key_is_in_store_audit_log_or_request(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """In no encoding in which somebody writes one, and no digest that others could compute."""
    caplog.set_level(logging.DEBUG)
    asked = ask(world)
    approve(world, asked)
    carry_out(world, asked)
    with closing(sqlite3.connect(world.folder / "home" / "store.db")) as database:
        dump = "\n".join(database.iterdump())
    assert asked.request_id in dump
    encoded = base64.b64encode(KEY).decode()
    for word in (KEY.decode(), KEY.hex(), encoded, hashlib.sha256(KEY).hexdigest()):
        assert word not in f"{dump}{caplog.text}{asked}"


def test_commands_ask_approve_and_erase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As two users of the operating system; without erase.shell_approval only the page approves."""
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WINNOW_ERASE__APPROVALS", "2")
    monkeypatch.setenv("LOGNAME", "anna")
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "in.jsonl"
    rows = [{"partition": 0, "offset": n, "timestamp": 1, "key": b64(f"k{n}"), "value": b64("v")} for n in range(3)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    winnow("topics", "create", "orders", "--partitions", 1)
    winnow("ingest", "files", "orders", source)
    call = ("erase", "orders", "--key", "k1", "--reason", "request 1")
    assert "Nobody asked" in winnow("erase", "requests").stdout
    told = winnow(*call).stdout
    assert "Nothing was erased" in told
    assert "tab Erasures" in told
    assert "winnow erase approve" not in told
    asked = winnow(*call, "--json").document
    request_id = asked["request_id"]
    assert (asked["state"], asked["records"], asked["requested_by"].partition("@")[0]) == ("pending", 1, "anna")
    monkeypatch.setenv("LOGNAME", "bert")
    assert "erase.shell_approval" in winnow("erase", "approve", request_id, code=2).stderr
    monkeypatch.setenv("WINNOW_ERASE__SHELL_APPROVAL", "true")
    monkeypatch.setenv("LOGNAME", "anna")
    assert f"winnow erase approve {request_id}" in winnow(*call).stdout
    assert "may not approve" in winnow("erase", "approve", request_id, code=2).stderr
    assert "no request" in winnow("erase", "approve", "abc", code=2).stderr
    monkeypatch.setenv("LOGNAME", "bert")
    assert "Approved" in winnow("erase", "approve", request_id, "--reason", "checked").stdout
    assert winnow("erase", "requests", "orders", "--json").document[0]["state"] == "approved"
    monkeypatch.setenv("LOGNAME", "anna")
    done = winnow(*call, "--json").document
    assert (done["records"], done["deleted"]) == (1, True)
    shown = winnow("erase", "certificate", done["erasure_id"]).stdout
    assert "Asked for by anna@" in shown
    assert "approved by bert@" in shown
    assert done["erasure_id"] in winnow("erase", "requests").stdout
    another = winnow("erase", "orders", "--key", "k2", "--reason", "request 2", "--json").document["request_id"]
    assert "Rejected" in winnow("erase", "reject", another).stdout
    (newest, *_) = winnow("erase", "requests", "--json").document
    assert (newest["state"], newest["decided_by"].partition("@")[0]) == ("rejected", "anna")
    with open_installation(load_settings(), to_read=True) as opened:
        actions = [each.action for each in opened.store.audit.list_entries(Window(), topic="orders").rows]
    assert {"erase_request", "erase_approve", "erase_reject", "erase"} <= set(actions)
