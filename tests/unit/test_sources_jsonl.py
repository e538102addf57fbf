"""JSON lines: what is taken, what is refused and in which words, and that it streams."""

from __future__ import annotations

import base64
import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from winnow.errors import BadInputError
from winnow.files.partitioner import choose_partition
from winnow.files.record_batch import MAXIMUM_BATCH_ROWS, MAXIMUM_TIMESTAMP_MS, RECORD_SCHEMA
from winnow.sources.layouts.winnow.files import read_file
from winnow.sources.layouts.winnow.line_faults import find_fault
from winnow.sources.topic_filter import TopicFilter

GOOD = '{"partition":1,"offset":7,"key":"YQ==","value":"Yg=="}'


def rows(path: Path, *, partitions: int = 4, batch_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    """All records of a file, with the names and types of the arriving schema."""
    batches = list(read_file(str(path), topic="orders", partitions=partitions, batch_bytes=batch_bytes))
    found: list[dict[str, Any]] = pa.Table.from_batches(batches, RECORD_SCHEMA).to_pylist()
    return found


def one(tmp_path: Path, **fields: object) -> dict[str, Any]:
    """The record that one line of these fields becomes."""
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"partition": 0, "key": None, "value": None} | fields))
    (row,) = rows(path)
    return row


def refusal(path: Path, **how: Any) -> str:
    """The message with which a file is refused."""
    with pytest.raises(BadInputError) as refused:
        rows(path, **how)
    assert refused.value.exit_code == 3
    assert refused.value.left == "Nothing of this call landed."
    return str(refused.value.with_left(""))


# ------------------------------------------------------------------------------------------------------- what is taken


def test_record_with_every_field_arrives_as_written(tmp_path: Path) -> None:
    """Bytes are decoded, names and numbers kept, the line number noted."""
    path = tmp_path / "all.jsonl"
    path.write_text(
        '{"partition": 0, "offset": 12, "timestamp": 1700000000123, "timestampType": 1, "key": "YWJj", "value": "AP8="'
        ', "headers": [{"key": "version", "value": "AAAAAAAAAAE="}], "topic": "orders"}\n'
    )
    assert rows(path) == [
        {
            "row": 1,
            "partition": 0,
            "offset": 12,
            "timestamp": 1700000000123,
            "timestampType": 1,
            "key": b"abc",
            "value": b"\x00\xff",
            "headers": [{"key": "version", "value": b"\x00\x00\x00\x00\x00\x00\x00\x01"}],
        }
    ]


def test_record_with_key_and_value_alone_gets_the_defaults(tmp_path: Path) -> None:
    """No offset, no timestamp, create time, no headers, and the partition of Kafka's default partitioner."""
    path = tmp_path / "least.jsonl"
    path.write_text('{"key":"Zm9vYmFy","value":"Yg=="}')
    (row,) = rows(path, partitions=1000)
    assert row == {
        "row": 1,
        "partition": choose_partition(b"foobar", 1000),
        "offset": None,
        "timestamp": None,
        "timestampType": 0,
        "key": b"foobar",
        "value": b"b",
        "headers": None,
    }


def test_null_key_empty_key_null_value_and_empty_value_differ(tmp_path: Path) -> None:
    """A tombstone is not an empty value, and an empty key is a key."""
    assert (one(tmp_path)["key"], one(tmp_path)["value"]) == (None, None)
    row = one(tmp_path, key="", value="")
    assert (row["key"], row["value"]) == (b"", b"")


def test_empty_key_gets_a_partition_and_no_key_gets_none(tmp_path: Path) -> None:
    """Only a keyless record that names no partition stays without."""
    path = tmp_path / "keys.jsonl"
    path.write_text('{"key":"","value":null}\n{"key":null,"value":null}\n')
    assert [row["partition"] for row in rows(path)] == [choose_partition(b"", 4), None]


