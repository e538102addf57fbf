"""The certificate of an erasure: what it names, when it is closed, and how a changed one is found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from tests.support.erasing import (
    FIRST,
    GRACE_MS,
    KEY,
    SECOND,
    certify,
    compact,
    define_erasing_world,
    erase,
    list_holding,
    list_staged,
    without,
)
from tests.support.world import (
    TOPIC,
    World,
    open_world,
    record,
    run_between_head_and_commit,
)
from winnow.engine.read_plans import locate_read_files
from winnow.errors import (
    ConfigurationError,
    DamagedMetadataError,
    UsageError,
)
from winnow.files import storage
from winnow.log.head import Change
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.erase.certificate import Certificate, make_certificate, make_certificate_document
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.erase.lift import lift_erasure
from winnow.pipeline.erase.outside import list_outside_places
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.recovery import recover_topic
from winnow.report.certificate_page import render_certificate

world = define_erasing_world()
"""Two partitions with records of three keys each."""


def replace_counts(found: Certificate, tombstones: int) -> object:
    assert found.verified is not None
    return replace(found.verified, old_records=0, later_records=0, tombstones=tombstones)


def test_certificate_stays_open_until_the_files_of_earlier_runs_were_looked_for_twice(world: World) -> None:
    """A Spark task that goes on after the commit writes a file with the key: it is found, and only then it ends."""
    with hold_lease(world.installation, TOPIC):
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        kept = {path: (world.folder / "home" / "warehouse" / path).read_bytes() for path in list_staged(world)}
    assert kept
    report = erase(world)
    assert not report.closed
    for path, data in kept.items():
        late = world.folder / "home" / "warehouse" / path
        late.parent.mkdir(parents=True, exist_ok=True)
        late.write_bytes(data)
    for _ in range(3):
        assert certify(world, report).open_because is not None
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    assert list_holding(world, KEY) == []
    assert certify(world, report).open_because is None


def test_certificate_stays_open_while_an_ingest_from_before_is_at_work(world: World) -> None:
    """It was opened just before the commit, which did not know of it yet, and may write what it had read by then."""
    ingests = world.installation.store.ingests

    def open_call() -> None:
        state = world.head().state
        ingests.open("ab" * 16, TOPIC, least_number=state.first_valid_ingest, holder="elsewhere", now_ms=world.clock())

    with run_between_head_and_commit(open_call):
        report = erase(world)
    assert not report.closed
    ingests.close(["ab" * 16])
    sweep_topics(world.installation, [TOPIC])
    assert certify(world, report).open_because is None


def test_certificate_with_a_tombstone_is_open_until_it_is_erased_as_well(world: World) -> None:
    report = erase(world, with_tombstone=True)
    assert "key bytes remain" in (certify(world, report).open_because or "")
    assert certify(world, report, verify=True).verified == replace_counts(certify(world, report, verify=True), 2)
    again = erase(world)
    assert (again.was_erased, again.tombstones) == (False, 0)
    assert list_holding(world, KEY) == []
    assert (certify(world, report).open_because, certify(world, again).open_because) == (None, None)


def test_row_of_the_latest_state_at_the_offset_of_a_tombstone_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of an erased key may be in that table, where tombstones have no rows."""
    alter_topic(world.installation, TOPIC, {"winnow.latest.table": "true"}, [])
    update_latest_table(world.installation, TOPIC)
    monkeypatch.setattr("winnow.pipeline.latest.table._has_new_tombstones", lambda state, earlier: False)
    report = erase(world, with_tombstone=True)
    verified = certify(world, report, verify=True).verified
    assert verified is not None
    assert (verified.old_records, verified.tombstones) == (2, 2)


def test_erasures_name_one_another_and_a_changed_one_is_found(world: World) -> None:
    first, second = erase(world, b"key-1"), erase(world, b"key-2")
    found = certify(world, second)
    assert (found.number, found.chain_length) == (2, 2)
    assert found.document.previous == certify(world, first).sha256
    for path in (world.folder / "home").rglob(f"{first.erasure_id}-*.json"):
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "reason": "another"}))
    with pytest.raises(DamagedMetadataError):
        certify(world, second)


def test_erasure_that_does_not_name_the_one_before_is_found(world: World) -> None:
    erase(world, b"key-1")
    report = erase(world, b"key-2")
    log = world.installation.log.open(TOPIC)
    log.commit(lambda head: Change(state=replace(head.state, erasures=head.state.erasures[1:]), summary={}))
    with pytest.raises(DamagedMetadataError, match="chain of erasures"):
        certify(world, report)


