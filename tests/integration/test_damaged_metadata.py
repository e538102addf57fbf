"""Damaged metadata: a changed, cut off or missing file gives the right answer or one sentence, never a wrong answer.

A small lake with every kind of file that Winnow keeps is damaged byte by byte, at places and in ways that a seed picks,
and asked what it holds. In most catalogs a metadata file has no checksum in its name, so that is tried, too.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.support.world import TOPIC, World, build_versions, compute_survivors, list_visible_rows, open_world, record
from winnow.errors import DamagedMetadataError, ForeignTableError, ServiceError, WinnowError
from winnow.log import document_copies, file_checksums, quarantine, reference_chains
from winnow.log.manifests import list_live_manifests, list_live_paths
from winnow.log.reference_chains import list_seen_digests
from winnow.log.snapshot_expiry import find_state_path
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.topics.definition import describe_topic

LONG = settings().max_examples >= 1_000
"""``make test-long``: many more places of each file."""
SEED = 20_261_122
RECORDS = [*build_versions(0, 30), *build_versions(0, 30, partition=1)]
MORE = build_versions(30, 3)
KINDS = {
    "metadata": "**/metadata/*.metadata.json",
    "manifest-list": "**/metadata/snap-*.avro",
    "manifest": "**/metadata/*-m*.avro",
    "state": "**/_winnow/state/*.json",
    "receipt": "**/_winnow/receipts/*.json",
    "ledger": "**/_winnow/ingests/*.json",
    "chain": "**/_winnow/chains/*.json",
}
DOCUMENTS = ("state", "receipt", "ledger", "chain")
"""These kinds have a copy of every file."""


@dataclass(frozen=True)
class Refused:
    """What an operation said instead of an answer."""

    problem: WinnowError


class Lake:
    """One topic with some history, and a copy of it to begin again from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.copy = folder / "home", folder / "copy"
        with self.open() as world:
            world.create(2, min_cleanable_dirty_ratio="0", retention_ms="-1", segment_bytes="1000000")
            world.ingest(build_versions(0, 10))
            world.ingest([*build_versions(10, 10), *build_versions(0, 20, partition=1)])
            world.compact()
            world.ingest(build_versions(20, 10))
            world.ingest(build_versions(20, 10, partition=1))
            head = world.head()
            snapshot = head.table.current_snapshot()
            assert snapshot is not None
            named = [head.table.metadata_location, snapshot.manifest_list, find_state_path(head.table, snapshot) or ""]
            named += [each.manifest_path for each in list_live_manifests(head.table.io, snapshot)]
        self.named = {Path(each).name for each in named}
        shutil.copytree(self.home, self.copy)

    def open(self) -> Any:
        """The world as a new process finds it: nothing is remembered from before."""
        return open_world(self.folder)

    def restore(self) -> None:
        """Begin again."""
        shutil.rmtree(self.home)
        shutil.copytree(self.copy, self.home)

    def files(self, kind: str) -> list[Path]:
        """The files of one kind that count now; older metadata and states are named by older snapshots alone."""
        found = sorted((self.home / "warehouse" / "winnow").glob(KINDS[kind]))
        return found if kind in {"receipt", "ledger", "chain"} else [each for each in found if each.name in self.named]

    def locate(self, file: Path) -> tuple[Path, ...]:
        """The file, and its copy if it has one."""
        return (file, *(self.home / "warehouse" / "winnow_copies").glob(f"**/{file.name}"))

    def ask(self, *acts: Callable[[World], object]) -> list[object]:
        """What each of ``acts`` answers, or that it was refused. Anything else that is raised is raised."""
        answers: list[object] = []
        with self.open() as world:
            for act in acts:
                try:
                    answers.append(act(world))
                except WinnowError as problem:
                    answers.append(Refused(problem))
        return answers


def described(world: World) -> object:
    """The topic as it is described; that its configuration differs is said in a notice, and elsewhere refused."""
    found = describe_topic(world.installation, TOPIC)
    if found.notices and "--accept-config" in found.notices[0]:
        world.installation.log.open(TOPIC).config()
    return found.partitions, found.location, found.config, found.states, found.records, found.notices


def assessed(world: World) -> object:
    return assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)


def ingested(world: World) -> object:
    world.ingest(MORE)
    return world.read()


def compacted(world: World) -> object:
    world.compact()
    return world.read()


def looked_back(world: World) -> object:
    """What deciding does not read: receipts, ledgers of ingests, and the chains behind them."""
    log = world.installation.log.open(TOPIC)
    return log.receipts(), list_seen_digests(log.head().state, 0)


