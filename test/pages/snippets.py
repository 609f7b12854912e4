#!/usr/bin/env python3
"""Takes the code out of the pages, so that it is compiled and run, and checks what else the pages show.

usage: snippets.py list SOURCE                        for CMake: what to depend on, and what each page has to compile
       snippets.py write SOURCE PAGE FILE...          the sources of a page: its fragments, then each of its programs
       snippets.py check SOURCE [TARGET=HEADER,...]   every rule below; TARGET has these public headers
       snippets.py run SOURCE PAGE NUMBER PROGRAM     runs a program of a page, and holds its output against the page

A page is a Markdown file, or `headers`, which stands for the indented examples in the `///` comments of all public
headers. Each fenced block names its language. A `cpp` block with a `main` is a program. Another one is a fragment, and
the line before it says what kind, in a comment that readers of the page do not see:

    <!-- cpp: statements, context service -->

The kinds: `statements` (the body of a function), `declarations` (namespace scope), `program`, and
`not compiled: REASON`. What may follow, separated by commas:

    context NAME...     test/pages/context/NAME.hpp declares what the fragment uses; `extern` will do, nothing is linked
    in CLASS            the function is a member of a class derived from CLASS, which the context declares: there is a
                        `this`
    given PARAMETERS    the function has parameters, for what a lambda captures by name
    returns TYPE        the function returns TYPE, for instance a coroutine's
    same as FILE        the block is FILE to the letter; `same as FILE snippet NAME`: the part between
                        `// snippet NAME` and `// end` there, each of which a page must show
    not run: REASON     only for a program: it is compiled and linked

All fragments of a page see timing_wheel/timing_wheel.hpp and what any block of the page includes. A context cannot
include another header of the library: the page has to name it, and its CMake target if that is not the library itself.

In a program, a comment after an output says what is printed: `// prints "2 pending"`. These lines come in this order.
A `text` block below `<!-- text: printed by the program above -->` is all that it prints. `…` stands for anything there,
and a number before a unit of time may be one percent off.

A command in a `sh` block that goes on in the next line ends with a backslash, which stands nowhere else.

For a header, test/pages/context/headers.txt has the directives of its examples, in their order: `timer.hpp: statements;
declarations`. Their context is `headers`, unless they have another.
"""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

UMBRELLA = "timing_wheel/timing_wheel.hpp"
INCLUDES = "include"
CONTEXTS = Path("test/pages/context")
HEADERS = CONTEXTS / "headers.txt"
FOLDERS = ("docs", "examples", "benchmarks", "test", "packaging")
LANGUAGES = ("cpp", "cmake", "sh", "sql", "text")
KINDS = ("statements", "declarations", "program")
CLAUSES = {"context": "contexts", "in": "base", "given": "given", "returns": "returns", "same as": "same_as",
           "not run:": "reason"}
PRINTED_ABOVE = "printed by the program above"
EXAMPLE = re.compile(r"\s*/// {5,}\S")
INCLUDE = re.compile(r"\s*#\s*include\s*[<\"]([^>\"]+)[>\"]")
PRINTS = re.compile(r'//\s*prints "((?:[^"\\]|\\.)*)"')
WRITES = re.compile(r"\b(std::cout|std::puts|std::printf|std::print|std::println|puts|printf)\b.*?//")


class fault(Exception):
    """Something wrong with a page; its text begins with PAGE:LINE."""


@dataclasses.dataclass
class directive:
    kind: str
    contexts: list = dataclasses.field(default_factory=list)
    base: str = ""
    given: str = ""
    returns: str = "void"
    same_as: str = ""
    reason: str = ""  # not to compile it, or not to run it


@dataclasses.dataclass
class block:
    page: str  # relative to the source directory
    line: int  # of its first line of code
    language: str
    code: list
    note: str  # the text of the directive before it
    how: directive = None

    @property
    def where(self):
        return f"{self.page}:{self.line}"

    @property
    def text(self):
        return "".join(line + "\n" for line in self.code)

    @property
    def is_compiled(self):
        return self.language == "cpp" and self.how.kind != "not compiled"

    @property
    def is_program(self):
        return self.language == "cpp" and self.how.kind == "program"

    @property
    def is_fragment(self):
        return self.is_compiled and not self.is_program

    def includes(self):
        """(line number, line) of each #include."""
        return [(self.line + i, line) for i, line in enumerate(self.code) if INCLUDE.match(line)]


# ---- Reading ----


