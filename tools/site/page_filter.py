#!/usr/bin/env python3
"""Doxygen's input filter: page_filter.py FILE writes FILE as Doxygen should read it, line by line.

The guide pages are written for a code host. There a link names a file, `design.md#0-three-layers`; in the site it names
a page and an anchor of that page. So:

- Each heading gets the anchor that a code host gives it, after the name of its page.
- A link to another page goes to that page. A page named README.md has others below it in the side tree, in the order of
  its tables, and then of its text (`@subpage`).
- A link to a C++ source goes to its listing, which `reference.dox` asks for.
- A link to anything else of the project that the site does not have becomes its text.
- A picture is found beside the pages, where Doxygen puts it.
- Code that names a public function or type, `timer.schedule_after(1s, f)`, goes to its reference, if TIMING_WHEEL_NAMES
  is the tag file of the headers.

What goes nowhere stays as it is, for the link check to find. A link stands on one line.

The headers say "Complexity: O(1)." in the middle of a comment; that becomes a paragraph with a title.
"""

import os
import re
import sys
import xml.etree.ElementTree as xml
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAIN = "README.md"
# [text](link), or else `code`: what begins first is what it is.
TOKEN = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`)+)\]\(([^()\s]+)\)|(?<!`)`([^`]+)`(?!`)")
MARKDOWN_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^()\s]+)\)")
PICTURE = re.compile(r'(<img\b[^>]*?\bsrc=")([^"]*)(")')
# The name of a measured figure, which test/tools/figures_test.py reads; Doxygen would take the blank behind it away.
FIGURE_NAME = re.compile(r"<!-- fig: .*? -->")
HEADING = re.compile(r"(#{1,4}) (.*?)\s*$")
LABEL = re.compile(r"(?:(?<=/// )|(?<=[.;)] ))"
                   r"(Complexity|Cost|Example|Invariants|Memory|Memory order|Note|Options|Order|Thread safety): ")
THROWS = re.compile(r"(\\throws [\w:]+)[;.,](?= |$)")
LISTED = (".cpp", ".hpp")
# Whose function is meant by `schedule_after(…)` alone, and in `name.function(…)` by the name of the object.
OWNERS = ("timer", "basic_timer", "manual_timer", "loop_timer", "timer_handle", "scoped_timer", "timer_options",
          "timer_stats")
OBJECTS = {"timer": ("timer", "basic_timer", "manual_timer", "loop_timer"), "loop": ("loop_timer", "timer"),
           "manual": ("manual_timer", "basic_timer", "timer"), "options": ("timer_options",), "stats": ("timer_stats",)}


