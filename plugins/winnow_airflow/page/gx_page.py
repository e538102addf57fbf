"""A page of Great Expectations made to stand alone: no script, nothing from elsewhere, one style sheet of our own.

The pages are built for a browser with the internet at hand: Bootstrap, jQuery and icons come from five hosts, and
without them they are bare. What they say is in the HTML all the same.
"""

from __future__ import annotations

import re
from html import escape
from typing import Final

_EXTERNAL_PARTS: Final = (
    re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE),
    re.compile(r"<link\b[^>]*\bhref=\"(?:https?:)?//[^>]*>", re.IGNORECASE),
    # Its path has one step too few.
    re.compile(r"<link\b[^>]*\brel=\"shortcut icon\"[^>]*>", re.IGNORECASE),
    re.compile(r"<img\b[^>]*\bsrc=\"(?:https?:)?//[^>]*>", re.IGNORECASE),
    re.compile(r"url\(['\"]?(?:https?:)?//[^)]*\)", re.IGNORECASE),
    re.compile(r"\son\w+=\"[^\"]*\"", re.IGNORECASE),
    # An invitation to a newsletter.
    re.compile(r"<footer>.*?</footer>", re.DOTALL | re.IGNORECASE),
)


def make_self_contained(html: str, style_sheet: str) -> str:
    """``html`` without scripts and without what lies on other hosts, under the style sheet at that address."""
    for pattern in _EXTERNAL_PARTS:
        html = pattern.sub("", html)
    return html.replace("</head>", f'<link rel="stylesheet" href="{escape(style_sheet)}">\n</head>', 1)