def read_lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def markdown_blocks(page, lines):
    """The fenced blocks, without what their directives mean. Throws fault on code that is not in one."""
    found, note, opened, begin = [], "", None, 0
    outermost, before = "", "text"  # the last line that is not indented, and the line before
    for number, line in enumerate(lines, 1):
        fence = re.match(r"(\s*)(```+|~~~+)\s*(\S*)", line)
        if opened is not None:
            if fence and fence[2].startswith(opened[2]) and not fence[3]:
                code = [text.removeprefix(opened[1]) for text in lines[begin : number - 1]]
                found.append(block(page, begin + 1, opened[3], code, note))
                note, opened = "", None
            continue
        if fence:
            opened, begin = fence, number
            continue
        if note:
            raise fault(f"{page}:{number - 1}: a directive stands right before its block")
        if re.match(r" {4}|\t", line) and not before.strip() and not re.match(r"[-*+]|\d+\.", outermost):
            raise fault(f"{page}:{number}: indented code has no language; put it between ``` and ```")
        outermost, before = line if re.match(r"\S", line) else outermost, line
        comment = re.match(r"\s*<!--\s*(?:cpp|text):\s*(.*?)\s*-->\s*$", line)
        note = comment[1] if comment else ""
    if opened is not None or note:
        raise fault(f"{page}:{len(lines)}: a block is not closed, or a directive stands before none")
    return found


def header_blocks(page, lines):
    """The indented examples of a header's `///` comments. Throws fault on examples that are marked otherwise."""
    found = []
    for number, line in enumerate(lines, 1):
        if re.match(r"\s*///.*([\\@]code\b|```)", line):
            raise fault(f"{page}:{number}: an example in a comment is marked by four spaces, and by nothing else")
        if not EXAMPLE.match(line):
            continue
        code = line.split("/// ", 1)[1][4:]
        if found and found[-1].line + len(found[-1].code) == number:
            found[-1].code.append(code)
        else:
            found.append(block(page, number, "cpp", [code], ""))
    return found


def parse_directive(where, note):
    if unwanted := re.fullmatch(r"not compiled: (.+)", note):
        return directive("not compiled", reason=unwanted[1])
    words = "|".join(CLAUSES)
    kind, *clauses = re.split(rf",\s+(?=(?:{words})(?:\s|$))", note)
    if kind not in KINDS:
        raise fault(f"{where}: '{kind}' is no kind of code; there are {', '.join(KINDS)}, and not compiled: REASON")
    how = directive(kind)
    for clause in clauses:
        word, rest = re.fullmatch(rf"({words})\s*(.*)", clause).groups()
        if not rest:
            raise fault(f"{where}: '{clause}' cannot be understood; see the head of test/pages/snippets.py")
        setattr(how, CLAUSES[word], rest.split() if word == "context" else rest)
    return how


def has_main(one):
    return any(re.match(r"\s*(int|auto)\s+main\s*\(", line) for line in one.code)


def understand(one):
    """Fills in `one.how`."""
    if one.language != "cpp":
        return
    if not one.note and not has_main(one):
        raise fault(
            f"{one.where}: this fragment does not say how it is compiled. Put a line before the block, for instance\n"
            f"    <!-- cpp: statements, context service -->\n"
            f"with test/pages/context/service.hpp declaring what it uses. The head of test/pages/snippets.py has more."
        )
    one.how = parse_directive(one.where, one.note) if one.note else directive("program")
    if one.is_compiled and has_main(one) != one.is_program:
        raise fault(f"{one.where}: a program has a main, and nothing else has one")
    if one.is_fragment and any(PRINTS.search(line) for line in one.code):
        raise fault(f"{one.where}: only a program can be run, so that what a fragment prints cannot be checked")
    for i, line in enumerate(one.code):
        if one.is_program and WRITES.search(line) and not PRINTS.search(line):
            raise fault(f"{one.page}:{one.line + i}: a comment after an output says what is printed: // prints \"…\"")


def examples_of_headers(source):
    """Each example of a public header, with the directive that the list of headers has for it."""
    lines = read_lines(source / HEADERS) if (source / HEADERS).exists() else []
    notes, found = dict(line.split(": ", 1) for line in lines), []
    for header in headers_of(source):
        examples = header_blocks(header, read_lines(source / header))
        directives = notes.pop(header.removeprefix(f"{INCLUDES}/timing_wheel/"), "; ")
        directives = [note for note in directives.split("; ") if note]
        if len(directives) != len(examples):
            where = examples[0].where if examples else f"{header}:1"
            raise fault(f"{where}: {HEADERS} has {len(directives)} directives for {len(examples)} examples")
        for one, note in zip(examples, directives):
            has_context = note.startswith("not compiled") or ", context " in note
            one.note = note if has_context else f"{note}, context headers"
        found += examples
    if notes:
        raise fault(f"{HEADERS}:1: there is no header {', '.join(notes)}")
    return found


