"""Which arriving records of erased keys are old copies."""

from __future__ import annotations

import hmac
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.arrivals.erased_records import ErasedRecords, list_lifted_keys, select_counting_erasures
from winnow.errors import BadInputError
from winnow.files.record_batch import RECORD_SCHEMA
from winnow.values.erasures import ErasureDocument, KeyDigester, compute_key_id, decode_digests, encode_digests

SECRET = b"a secret of sixteen bytes or more"
DIGESTER = KeyDigester(SECRET, "a table")
ENDS = {0: 10, 1: 5}
AT_MS = 1_000
KEYS = (b"", b"a", b"b", b"\x00a")
ERASED = (b"", b"a")


def make_erasure(*keys: bytes, at_ms: int = AT_MS, lifts: bool = False, name: str = "one") -> ErasureDocument:
    return ErasureDocument(
        erasure_id=name,
        topic="orders",
        table_uuid="a table",
        at_ms=at_ms,
        by="a test",
        reason="asked for",
        key_id=compute_key_id(SECRET),
        keys=len(keys),
        keys_found=len(keys),
        hashes=encode_digests(map(DIGESTER.compute, keys)),
        ends=ENDS,
        lifts=lifts,
    )


def open_erased(*erasures: ErasureDocument) -> ErasedRecords:
    return ErasedRecords(DIGESTER, select_counting_erasures(erasures or [make_erasure(*ERASED)]))


def make_batch(*rows: dict[str, Any]) -> pa.RecordBatch:
    blank = dict.fromkeys(RECORD_SCHEMA.names)
    numbered = [{**blank, "row": number, "partition": 0, **row} for number, row in enumerate(rows, 1)]
    return pa.RecordBatch.from_pylist(numbered, RECORD_SCHEMA)


rows_of_any_kind = st.fixed_dictionaries(
    {
        "partition": st.sampled_from([0, 1, 2]),
        "offset": st.none() | st.integers(0, 12),
        "timestamp": st.integers(AT_MS - 2, AT_MS + 2),
        "key": st.none() | st.sampled_from(KEYS),
        "value": st.none() | st.binary(max_size=2),
    }
)


@given(st.lists(rows_of_any_kind, max_size=30))
def test_old_copies_and_nothing_else_are_left_out_and_counted(rows: list[dict[str, Any]]) -> None:
    batch, erased = make_batch(*rows), open_erased()
    old = [
        row["key"] in ERASED
        and (row["timestamp"] <= AT_MS or (row["offset"] is not None and row["offset"] < ENDS.get(row["partition"], 0)))
        for row in rows
    ]
    kept = erased.remove(batch, "a.jsonl")
    assert kept.to_pylist() == [row for row, is_old in zip(batch.to_pylist(), old, strict=True) if not is_old]
    assert erased.total == sum(old)
    partitions = {row["partition"] for row, is_old in zip(rows, old, strict=True) if is_old}
    assert set(erased.counts) == partitions


def test_reading_again_counts_anew() -> None:
    erased = open_erased()
    for _ in range(2):
        erased.restart()
        erased.remove(make_batch({"key": b"a", "offset": 3}), "a.jsonl")
        assert erased.total == 1


@pytest.mark.parametrize(("needs_timestamps", "offset"), [(False, None), (True, 10), (True, None)])
def test_record_that_may_be_old_is_refused_without_a_word_of_its_key(
    needs_timestamps: bool, offset: int | None
) -> None:
    erased = replace(open_erased(make_erasure(b"mary")), needs_timestamps=needs_timestamps)
    batch = make_batch({"key": b"x"}, {"key": b"mary", "offset": offset, "value": b"secret value"})
    with pytest.raises(BadInputError, match=r"a\.jsonl, row 2 \(partition 0.*no timestamp") as refused:
        erased.remove(batch, "a.jsonl")
    assert not {"mary", "secret value"} & set(str(refused.value).split())


@pytest.mark.parametrize("needs_timestamps", [True, False])
def test_record_below_the_log_end_is_old_without_a_time(needs_timestamps: bool) -> None:
    erased = replace(open_erased(), needs_timestamps=needs_timestamps)
    assert erased.remove(make_batch({"key": b"a", "offset": 9}), "a.jsonl").num_rows == 0


def test_of_another_topic_the_time_alone_tells() -> None:
    elsewhere = open_erased().ignore_offsets()
    rows = [{"key": b"a", "offset": 3, "timestamp": time_ms} for time_ms in (AT_MS, AT_MS + 1)]
    assert elsewhere.remove(make_batch(*rows), "a").column("timestamp").to_pylist() == [AT_MS + 1]
    with pytest.raises(BadInputError, match="no timestamp"):
        elsewhere.remove(make_batch({"key": b"a", "offset": 3}), "a")


def test_newest_erasure_of_a_key_counts_unless_it_was_lifted_since() -> None:
    first, second = make_erasure(b"a", b"b"), make_erasure(b"a", at_ms=2_000, name="two")
    lifted = make_erasure(b"b", lifts=True, name="three")
    counting = select_counting_erasures([first, second, lifted])
    assert counting == {DIGESTER.compute(b"a"): second}
    assert list_lifted_keys([first, second, lifted]) == {DIGESTER.compute(b"b")}
    again = make_erasure(b"b", name="four")
    assert list_lifted_keys([first, second, lifted, again]) == set()
    assert select_counting_erasures([first, second, lifted, again])[DIGESTER.compute(b"b")] == again


@pytest.mark.parametrize("secret_bytes", [16, 63, 64, 65, 300])
def test_digest_of_a_key_is_the_hmac_of_life_and_key(secret_bytes: int) -> None:
    """Shorter and longer secrets than a block of the hash."""
    secret = bytes(range(7, 7 + 50)) * 6
    digester = KeyDigester(secret[:secret_bytes], "life")
    for key in (b"", b"key", b"\xff" * 1_000, b"key"):
        wanted = hmac.digest(secret[:secret_bytes], b"\0\0\0\4life" + key, "sha256")
        assert digester.compute(key) == wanted


def test_digests_tell_apart_lives_and_secrets_and_where_a_life_s_name_ends() -> None:
    digesters = [KeyDigester(SECRET, "life"), KeyDigester(SECRET, "lif"), KeyDigester(SECRET[::-1], "life")]
    digests = {each.compute(key) for each in digesters for key in (b"", b"e", b"ee", b"life")}
    assert len(digests) == 12
    assert decode_digests(encode_digests(digests)) == sorted(digests)
