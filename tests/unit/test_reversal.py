"""What a receipt holds for taking its run back."""

from __future__ import annotations

import base64

import pytest

from winnow.errors import WinnowError
from winnow.values.model import Segment
from winnow.values.reversal import decode_reversals, encode_reversals, make_reversal
from winnow.values.topic_state import Append, Cleaning, PartitionState

BEFORE = PartitionState(3, 20, 5, "offset", (Cleaning(5, 1, 2),), (Append("a", 5, 9, 5, 7), Append("b", 10, 19, 10, 8)))
AFTER = PartitionState(3, 20, 10, "offset", (Cleaning(10, 9, 10),), (Append("b", 10, 19, 10, 8),))


def test_what_is_encoded_is_decoded_and_only_dropped_appends_are_kept() -> None:
    segment = Segment("file:///lake/data/one.parquet", 0, 5, 9, 5, 100, 1, 2, 0)
    reversal = make_reversal(0, BEFORE, AFTER, compacts=True, removed=(segment,), added=("file:///lake/two",))
    assert decode_reversals(encode_reversals([reversal])) == (reversal,)
    assert reversal.before.appends == BEFORE.appends[:1]
    assert reversal.after.appends == ()


@pytest.mark.parametrize("text", ["", "no base64!", base64.b64encode(b"not compressed").decode()])
def test_what_cannot_be_decoded_is_an_error_of_winnows(text: str) -> None:
    with pytest.raises(WinnowError, match="cannot be decoded"):
        decode_reversals(text)