def test_absent_null_and_empty_headers_are_kept_apart(tmp_path: Path) -> None:
    """No headers and null are the same; an empty list stays one."""
    assert one(tmp_path)["headers"] is None
    assert one(tmp_path, headers=None)["headers"] is None
    assert one(tmp_path, headers=[])["headers"] == []


def test_headers_keep_order_repeated_names_and_null_values(tmp_path: Path) -> None:
    """Kafka's headers are a list, not a map."""
    headers = [{"key": "a", "value": None}, {"key": "", "value": ""}, {"key": "a", "value": "Yg=="}]
    taken = one(tmp_path, headers=headers)["headers"]
    assert taken == [{"key": "a", "value": None}, {"key": "", "value": b""}, {"key": "a", "value": b"b"}]


@pytest.mark.parametrize("written", [None, -1])
def test_null_and_minus_one_mean_no_timestamp(tmp_path: Path, written: int | None) -> None:
    """-1 is Kafka's word for a record without timestamp."""
    assert one(tmp_path, timestamp=written)["timestamp"] is None


def test_numbers_at_their_limits_are_taken(tmp_path: Path) -> None:
    """The highest offset is that of a signed 64-bit number, the highest timestamp that of 64-bit microseconds."""
    row = one(tmp_path, partition=3, offset=2**63 - 1, timestamp=MAXIMUM_TIMESTAMP_MS, timestampType=-1)
    assert (row["offset"], row["timestamp"], row["timestampType"]) == (2**63 - 1, MAXIMUM_TIMESTAMP_MS, -1)
    assert one(tmp_path, offset=0, timestamp=0)["offset"] == 0


def test_blank_lines_are_passed_over_but_counted(tmp_path: Path) -> None:
    """Line numbers are those an editor shows; Windows line ends and a missing last one are fine."""
    path = tmp_path / "blank.jsonl"
    path.write_bytes(f"\n{GOOD}\r\n  \t\r\n\n{GOOD}".encode())
    assert [row["row"] for row in rows(path)] == [2, 5]


def test_escaped_characters_mean_what_they_stand_for(tmp_path: Path) -> None:
    """Some writers escape the slash or the equals sign of base64, and header names may hold quotation marks."""
    path = tmp_path / "escaped.jsonl"
    path.write_text(r'{"k\u0065y":"\/\/79\u0050Q\u003d\u003D","value":null,"headers":[{"key":"\"=\"","value":"Yg=="}]}')
    (row,) = rows(path)
    assert (row["key"], row["headers"]) == (b"\xff\xfe\xfd=", [{"key": '"="', "value": b"b"}])


@pytest.mark.parametrize("name", ["a=", "=", "==", "A==", "é", "\x00", '":"', "\\"])
def test_any_header_name_is_taken(tmp_path: Path, name: str) -> None:
    """Names that look like the end of base64 or like fields are names."""
    assert one(tmp_path, headers=[{"key": name, "value": None}])["headers"] == [{"key": name, "value": None}]


def test_jsonl_json_and_gzip_of_several_members_hold_the_same_records(tmp_path: Path) -> None:
    """Sinks append gzip members to one file."""
    lines = [GOOD.replace("7", str(offset)) + "\n" for offset in range(7, 10)]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    (tmp_path / "a.json").write_text("".join(lines))
    (tmp_path / "a.jsonl.gz").write_bytes(b"".join(gzip.compress(line.encode()) for line in lines))
    assert [row["offset"] for row in rows(tmp_path / "a.jsonl")] == [7, 8, 9]
    assert rows(tmp_path / "a.jsonl") == rows(tmp_path / "a.json") == rows(tmp_path / "a.jsonl.gz")


@pytest.mark.parametrize("text", ["", "\n", "\n \n\r\n"])
def test_file_without_records_gives_no_batch(tmp_path: Path, text: str) -> None:
    """An empty partition makes an empty file; that is no mistake."""
    path = tmp_path / "empty.jsonl"
    path.write_text(text)
    assert list(read_file(str(path), topic="orders", partitions=1)) == []