def pages_of(source):
    found = sorted(source.glob("*.md"))
    for folder in FOLDERS:
        found += sorted((source / folder).rglob("*.md"))
    return [path.relative_to(source).as_posix() for path in found]


def headers_of(source):
    return [path.relative_to(source).as_posix() for path in sorted((source / INCLUDES).rglob("*.hpp"))]


def blocks_of(source, page):
    """All blocks of a page, understood. Throws fault."""
    found = examples_of_headers(source) if page == "headers" else markdown_blocks(page, read_lines(source / page))
    for one in found:
        understand(one)
    return found


# ---- Writing sources ----


def quoted(path):
    return '"' + str(path).replace("\\", "/") + '"'


def pasted(path, first, lines):
    """Lines that the compiler takes for those of `path`; their includes stand elsewhere."""
    kept = ["" if INCLUDE.match(line) else line for line in lines]
    return [f"#line {first} {quoted(path)}", *kept]


def context_of(source, one):
    """The path and the lines of each context of a block. Throws fault."""
    for name in one.how.contexts:
        path = source / CONTEXTS / f"{name}.hpp"
        if not path.exists():
            raise fault(f"{one.where}: there is no context {CONTEXTS / name}.hpp")
        yield path, read_lines(path)


def all_includes(source, fragments, blocks):
    lines = [f"#include <{UMBRELLA}>"]
    for one in blocks:
        if one.page.startswith(INCLUDES + "/"):
            lines.append(f"#include <{Path(one.page).relative_to(INCLUDES).as_posix()}>")
        for number, line in one.includes() if one.is_compiled else []:
            lines += [f"#line {number} {quoted(source / one.page)}", line]
    for one in fragments:
        for path, context in context_of(source, one):
            for number, line in enumerate(context, 1):
                if INCLUDE.match(line):
                    lines += [f"#line {number} {quoted(path)}", line]
    return lines


def written_fragments(source, blocks):
    """One source for all fragments of a page: a namespace for each."""
    fragments = [one for one in blocks if one.is_fragment]
    lines = all_includes(source, fragments, blocks)
    for one in fragments:
        name = re.sub(r"\W", "_", one.page)
        lines.append(f"namespace {name}_{one.line} {{")
        for path, context in context_of(source, one):
            lines += pasted(path, 1, context)
        code = pasted(source / one.page, one.line, one.code)
        if one.how.kind == "statements":
            base = f" : {one.how.base}" if one.how.base else ""
            result, given = one.how.returns, one.how.given
            code = [f"struct snippet{base} {{ {result} run({given}); }};", f"{result} snippet::run({given}) {{", *code,
                    "}  // function"]
        lines += [*code, "}  // namespace"]
    return lines


def write_if_changed(path, lines):
    text = "".join(line + "\n" for line in lines)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write(source, page, outputs):
    blocks = blocks_of(source, page)
    sources = [[f"#line {one.line} {quoted(source / one.page)}", *one.code] for one in blocks if one.is_program]
    if any(one.is_fragment for one in blocks):
        sources.insert(0, written_fragments(source, blocks))
    for output, lines in zip(outputs, sources, strict=True):
        write_if_changed(Path(output), lines)


def own_headers(source, program):
    """The library's headers that a program includes; a build may be without them."""
    included = [INCLUDE.match(line)[1] for _, line in program.includes()]
    return [header for header in included if (source / INCLUDES / header).is_file()] or [UMBRELLA]


def print_list(source):
    """What is wrong with a page is told when it is built; here it has one source, so that it is."""
    pages = pages_of(source)
    for path in sorted({source, *((source / page).parent for page in pages), *(source / page for page in pages)}):
        print("depends", path)
    for page in [*pages, "headers"]:
        try:
            blocks = blocks_of(source, page)
            fragments = any(one.is_fragment for one in blocks)
            programs = [one for one in blocks if one.is_program]
            print("page", page, int(fragments), len(programs),
                  *(",".join(own_headers(source, one)) for one in programs))
        except fault:
            print("page", page, 1, 0)


# ---- Running programs ----


def unescaped(text):
    return re.sub(r"\\(.)", r"\1", text)


