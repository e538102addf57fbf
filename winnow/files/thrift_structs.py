"""Reads structs of Thrift's compact protocol, in which Parquet has its footer and the headers of its pages.

Nothing is believed: whatever the bytes are, a struct ends within them, or an error says that they are none.
"""

from __future__ import annotations

from typing import Any, Final

_STOP, _TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 0, 1, 2, 3, 7, 8, 9, 10, 12
_NUMBERS: Final = (4, 5, 6)
_DOUBLE_BYTES: Final = 8
_COUNT_FOLLOWS: Final = 15
_LARGEST_SHIFT: Final = 63
_DEEPEST: Final = 16
"""Parquet's structs lie seven deep."""

Struct = dict[int, Any]
"""The fields of a struct by their ids: numbers, bytes, lists and structs; bools and bytes as numbers, no doubles."""


class ThriftReader:
    """Reads one struct after the other from ``data``. ``at``: the number of bytes read.

    Raises:
        IndexError: a struct continues beyond the data.
        ValueError: there is no struct.
    """

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = data
        self.at = 0

    def read_struct(self, depth: int = 0) -> Struct:
        """Read the next struct. ``depth``: in how many others it lies."""
        if depth > _DEEPEST:
            raise ValueError("structs lie too deep")
        fields: Struct = {}
        field = 0
        while (byte := self._read_byte()) != _STOP:
            kind = byte & 0x0F
            field = field + (byte >> 4) if byte >> 4 else self._read_number()
            fields[field] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._read_value(kind, depth)
        return fields

    def _read_value(self, kind: int, depth: int) -> Any:
        if kind in _NUMBERS:
            return self._read_number()
        if kind == _STRUCT:
            return self.read_struct(depth + 1)
        if kind == _BINARY:
            return self._take(self._read_varint())
        if kind in (_LIST, _SET):
            return self._read_list(depth)
        if kind == _BYTE:
            return self._read_byte()
        if kind == _DOUBLE:
            return self._take(_DOUBLE_BYTES)
        raise ValueError("a field of an unknown kind")

    def _read_list(self, depth: int) -> list[Any]:
        byte = self._read_byte()
        count = byte >> 4 if byte >> 4 < _COUNT_FOLLOWS else self._read_varint()
        kind = byte & 0x0F
        if depth > _DEEPEST or count > len(self._data) - self.at:  # each element takes a byte at least
            raise ValueError("a list that does not fit")
        if kind in (_TRUE, _FALSE):
            kind = _BYTE
        return [self._read_value(kind, depth + 1) for _ in range(count)]

    def _take(self, size_bytes: int) -> bytes:
        begin = self.at
        self.at += size_bytes
        if self.at > len(self._data):
            raise IndexError
        return bytes(self._data[begin : self.at])

    def _read_byte(self) -> int:
        byte = self._data[self.at]
        self.at += 1
        return byte

    def _read_varint(self) -> int:
        value = shift = 0
        while (byte := self._read_byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > _LARGEST_SHIFT:
                raise ValueError("a number without an end")
        return value | byte << shift

    def _read_number(self) -> int:
        zigzag = self._read_varint()
        return (zigzag >> 1) ^ -(zigzag & 1)