# ----------------------------------------------------------------------------------------------------- what is refused

AT = " (partition 1, offset 7)"


@pytest.mark.parametrize(
    ("line", "where", "said"),
    [
        ('{"partition":1,"offset":7,"key":"YQ=="}', AT, "value is missing. Write null for a tombstone"),
        ('{"partition":1,"offset":7,"value":"YQ=="}', AT, "key is missing. Write null for a record without a key"),
        ('{"key":null,"value":null,"Offset":7}', "", "field 'Offset' is not known. The fields are partition, offset"),
        ('{"key":null,"value":null,"key":null,"offset":7}', " (offset 7)", "field 'key' is there twice"),
        ('{"key":null,"value":null,"offset":7,"offset":null}', "", "field 'offset' is there twice"),
        ('{"key":null,"value":null,"\\u0076alue":null}', "", "field 'value' is there twice"),
        ('{"key":null,"value":"Y' + '"}', "", "value is not base64. Write its bytes in standard base64 with padding"),
        (GOOD.replace("YQ==", "YQ"), AT, "key is not base64"),
        (GOOD.replace("YQ==", "YR=="), AT, "key is not base64"),
        (GOOD.replace("Yg==", "YWJ="), AT, "value is not base64"),
        (GOOD.replace("YQ==", "YR\\u003d="), AT, "key is not base64"),
        (GOOD.replace("YQ==", "-_-_"), AT, "key is not base64"),
        (GOOD.replace("YQ==", "YQ==YQ=="), AT, "key is not base64"),
        (GOOD.replace("YQ==", " YQ=="), AT, "key is not base64"),
        (GOOD.replace("YQ==", "YQ==\\n"), AT, "key is not base64"),
        (GOOD.replace('"YQ=="', "1"), AT, "key is not base64"),
        (GOOD.replace('"YQ=="', '{"a":1}'), AT, "key is not base64"),
        (GOOD.replace("7", '"7"'), " (partition 1)", "offset is not a whole number but a string"),
        (GOOD.replace("7", "7.0"), " (partition 1)", "offset is not a whole number but a number with a fraction"),
        (GOOD.replace("7", "7e0"), " (partition 1)", "offset is not a whole number but a number with a fraction"),
        (GOOD.replace("7", "true"), " (partition 1)", "offset is not a whole number but true or false"),
        (GOOD.replace("7", "[7]"), " (partition 1)", "offset is not a whole number but a list"),
        (GOOD.replace("7", "-1"), " (partition 1)", "offset is below what it can be"),
        (GOOD.replace("7", str(2**63)), " (partition 1)", "offset is above what it can be"),
        (GOOD.replace("7", "9" * 5000), " (partition 1)", "offset is above what it can be"),
        (
            GOOD.replace(":1", ":-1"),
            " (offset 7)",
            "partition is below what it can be. Topic orders has 4, numbered from 0",
        ),
        (
            GOOD.replace(":1", ":4"),
            " (offset 7)",
            "partition is above what it can be. Topic orders has 4, numbered from 0",
        ),
        (GOOD.replace(":1", f":{2**31}"), " (offset 7)", "partition is above what it can be"),
        (GOOD.replace(":1", ":false"), " (offset 7)", "partition is not a whole number but true or false"),
        (GOOD[:-1] + ',"timestamp":-2}', AT, "timestamp is below what it can be"),
        (GOOD[:-1] + f',"timestamp":{MAXIMUM_TIMESTAMP_MS + 1}}}', AT, "timestamp is above what it can be"),
        (GOOD[:-1] + ',"timestamp":"2024-01-01"}', AT, "timestamp is not a whole number but a string"),
        (GOOD[:-1] + ',"timestampType":2}', AT, "timestampType is above what it can be. Write 0 (create time)"),
        (GOOD[:-1] + ',"timestampType":-2}', AT, "timestampType is below what it can be"),
        (GOOD[:-1] + ',"headers":{}}', AT, "headers is not a list"),
        (GOOD[:-1] + ',"headers":[null]}', AT, "header 1 is not an object"),
        (GOOD[:-1] + ',"headers":[{"value":null}]}', AT, "header 1 has no key that is a string"),
        (GOOD[:-1] + ',"headers":[{"key":null,"value":null}]}', AT, "header 1 has no key that is a string"),
        (GOOD[:-1] + ',"headers":[{"key":"\\ud800","value":null}]}', AT, "header 1 has no key that is a string"),
        (GOOD[:-1] + ',"headers":[{"key":"a","value":null},{"key":"b"}]}', AT, "header 2 has no value. Write null"),
        (GOOD[:-1] + ',"headers":[{"key":"a","value":"YR=="}]}', AT, "the value of header 1 is not base64"),
        (GOOD[:-1] + ',"headers":[{"key":"a","value":null,"b":1}]}', AT, "header 1 has the field 'b'"),
        (GOOD[:-1] + ',"headers":[{"key":"a","key":"a","value":null}]}', AT, "header 1 has field 'key' twice"),
        (GOOD[:-1] + ',"topic":1}', AT, "topic is not a string"),
        (GOOD[:-1], "", "this is not JSON. Write one JSON object a line"),
        (GOOD + GOOD, "", "this is not JSON"),
        (GOOD.replace("7", "NaN"), "", "this is not JSON"),
        (GOOD.replace("7", "Infinity"), "", "this is not JSON"),
        (GOOD.replace("7", "07"), "", "this is not JSON"),
        ("[" * 100_000, "", "this is not JSON"),
        ("[]", "", "this is not a JSON object"),
        ("null", "", "this is not a JSON object"),
    ],
)
def test_line_that_is_no_record_is_refused_with_its_place_and_remedy(
    tmp_path: Path, line: str, where: str, said: str
) -> None:
    """The message names file, line, partition and offset where known, what is wrong and what to do."""
    path = tmp_path / "bad.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n{GOOD}\n")
    message = refusal(path)
    assert message.startswith(f"{path}, line 3{where}: {said}")