def is_as_expected(expected, line):
    """Whether a line is what the page says: `…` is anything, and times may be one percent off."""
    pattern, times, done = "", [], 0
    for token in re.finditer(r"…|(\d+(?:\.\d+)?)(?= ?(?:ns|us|µs|ms|s|min|h)\b)", expected):
        pattern += re.escape(expected[done : token.start()]) + (r"(\d+(?:\.\d+)?)" if token[1] else ".*")
        times += [float(token[1])] if token[1] else []
        done = token.end()
    found = re.fullmatch(pattern + re.escape(expected[done:]), line)
    return found is not None and all(abs(float(a) - b) <= b / 100 for a, b in zip(found.groups(), times, strict=True))


def first_missing(expected, printed):
    """The first of `expected`, (line number, text), that does not come in its turn; none if all do."""
    rest = iter(printed)
    for number, text in expected:
        if not any(is_as_expected(text, line) for line in rest):
            return number, text
    return None


def what_is_wrong(page, one, whole, printed):
    """Why a program of a page has not printed what the page says; `whole` is the block below it. None if it has."""
    comments = [(one.line + i, PRINTS.search(line)) for i, line in enumerate(one.code)]
    missing = first_missing([(line, unescaped(found[1])) for line, found in comments if found], printed)
    if missing:
        return f"{page}:{missing[0]}: this program does not print \"{missing[1]}\" there"
    if whole and whole.note == PRINTED_ABOVE:
        if len(whole.code) != len(printed) or not all(map(is_as_expected, whole.code, printed)):
            return f"{whole.where}: the program above prints something else"
    return None


def run(source, page, number, program):
    blocks = blocks_of(source, page)
    one = [each for each in blocks if each.is_program][number]
    if one.how.reason:
        print(f"{one.where}: not run: {one.how.reason}")
        return
    whole = next(iter(blocks[blocks.index(one) + 1 :]), None)
    for _ in range(3):  # one that sleeps for some milliseconds prints something else where a machine stands still
        ended = subprocess.run([program], capture_output=True, text=True, check=False, timeout=60)
        print(ended.stdout + ended.stderr, end="")
        if ended.returncode != 0:
            raise fault(f"{one.where}: this program ended with {ended.returncode}")
        wrong = what_is_wrong(page, one, whole, ended.stdout.splitlines())
        if wrong is None:
            return
    raise fault(wrong)


# ---- Checking ----


def shown_part(source, one):
    """The text that a block with `same as` has to be. Throws fault."""
    file, _, name = one.how.same_as.partition(" snippet ")
    path = source / file
    if not path.exists():
        raise fault(f"{one.where}: there is no {file}")
    text = path.read_text(encoding="utf-8")
    if not name:
        return text
    part = re.search(rf"^// snippet {re.escape(name)}\n(.*?)^// end$", text, re.M | re.S)
    if not part:
        raise fault(f"{one.where}: {file} has no part between '// snippet {name}' and '// end'")
    return part[1]


def same_as_faults(source, blocks):
    shown = [one for one in blocks if one.language == "cpp" and one.how.same_as]
    for one in shown:
        if one.text != shown_part(source, one):
            yield f"{one.where}: this is not {one.how.same_as} to the letter"
    names = {one.how.same_as for one in shown}
    for file in {name.partition(" snippet ")[0] for name in names if " snippet " in name}:
        for part in re.findall(r"^// snippet (\w+)$", (source / file).read_text(encoding="utf-8"), re.M):
            if f"{file} snippet {part}" not in names:
                yield f"{file}: no page shows the snippet {part}"


def text_faults(before, one):
    if one.language == "text" and one.note:
        if one.note != PRINTED_ABOVE:
            yield f"{one.where}: '{one.note}' cannot be understood; a text can be '{PRINTED_ABOVE}'"
        elif before is None or not before.is_program or before.how.reason:
            yield f"{one.where}: there is no program right above that is run"


def cmake_files(source):
    tops = [source / "CMakeLists.txt", *(source / "cmake").glob("*")]
    for folder in ("src", *FOLDERS):
        tops += (source / folder).rglob("CMakeLists.txt")
    return "\n".join(path.read_text(encoding="utf-8") for path in tops if path.is_file())


def cmake_faults(one, own):
    """Packages are the project's own, or those that it uses itself; so are targets with a namespace."""
    project = re.search(r"\bproject\(\s*(\w+)", own)[1]
    packages = {project, *re.findall(r"\bfind_(?:package|dependency)\(\s*(\w+)", own)}
    for package in re.findall(r"\bfind_package\(\s*(\w+)", one.text):
        if package not in packages:
            yield f"{one.where}: no package {package} is known here"
    for target in re.findall(r"\b\w+::\w+", one.text):
        if not re.search(rf"(?<![\w:]){target}(?![\w:])", own):
            yield f"{one.where}: there is no target {target}"


