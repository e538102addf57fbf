"""Bodies of the page's requests: no unknown members, and only text that UTF-8 can encode."""

from __future__ import annotations

import json
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

NOT_UTF8: Final = "not_utf8"
"""The type of the error of a body that UTF-8 cannot encode."""
HALF_PAIR: Final = (
    "The request has half of a surrogate pair, which UTF-8 cannot encode. Nothing was done. A key with such bytes is "
    "found as base64 or hex."
)


class RequestBody(BaseModel):
    """A body of a request."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def require_utf8(cls, value: Any) -> Any:
        """Refuse halves of surrogate pairs, which JSON can hold, anywhere in the body."""
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise PydanticCustomError(NOT_UTF8, HALF_PAIR) from None
        return value
