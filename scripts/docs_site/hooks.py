"""MkDocs hooks: pages that are made while the site is built, and links and Markdown as GitHub reads them.

The documents stay readable where they lie, in the repository and in an editor. What differs on the site is done here:
files from outside of docs/ get pages of their own, links to code lead to the repository, and two habits of GitHub's
Markdown (lists without a blank line before them, two spaces of indentation) become those of Python-Markdown.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).parents[2]
# MkDocs loads this file by its path; the project's packages are beside it.
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PAGES_FROM_OUTSIDE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ARCHITECTURE.md": "architecture.md",
        "CHANGELOG.md": "changelog.md",
        "CONTRIBUTING.md": "contributing.md",
        "SECURITY.md": "security.md",
    }
)
"""Documents at the top of the repository, and the pages of the site that they become."""
COMMANDS_PAGE: Final = "reference/commands.md"
_LINK = re.compile(r"(\]\(|^\[[^\]]+\]: )(?!https?://|mailto:|#)([^)#\s]+)", re.MULTILINE)
_PICTURE = re.compile(r"^!\[([^\]]+)\]\(([^)]+)-light\.svg\)$", re.MULTILINE)
_ITEM = re.compile(r"(?:[-*] |\d+\. )(?=\S)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the files that match a pattern of the navigation, such as `decisions/0*.md`, in the pattern's place."""
    config.nav = _expand_patterns(config.nav, Path(config.docs_dir))
    return config


def _expand_patterns(entries: Any, folder: Path) -> Any:
    if isinstance(entries, dict):
        return {title: _expand_patterns(entry, folder) for title, entry in entries.items()}
    if not isinstance(entries, list):
        return entries
    expanded: list[Any] = []
    for entry in entries:
        if isinstance(entry, str) and "*" in entry:
            expanded += sorted(path.relative_to(folder).as_posix() for path in folder.glob(entry))
        else:
            expanded.append(_expand_patterns(entry, folder))
    return expanded


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    from mkdocs.structure.files import File

    from scripts.docs_site.command_reference import render_commands

    for name, page in PAGES_FROM_OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, COMMANDS_PAGE, content=render_commands()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page's text as Python-Markdown wants it, with links to pages of the site or to the repository."""
    del files
    place = page.file.src_uri
    sources = {target: source for source, target in PAGES_FROM_OUTSIDE.items()}
    source = sources.get(place, f"docs/{place}")
    branch = f"{config.extra['repository']}/blob/main/"
    linked = _LINK.sub(lambda found: found[1] + resolve_link(found[2], source, place, branch), markdown)
    both = r"![\1](\2-light.svg#only-light)\n![\1](\2-dark.svg#only-dark)"
    return format_lists(_PICTURE.sub(both, linked))


def resolve_link(link: str, source: str, page: str, branch: str) -> str:
    """Return where ``link`` leads on the site.

    Args:
        link: As it stands in the document, relative to it.
        source: The document's path in the repository.
        page: Its page on the site, relative to the site's top.
        branch: The URL of the repository's files, ending with a slash.
    """
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if target in PAGES_FROM_OUTSIDE:
        on_site = PAGES_FROM_OUTSIDE[target]
    elif target == "README.md":
        on_site = "index.md"
    elif target == "docs/decisions":
        on_site = "decisions/README.md"
    elif target.startswith("docs/"):
        on_site = target.removeprefix("docs/")
    elif (ROOT / target).exists():
        return branch + target
    else:
        # Left as it is: MkDocs says that it leads nowhere, and `--strict` ends the build.
        return link
    return posixpath.relpath(on_site, posixpath.dirname(page) or ".")


def format_lists(text: str) -> str:
    """Return ``text`` with blank lines before lists and four spaces inside of their items; code stays as it is."""
    lines: list[str] = []
    fenced, width, has_paragraphs = False, 0, False
    for line in re.sub(r"^<!--.*?-->\n?", "\n", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        fence = line.lstrip().startswith("```")
        indent = len(line) - len(line.lstrip())
        item = None if fenced else _ITEM.match(line)
        previous = lines[-1] if lines else ""
        if item:
            if previous.strip() and (not width or has_paragraphs):
                lines.append("")
            width, has_paragraphs = len(item[0]), False
            lines.append(item[0].strip().ljust(4) + line[len(item[0]) :])
        elif width and line.strip() and indent >= width:
            has_paragraphs |= not previous.strip()
            lines.append("    " + _drop_word_after_language(line[width:]))
        else:
            if line.strip() and not previous.strip():
                width = 0
            lines.append(_drop_word_after_language(line))
        fenced ^= fence
    return "\n".join(lines) + "\n"


def _drop_word_after_language(line: str) -> str:
    """```sh prepare`` is a mark for tests; on the site it is a block of ``sh``."""
    return re.sub(r"^(\s*```\w+) \w+$", r"\1", line)