@pytest.mark.parametrize(
    "line",
    [
        b'{"key":null,"value":null,"topic":"\xff"}',
        b'{"key":null,"value":null,"headers":[{"key":"\xed\xa0\x80","value":null}]}',
        b'{"key":"\xc3\x28","value":null}',
        b'{"\xff":null,"key":null,"value":null}',
    ],
)
def test_strings_that_are_not_utf8_are_refused(tmp_path: Path, line: bytes) -> None:
    """Wherever they stand: in a name, a header's key or in what should be base64."""
    path = tmp_path / "latin1.jsonl"
    path.write_bytes(line)
    assert refusal(path).startswith(f"{path}, line 1: this is not valid UTF-8. ")


def test_refusal_names_the_first_bad_line_whatever_is_wrong_with_later_ones(tmp_path: Path) -> None:
    """A partition out of range is found by the batch, bad JSON by the line; the earlier one is said."""
    path = tmp_path / "two.jsonl"
    path.write_text("\n".join([GOOD, GOOD.replace(":1", ":9"), GOOD, "{"]))
    assert refusal(path).startswith(f"{path}, line 2 (offset 7): partition is above what it can be")


def test_message_holds_no_user_bytes(tmp_path: Path) -> None:
    """Neither key nor value nor header values appear, decoded or not, in the message or its causes."""
    path = tmp_path / "secret.jsonl"
    path.write_text('{"key":"c2VjcmV0","value":"c2VjcmV0!","headers":[{"key":"h","value":"c2VjcmV0"}]}')
    with pytest.raises(BadInputError) as refused:
        rows(path)
    assert "c2Vjc" not in str(refused.value)
    assert "secret" not in str(refused.value).replace(str(path), "")
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    "text",
    [
        '{"sesame": "sesame", "offset": "sesame"}',
        '{"sesame": 1, "sesame": 2}',
        "root:sesame:0:0\n",
        '{\n "sesame": "sesame"\n}\n',
        '["sesame", 1]',
        '"sesame"',
    ],
)
def test_nothing_is_quoted_of_a_file_that_holds_no_records(tmp_path: Path, text: str) -> None:
    """Not even names of fields: whoever may start an ingest is not always allowed to read every file."""
    path = tmp_path / "credentials.json"
    path.write_text(text)
    with pytest.raises(BadInputError, match="line 1") as raised:
        list(read_file(str(path), topic="orders", partitions=1))
    assert "sesame" not in str(raised.value)