@pytest.mark.parametrize("place", ["/winnow/", "/winnow_copies/"])
def test_erasures_are_known_again_after_a_state_was_rebuilt(world: World, place: str) -> None:
    """The states are gone, and the erasures' documents are in one of their two places."""
    first, second = erase(world, b"key-1"), erase(world, b"key-2")
    for path in (world.folder / "home" / "warehouse").rglob("*.json"):
        is_document = f"/{TOPIC}-" in str(path) and path.parent.name in {"state", "erasures"}
        is_kept = path.parent.name == "erasures" and place in str(path)
        if is_document and not is_kept:
            path.unlink()
    recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    assert [each.erasure_id for each in world.head().state.erasures] == [first.erasure_id, second.erasure_id]
    report = world.ingest([record(20, KEY, b"old copy"), record(21, b"other", b"x")])
    assert (report.records_appended, report.records_erased) == (1, 1)
    sweep_topics(world.installation, [TOPIC])
    assert certify(world, second).open_because is None


def test_backup_that_was_made_since_knows_the_erasure(world: World) -> None:
    """The secret is in no backup: whoever restores one brings it along."""
    report = erase(world)
    create_backup(world.installation, str(world.folder / "backup"))
    home = world.folder / "home"
    secret = world.installation.settings.erase.hmac_key_file.read_text()
    assert list_holding(world, secret.strip().encode()) == [str(home / "erase.secret")]
    home.rename(world.folder / "aside")
    home.mkdir()
    shutil.copytree(world.folder / "aside" / "erasures", home / "erasures")
    with open_world(world.folder, world.clock) as restored:
        restore_backup(restored.installation, str(world.folder / "backup"))
        with pytest.raises(ConfigurationError, match="erase"):
            restored.ingest([record(9, KEY, b"old copy")])
        restored.installation.settings.erase.hmac_key_file.write_text(secret)
        assert restored.ingest([record(9, KEY, b"old copy")]).records_erased == 1
        assert certify(restored, report, verify=True).open_because is None
        assert restored.read() == without([*FIRST, *SECOND])


def test_old_record_that_is_back_is_found_by_a_verification(world: World) -> None:
    report = erase(world)
    assert certify(world, report, verify=True).verified == replace_counts(certify(world, report, verify=True), 0)
    lift_erasure(world.installation, TOPIC, [KEY], "a mistake")
    world.ingest([record(9, KEY, b"old copy", 1_000)])
    verified = certify(world, report, verify=True).verified
    assert verified is not None
    assert (verified.old_records, verified.later_records) == (1, 0)


def test_certificate_names_every_file_that_held_the_key_and_says_that_it_is_gone(world: World) -> None:
    compact(world)
    found = certify(world, erase(world))
    assert sorted((each.file.place, each.file.records, each.is_gone) for each in found.files) == [
        ("live", 1, True),
        ("live", 1, True),
        ("retired", 2, True),
        ("retired", 3, True),
    ]
    assert all(each.deleted_at_ms is not None and len(each.file.sha256) == 64 for each in found.files)
    assert {each.answer for each in found.files} == {"no such file"}
    assert [each.file.since_ingest is None for each in found.files] == [True, True, False, False]
    assert found.document.scan is not None
    assert found.document.scan.files == 4


def test_certificate_names_what_was_not_reached(world: World) -> None:
    create_backup(world.installation, str(world.folder / "backup"))
    said = " ".join(certify(world, erase(world)).document.outside)
    assert f"What was ingested into {TOPIC}" in said
    assert "A backup (" in said
    assert f"{world.folder}/backup" in said
    assert "Earlier versions" not in said


def test_certificate_names_what_a_killed_reading_left_of_this_topic_alone(world: World) -> None:
    """Its files hold records, and nothing of ours knows whether the reading still works."""
    staging = world.installation.settings.staging
    left = storage.join(locate_read_files(staging, TOPIC, "p-1"), "part-000000.parquet.x")
    for uri in (left, storage.join(locate_read_files(staging, f"{TOPIC}s", "p-2"), "part-000000.parquet.x")):
        storage.write_bytes(uri, b"records")
    said = " ".join(certify(world, erase(world)).document.outside)
    assert f"({left.rpartition('/')[0]})" in said
    assert said.count("Files of a reading on Spark") == 1


def test_certificate_says_that_a_person_declared_what_the_store_cannot_say(world: World) -> None:
    settings = world.installation.settings
    declared = settings.erase.model_copy(update={"trust_bucket_deletes": True})
    changed = settings.model_copy(update={"warehouse": "gs://bucket/lake", "erase": declared})
    places = list_outside_places(replace(world.installation, settings=changed), world.head().state)
    assert any(place.startswith("Earlier versions of the deleted objects") for place in places)


def test_page_to_print_shows_what_a_person_typed_as_text(world: World) -> None:
    report = erase_keys(world.installation, EraseRequest(TOPIC, [KEY], "<script>alert(1)</script> & more", True))
    page = render_certificate(make_certificate_document(certify(world, report, verify=True)))
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "<script" not in page
    assert "Open: key bytes remain in 2 tombstones" in page
    assert page.count("<tr><td>live</td>") == 2


def test_unknown_erasure_is_a_usage_error(world: World) -> None:
    with pytest.raises(UsageError, match="no erasure"):
        make_certificate(world.installation, "abcdef")