def command_faults(page, text, commands):
    for number, line in enumerate(text.splitlines(), 1):
        for command in re.findall(r"(?:^|`)\./dev ([a-z][\w-]*)", line):
            if command not in commands:
                yield f"{page}:{number}: there is no ./dev {command}"


def shell_faults(one):
    """What is left of a command whose lines were broken anew."""
    for number, (line, after) in enumerate(zip(one.code, [*one.code[1:], ""]), one.line):
        if re.search(r"\s\\\s+\S", line):
            yield f"{one.page}:{number}: a backslash that continues a line stands in its middle"
        if re.search(r"\\\s+$", line):
            yield f"{one.page}:{number}: there is a blank after the backslash that continues the line"
        if re.search(r"\s--?[a-z][\w-]*$", line) and re.match(r"\s+\S", after):
            yield f"{one.page}:{number}: the line ends with an option, and no backslash continues it"


def commands_of(source):
    ended = subprocess.run([source / "dev", "help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"^  ([a-z][\w-]*)", ended.stdout, re.M))


def header_faults(source, one, targets):
    """A header that a page includes belongs to a target, and the page names that, unless it is the library itself."""
    page_text = (source / one.page).read_text(encoding="utf-8")
    for number, line in one.includes() if one.is_compiled else []:
        header = INCLUDE.match(line)[1]
        owners = [target for target, headers in targets.items() if header in headers]
        if header.startswith("timing_wheel/") and not owners:
            yield f"{one.page}:{number}: no target has {header}"
        elif owners and UMBRELLA not in targets[owners[0]] and owners[0] not in page_text:
            yield f"{one.page}:{number}: the page does not say that {header} is in the target {owners[0]}"


def context_faults(source, used):
    for path in sorted((source / CONTEXTS).glob("*.hpp")):
        name = path.relative_to(source).as_posix()
        if path not in used:
            yield f"{name}:1: no page uses this context"
        for number, line in enumerate(read_lines(path), 1):
            include = INCLUDE.match(line)
            if include and include[1].startswith("timing_wheel/"):
                yield f"{name}:{number}: a context includes no header of the library; the page has to name it"


def page_faults(source, page, own, commands, targets):
    blocks = blocks_of(source, page)
    text = "" if page == "headers" else (source / page).read_text(encoding="utf-8")
    for before, one in zip([None, *blocks], blocks):
        if one.language not in LANGUAGES:
            known = ", ".join(LANGUAGES)
            yield f"{one.where}: '{one.language}' is no language known here ({known}); see LANGUAGES in snippets.py"
        yield from text_faults(before, one)
        yield from header_faults(source, one, targets)
        if one.language == "cmake":
            yield from cmake_faults(one, own)
        elif one.language == "sh":
            yield from shell_faults(one)
    yield from same_as_faults(source, blocks)
    yield from command_faults(page, text, commands)


def describe(one):
    if one.language != "cpp":
        return one.language
    reason = "not run: " + one.how.reason if one.is_program and one.how.reason else one.how.reason
    return ", ".join(filter(None, ["cpp", one.how.kind, " ".join(one.how.contexts), one.how.same_as, reason]))


def check(source, targets):
    own, commands = cmake_files(source), commands_of(source)
    faults, used, count = [], set(), 0
    for page in [*pages_of(source), "headers"]:
        try:
            faults += page_faults(source, page, own, commands, targets)
            for one in blocks_of(source, page):
                used |= {path for path, _ in context_of(source, one)} if one.is_fragment else set()
                print(f"{one.where}: {describe(one)}")
                count += 1
        except fault as e:
            faults.append(str(e))
    faults += context_faults(source, used)
    print(f"{count} blocks, {len(faults)} wrong")
    if faults or count == 0:
        raise fault("\n".join(faults) or "there are no pages")


def main():
    command, source, *rest = sys.argv[1:]
    source = Path(source).resolve()
    try:
        if command == "list":
            print_list(source)
        elif command == "write":
            write(source, rest[0], rest[1:])
        elif command == "check":
            check(source, {name: headers.split(",") for name, headers in (one.split("=", 1) for one in rest)})
        elif command == "run":
            run(source, rest[0], int(rest[1]), rest[2])
        else:
            sys.exit(__doc__)
    except fault as e:
        sys.exit(re.sub(r"^(\S+:\d+): ", rf"{source}/\1: error: ", str(e), flags=re.M))


if __name__ == "__main__":
    main()