def pages():
    """The guide pages, as paths from the top folder."""
    found = [MAIN, "CHANGELOG.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
    return [page for page in found if (ROOT / page).is_file()]


def page_id(page):
    return "index" if page == MAIN else re.sub(r"\W", "_", page.removesuffix(f"/{MAIN}").removesuffix(".md")).lower()


def slug(heading):
    """The anchor of a heading on a code host."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-")


def anchor(page, heading_slug):
    return f"{page_id(page)}_{re.sub(r'[^a-z0-9_-]', '', heading_slug)}"


def listing(path):
    """The page that Doxygen makes of `\\example path`."""
    escaped = "".join({"/": "_2", ".": "_8"}.get(c, c) for c in path)
    return f"{escaped}-example.html"


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


def target_of(page, link):
    """Where a link of a page leads: a path from the top folder, or None if there is no such file; and the anchor."""
    path, _, fragment = link.partition("#")
    if re.match(r"[a-z]+:", link):
        return None, ""
    found = (ROOT / page).parent / path if path else ROOT / page
    target = os.path.relpath(found, ROOT)
    return (target if found.exists() and not target.startswith("..") else None), fragment


def targets(page):
    """For each link of a page to the project: whether it stands in the row of a table, and to which file it leads."""
    for line, prose in lines_of((ROOT / page).read_text(encoding="utf-8")):
        for link in links_of(line) if prose else ():
            target = target_of(page, link)[0]
            if target:
                yield line.startswith("|"), index_of(target)


def index_of(target):
    """A folder is shown by its README.md, if it has one."""
    return f"{target}/{MAIN}" if (ROOT / target / MAIN).is_file() else target


def index_above(page):
    """The README.md below which a page stands in the side tree."""
    folder = Path(page).parent.parent if Path(page).name == MAIN else Path(page).parent
    while not (ROOT / folder / MAIN).is_file():
        folder = folder.parent
    return str(folder / MAIN)


def linked_sources():
    """The C++ sources that the pages link to, but those that have a page anyway; their listings belong to the site."""
    found = {target for page in pages() for _, target in targets(page)}
    return sorted(target for target in found if target.endswith(LISTED) and target not in reference())


@cache
def reference():
    """From the name of a class, from (class, member), or from the path of a header, to its place in the site."""
    names = {}
    file = os.environ.get("TIMING_WHEEL_NAMES")
    if not file or not Path(file).is_file():
        return names
    for compound in xml.parse(file).getroot().iter("compound"):
        name = compound.findtext("name", "").removeprefix("timing_wheel::")
        if compound.get("kind") == "file":
            path = os.path.relpath(Path(compound.findtext("path", ""), name), ROOT)
            names[path] = compound.findtext("filename")
        if compound.get("kind") in ("class", "struct", "concept"):
            where = compound.findtext("filename", "")
            names[name] = where if where.endswith(".html") else where + ".html"
        for member in compound.iter("member"):
            place = f'{member.findtext("anchorfile")}#{member.findtext("anchor")}'
            key = member.findtext("name") if compound.get("kind") == "namespace" else (name, member.findtext("name"))
            names.setdefault(key, place)
    return names


def place_of(code):
    """Where the reference tells of a piece of code; None if that cannot be told."""
    names = reference()
    code = code.removeprefix("timing_wheel::")
    if match := re.match(r"([a-z_]\w*)(?:\.|->)(\w+)\(", code):
        owners = OBJECTS.get(match[1], ("timer_handle", "scoped_timer", *OWNERS))
        return next((names[owner, match[2]] for owner in owners if (owner, match[2]) in names), None)
    if (match := re.match(r"(\w+)::(\w+)", code)) and (match[1], match[2]) in names:
        return names[match[1], match[2]]
    if match := re.match(r"(\w*_\w*)(?:[(<{ ]|::|$)", code):
        members = (names[owner, match[1]] for owner in OWNERS if (owner, match[1]) in names)
        return names.get(match[1]) or next(members, None)
    return None


class PageFilter:
    def __init__(self, page):
        self.page, self.anchors, self.children = page, {}, set()
        self.in_rows = {target for row, target in targets(page) if row}
        self.row = False

    def heading(self, marks, text):
        if len(marks) == 1:
            return f"# {text} {{#{'mainpage' if self.page == MAIN else page_id(self.page)}}}"
        name = slug(text)
        repeated = self.anchors.get(name, 0)
        self.anchors[name] = repeated + 1
        place = anchor(self.page, f"{name}-{repeated}" if repeated else name)
        if self.page == MAIN:  # whose sections would stand before its pages in the side tree
            return f'{marks} <a id="{place}"></a>{text}'
        return f"{marks} {text.replace('`', '')} {{#{place}}}"  # 1.9.4 shows the mark-up of code in a title

    def adopts(self, target):
        """Whether this link makes the other page one below this in the side tree."""
        return (index_above(target) == self.page and target not in {self.page} | self.children
                and (self.row or target not in self.in_rows))

    def replaced(self, match):
        text, link, code = match.groups()
        if code:
            place = place_of(code)
            return match[0] if place is None else f"[{match[0]}]({place})"
        target, fragment = target_of(self.page, link)
        if target is None:
            return match[0]
        target = index_of(target)
        if target in pages():
            if self.adopts(target) and not fragment:
                self.children.add(target)
                plain = text.replace("`", "").replace('"', "'")
                return f'@subpage {page_id(target)} "{plain}"'
            place = page_id(target) + ".html"
            return f"[{text}]({place}#{anchor(target, fragment)})" if fragment else f"[{text}]({place})"
        if target in reference():
            return f"[{text}]({reference()[target]})"
        return f"[{text}]({listing(target)})" if target.endswith(LISTED) else text

    def line(self, line):
        self.row = line.startswith("|")
        if match := HEADING.match(line):
            return self.heading(*match.groups())
        line = TOKEN.sub(self.replaced, FIGURE_NAME.sub("", line))
        line = MARKDOWN_PICTURE.sub(r'<img src="\2" alt="\1">', line)
        return PICTURE.sub(lambda match: match[1] + match[2].rpartition("/")[2] + match[3], line)

    def text(self, text):
        return "".join((self.line(line) if prose else line) + "\n" for line, prose in lines_of(text))


def listings(text):
    """Asks for the listing of each linked source, in the place of the only line that says so."""
    wanted = " ".join(f"/** \\example {source} */" for source in linked_sources())
    return text.replace("LISTINGS", wanted)


def comments(text):
    def change(line):
        if not line.lstrip().startswith("///"):
            return line
        return LABEL.sub(r"\\labelled{\1} ", THROWS.sub(r"\1", line))

    return "\n".join(map(change, text.split("\n")))


FILTERS = {".dox": listings, ".hpp": comments}


def main():
    path = Path(sys.argv[1]).resolve()
    text = path.read_text(encoding="utf-8")
    page = PageFilter(str(path.relative_to(ROOT)))
    changed = FILTERS.get(path.suffix, page.text)(text)
    sys.stdout.buffer.write(changed.encode())


if __name__ == "__main__":
    main()