LOOKING = (World.read, described, assessed, looked_back)
CHANGING = (ingested, compacted)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            reference_chains, "MAXIMUM_LINK_REFERENCES", 1
        )  # so that there are chains after a handful of commits
        yield Lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def answers(lake: Lake) -> dict[str, object]:
    """What the sound lake answers."""
    found: dict[str, object] = {}
    for act in (*LOOKING, *CHANGING):
        lake.restore()
        (found[act.__name__],) = lake.ask(act)
    lake.restore()
    assert not any(isinstance(each, Refused) for each in found.values())
    return found


def damages(random_one: random.Random, sound: bytes, count: int) -> Iterator[tuple[str, bytes]]:
    """``count`` ways to damage a file."""
    yield "emptied", b""
    for _ in range(count):
        at = random_one.randrange(len(sound))
        match random_one.choice(["flip", "flip", "flip", "byte", "cut", "insert", "zeros"]):
            case "flip":
                bit = 1 << random_one.randrange(8)
                yield f"bit {bit} of byte {at} flipped", sound[:at] + bytes([sound[at] ^ bit]) + sound[at + 1 :]
            case "byte":
                other = random_one.randrange(256)
                yield f"byte {at} made {other}", sound[:at] + bytes([other]) + sound[at + 1 :]
            case "cut":
                yield f"cut off at {at}", sound[:at]
            case "insert":
                yield f"a byte put in at {at}", sound[:at] + bytes([random_one.randrange(256)]) + sound[at:]
            case "zeros":
                end = min(len(sound), at + 64)
                yield f"zeros from {at} to {end}", sound[:at] + bytes(end - at) + sound[end:]