def test_unknown_field_of_great_length_is_shortened_and_made_printable(tmp_path: Path) -> None:
    """A message stays one line, whatever a file holds."""
    path = tmp_path / "long.jsonl"
    path.write_text(json.dumps({"é\n" * 500: 1, "key": None, "value": None}))
    message = refusal(path)
    assert len(message) < 500
    assert message.isprintable()


@pytest.mark.parametrize("kept_bytes", [0, 5, 30, -9, -1])
def test_gzip_that_is_cut_off_is_refused(tmp_path: Path, kept_bytes: int) -> None:
    """Even one cut off in its closing checksum, or to nothing at all."""
    path = tmp_path / "cut.jsonl.gz"
    whole = gzip.compress("".join(f"{GOOD}{' ' * (n % 7)}\n" for n in range(500)).encode())
    path.write_bytes(whole[:kept_bytes])
    assert refusal(path).startswith(f"{path}: the gzip data is damaged or cut off. Copy the file")


def test_gzip_with_a_wrong_checksum_or_none_at_all_is_refused(tmp_path: Path) -> None:
    """A flipped bit in the checksum, and plain text under a gzip name."""
    path = tmp_path / "flipped.jsonl.gz"
    whole = bytearray(gzip.compress(GOOD.encode()))
    whole[-6] ^= 1
    path.write_bytes(whole)
    assert "the gzip data is damaged" in refusal(path)
    path.write_text(GOOD)
    assert "the gzip data is damaged" in refusal(path)


