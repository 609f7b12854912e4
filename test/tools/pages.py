"""What the tests read of the pages: their list, lines, headings, links and pictures. A link stands on one line."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# [text](link), or else `code`: what begins first is what it is.
TOKEN = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`)+)\]\(([^()\s]+)\)|(?<!`)`([^`]+)`(?!`)")
MARKDOWN_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")
PICTURE = re.compile(r'(<img\b[^>]*?\bsrc=")([^"]*)(")')
HEADING = re.compile(r"(#{1,4}) (.*?)\s*$")


def pages():
    """The pages, as paths from the top folder."""
    found = [*ROOT.glob("[A-Z]*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def slug(heading):
    """The anchor of a heading on a code host."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-")


def links_of(line):
    return [match[2] for match in TOKEN.finditer(line) if match[2]]


def pictures_of(line):
    """The pictures of a line, whichever way they are written."""
    return [match[2] for match in PICTURE.finditer(MARKDOWN_PICTURE.sub(r'<img src="\2" alt="\1">', line))]


def lines_of(text):
    """Each line, and whether it is prose: not in a fence, and no code by its indentation."""
    fenced = False
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        yield line, not (fenced or fence)
        fenced ^= fence