def judge(answer: object, expected: object, what: str) -> bool:
    """Whether it was refused, and in one sentence; an answer has to be the right one."""
    if not isinstance(answer, Refused):
        assert answer == expected, f"{what}: a wrong answer"
        return False
    problem, said = answer.problem, str(answer.problem)
    assert isinstance(problem, DamagedMetadataError | ServiceError | ForeignTableError), f"{what}: {problem!r}"
    assert "\n" not in said, f"{what}: {said}"
    assert "othing was changed" in said or "othing of this call landed" in said, f"{what}: {said}"
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_gives_the_right_answer_or_one_sentence_that_names_it(
    lake: Lake, answers: dict[str, object], kind: str
) -> None:
    """Whatever the damage; and once the file is restored, everything is as it was before."""
    random_one = random.Random(f"{SEED} {kind}")
    files = lake.files(kind)
    assert files, f"the lake has no {kind}"
    refused = 0
    for file in files if LONG else random_one.sample(files, min(2, len(files))):
        sound = file.read_bytes()
        for how, data in damages(random_one, sound, 100 if LONG else 4):
            what = f"{kind} {file.name} ({len(sound)} bytes) {how}"
            if data == sound:
                continue
            places = lake.locate(file)
            assert len(places) == 1 + (kind in DOCUMENTS)
            for place in places:
                place.write_bytes(data)
            for act, answer in zip(LOOKING, lake.ask(*LOOKING), strict=True):
                if judge(answer, answers[act.__name__], f"{what}, {act.__name__}"):
                    refused += 1
                    assert isinstance(answer, Refused)
                    assert file.name in str(answer.problem), f"{what}: {answer.problem}"
            for place in places:
                place.write_bytes(sound)
    assert refused, "no damage was noticed"


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_that_is_damaged_in_one_of_its_two_places_changes_no_answer(
    lake: Lake, answers: dict[str, object], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is read from its copy, which is said with both paths; damage of a copy alone is not looked at."""
    random_one = random.Random(f"{SEED} {kind} one place")
    files = lake.files(kind)
    for file in files if LONG else files[-1:]:
        for place in lake.locate(file):
            sound = file.read_bytes()
            for how, data in damages(random_one, sound, 50 if LONG else 1):
                caplog.clear()
                document_copies.forget_read_from_copies(TOPIC)
                place.write_bytes(data)
                for act, answer in zip(LOOKING, lake.ask(*LOOKING), strict=True):
                    assert answer == answers[act.__name__], f"{kind} {place} {how}, {act.__name__}"
                place.write_bytes(sound)
                said = [each for each in caplog.messages if str(file) in each]
                assert len(said) == (place == file and data != sound)
                assert all(str(other) in each for each in said for other in lake.locate(file))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_committed_on_top_of_damage(lake: Lake, answers: dict[str, object], kind: str) -> None:
    """Ingest and compaction land right or not at all, and the restored lake has what it had."""
    random_one = random.Random(f"{SEED} changing {kind}")
    for act in CHANGING:
        for file in lake.files(kind)[-1:]:
            sound = file.read_bytes()
            *_, (how, data) = damages(random_one, sound, 1)
            places = lake.locate(file)
            for place in places:
                place.write_bytes(data)
            what = f"{kind} {file.name} {how}, {act.__name__}"
            (answer,) = lake.ask(act)
            if judge(answer, answers[act.__name__], what):
                for place in places:
                    place.write_bytes(sound)
                (after,) = lake.ask(World.read)  # an append needs no manifest, so it may have landed
                assert after in (answers["read"], answers[act.__name__]), what
            lake.restore()


def test_a_metadata_file_without_a_checksum_in_its_name_is_not_believed_either(
    lake: Lake, answers: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of catalogs that write it themselves: what Winnow takes from it is checked against the state and itself."""
    genuine = file_checksums.require_checksum
    monkeypatch.setattr(
        file_checksums, "require_checksum", lambda path, data: path.endswith(".json") or genuine(path, data)
    )
    random_one = random.Random(f"{SEED} names")
    (file,) = lake.files("metadata")
    sound = file.read_bytes()
    places = range(0, len(sound), 3) if LONG else sorted(random_one.sample(range(len(sound)), 40))
    refused = 0
    for at in places:
        data = sound[:at] + bytes([sound[at] ^ (1 << random_one.randrange(7))]) + sound[at + 1 :]
        file.write_bytes(data)
        for act, answer in zip(LOOKING, lake.ask(*LOOKING), strict=True):
            refused += judge(answer, answers[act.__name__], f"byte {at}: {data[max(0, at - 40) : at + 20]!r}")
    lake.restore()
    assert refused


def test_a_path_that_leads_to_a_folder_is_damage(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed byte can end a path early: what follows # is no part of it."""
    monkeypatch.setattr(file_checksums, "require_checksum", lambda path, data: None)
    (file,) = lake.files("metadata")
    file.write_bytes(re.sub(rb'("manifest-list":"[^"]*/home)/', rb"\1#", file.read_bytes()))
    (answer,) = lake.ask(World.read)
    lake.restore()
    assert isinstance(answer, Refused)
    assert isinstance(answer.problem, DamagedMetadataError)


@pytest.mark.parametrize("kind", ["metadata", "manifest-list", "manifest"])
def test_every_changed_byte_is_found_before_anything_is_decoded(lake: Lake, kind: str) -> None:
    """What Winnow writes has a checksum in its name."""
    for file in lake.files(kind):
        sound = file.read_bytes()
        file_checksums.require_checksum(str(file), sound)
        for at in range(len(sound)):
            data = sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]
            with pytest.raises(DamagedMetadataError, match=file.name):
                file_checksums.require_checksum(str(file), data)


def test_damaged_metadata_of_the_quarantine_are_named_too(tmp_path: Path) -> None:
    """Its table is PyIceberg's own, whose reader takes a manifest that ends early for a short one."""
    with open_world(tmp_path) as world:
        world.create(1, winnow_keyless="quarantine")
        world.ingest([record(0, None, b"no key"), record(1, b"k", b"v")])
        sound = quarantined(world)
        assert isinstance(sound, list)
        assert len(sound) == 1
        random_one = random.Random(f"{SEED} quarantine")
        for file in sorted((tmp_path / "home" / "warehouse" / "winnow_quarantine").glob("**/metadata/*.avro")):
            content = file.read_bytes()
            for how, data in damages(random_one, content, 15):
                file.write_bytes(data)
                judge(quarantined(world), sound, f"{file.name} {how}")
            file.write_bytes(content)


def test_a_name_in_the_quarantine_that_cannot_be_a_file_of_ours_is_damage_of_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bit that was flipped in a compressed manifest may leave it readable, with other characters in a path."""
    monkeypatch.setattr(
        quarantine, "list_live_paths", lambda *named: [path.replace("-", "\0", 1) for path in list_live_paths(*named)]
    )
    with open_world(tmp_path) as world:
        world.create(1, winnow_keyless="quarantine")
        world.ingest([record(0, None, b"no key")])
        with pytest.raises(DamagedMetadataError, match=r"\.avro"):
            list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state)


def quarantined(world: World) -> object:
    try:
        return list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state).to_pylist()
    except WinnowError as problem:
        return Refused(problem)


def test_the_lake_of_these_tests_is_what_it_should_be(answers: dict[str, object]) -> None:
    assert answers["read"] == [
        *compute_survivors(build_versions(0, 20)),
        *build_versions(20, 10),
        *compute_survivors(build_versions(0, 20, partition=1)),
        *build_versions(20, 10, partition=1),
    ]
    assert answers["compacted"] == compute_survivors(RECORDS)