def test_file_that_is_gone_or_a_folder_is_refused(tmp_path: Path) -> None:
    """Between naming and reading, files go away."""
    assert "there is no such file" in refusal(tmp_path / "gone.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    assert "the file cannot be opened" in refusal(tmp_path / "folder.jsonl")


PIECES = st.sampled_from(
    [
        *(
            '"',
            "=",
            "==",
            "\\",
            "\\u003d",
            "\\/",
            ",",
            ":",
            "{",
            "}",
            "[",
            "]",
            "null",
            "0",
            "-1",
            "1.5",
            "Y",
            "R",
            " ",
            "key",
        ),
        *('"key":null', '"offset":3,', '"headers":[],', '{"key":"a","value":"YR=="}', "\\ud83d\\ude00", "é", "\x01"),
    ]
)


@given(at=st.integers(0, 150), cut=st.integers(0, 6), put=st.lists(PIECES, max_size=3))
@example(at=21, cut=0, put=['"key":null', ","])
def test_fast_reader_and_slow_diagnosis_agree_on_every_line(
    tmp_path_factory: pytest.TempPathFactory, at: int, cut: int, put: list[str]
) -> None:
    """A line is refused exactly when the diagnosis finds something wrong with it."""
    whole = GOOD[:-1] + ',"timestamp":5,"headers":[{"key":"h=","value":"YWI="},{"key":"i","value":null}]}'
    line = whole[:at] + "".join(put) + whole[at + cut :]
    path = tmp_path_factory.getbasetemp() / "mutated.jsonl"
    path.write_text(line)
    fault = find_fault(line.encode(), TopicFilter("orders"), 4)
    if fault is None:
        assert len(rows(path)) == 1
    else:
        assert f": {fault.wrong}. {fault.advice[:1].upper()}{fault.advice[1:]}." in refusal(path)


# -------------------------------------------------------------------------------------------------------- it streams


def test_first_batch_arrives_before_a_later_bad_line_is_met(tmp_path: Path) -> None:
    """Reading is lazy: what comes first is not held back by what comes last."""
    path = tmp_path / "late.jsonl"
    path.write_text(f"{GOOD}\n" * 5000 + "{\n")
    batches = read_file(str(path), topic="orders", partitions=4, batch_bytes=10_000)
    assert next(batches).column("row")[0].as_py() == 1
    with pytest.raises(BadInputError, match=r"line 5001: this is not JSON"):
        list(batches)


def test_many_small_records_keep_batches_within_rows_and_bytes(tmp_path: Path) -> None:
    """200,000 records: no batch over 64k rows or over the bytes asked for, and every line once, in order."""
    path = tmp_path / "many.jsonl"
    with path.open("w") as stream:
        stream.writelines(f'{{"key":"","value":null,"offset":{n}}}\n' for n in range(200_000))
    for batch_bytes in (1 << 16, 16 << 20):
        expected = 1
        for batch in read_file(str(path), topic="orders", partitions=1, batch_bytes=batch_bytes):
            assert batch.schema == RECORD_SCHEMA
            assert batch.num_rows <= MAXIMUM_BATCH_ROWS
            assert batch.nbytes <= batch_bytes
            assert (batch.column("row").to_numpy() == np.arange(expected, expected + batch.num_rows)).all()
            expected += batch.num_rows
        assert expected == 200_001


def test_record_larger_than_a_batch_is_a_batch_by_itself(tmp_path: Path) -> None:
    """The bound never splits or refuses a record."""
    path = tmp_path / "big.jsonl"
    noise = random.Random(2)
    values = [b"small", noise.randbytes(300_000), b"small", b"small", noise.randbytes(200_000)]
    path.write_text("".join(f'{{"key":null,"value":"{base64.b64encode(value).decode()}"}}\n' for value in values))
    batches = list(read_file(str(path), topic="orders", partitions=1, batch_bytes=100_000))
    assert [batch.num_rows for batch in batches] == [1, 1, 2, 1]
    assert [row["value"] for row in rows(path, batch_bytes=100_000)] == values


@given(
    records=st.lists(
        st.fixed_dictionaries(
            {
                "partition": st.none() | st.integers(0, 3),
                "offset": st.none() | st.integers(0, 2**63 - 1),
                "timestamp": st.none() | st.integers(0, MAXIMUM_TIMESTAMP_MS),
                "timestampType": st.integers(-1, 1),
                "key": st.binary(max_size=9),
                "value": st.none() | st.binary(max_size=30),
                "headers": st.none()
                | st.lists(
                    st.fixed_dictionaries(
                        {
                            "key": st.text(st.characters(codec="utf-8"), max_size=5),
                            "value": st.none() | st.binary(max_size=5),
                        }
                    ),
                    max_size=3,
                ),
            }
        ),
        max_size=20,
    ),
    batch_bytes=st.sampled_from([1, 300, 1 << 20]),
    ascii_only=st.booleans(),
)
def test_every_record_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], batch_bytes: int, ascii_only: bool
) -> None:
    """Whatever the bytes, however it is cut into batches, escaped or not."""

    def written(value: object) -> object:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, list):
            return [written(element) for element in value]
        return {name: written(inner) for name, inner in value.items()} if isinstance(value, dict) else value

    path = tmp_path_factory.getbasetemp() / "back.jsonl"
    path.write_text("".join(json.dumps(written(r), ensure_ascii=ascii_only) + "\n" for r in records), encoding="utf-8")
    expected = [
        {"row": number, **record}
        | {"partition": choose_partition(record["key"], 4) if record["partition"] is None else record["partition"]}
        for number, record in enumerate(records, 1)
    ]
    assert rows(path, batch_bytes=batch_bytes) == expected
