#!/usr/bin/env python3
"""What snippets.py finds wrong with a page, and the sources that it makes of one. Nothing is compiled here."""

import contextlib
import io
import stat
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
import snippets  # noqa: E402

FENCE = "```"
TARGETS = {"lib::core": [snippets.UMBRELLA], "lib::more": ["timing_wheel/more.hpp"]}


def fenced(language, code, note=""):
    comment = f"<!-- {'text' if language == 'text' else 'cpp'}: {note} -->\n" if note else ""
    return f"{comment}{FENCE}{language}\n{code}\n{FENCE}\n"


def program(body, note=""):
    return fenced("cpp", f"int main() {{\n{body}\n}}", note)


F, SH = fenced("cpp", "f();"), fenced("sh", "true")
MORE = fenced("cpp", "#include <timing_wheel/more.hpp>\nint i;", "declarations")
ONE, TWO = (fenced("cpp", f"int {name};", f"declarations, same as a.cpp snippet {part}")
            for name, part in (("i", "one"), ("j", "two")))
SNIPPETS = {"a.cpp": "// snippet one\nint i;\n// end\n// snippet two\nint j;\n// end\n"}
HEADER = {"include/timing_wheel/one.hpp": "/// Text.\n///\n///     f();\nint f();\n///     g();\nint g();\n"}
HEADS, CONTEXT = "test/pages/context/headers.txt", {"test/pages/context/headers.hpp": ""}

# What `check` says of a page, and of the files beside it; nothing if all is well.
RULES = [
    (F, "page.md:2: this fragment does not say how it is compiled"),
    (fenced("cpp", "f();", "expression"), "'expression' is no kind of code"),
    (fenced("cpp", "f();", "statements, context"), "cannot be understood"),
    (fenced("cpp", "f();", "statements, context none"), "page.md:3: there is no context test/pages/context/none.hpp"),
    (SH, "test/pages/context/none.hpp:1: no page uses this context", {"test/pages/context/none.hpp": ""}),
    (fenced("cpp", "f();", "statements, context one"), "one.hpp:2: a context includes no header",
     {"test/pages/context/one.hpp": "\n#include <timing_wheel/more.hpp>\n"}),
    ("<!-- cpp: statements -->\n\ntext\n", "page.md:1: a directive stands right before its block"),
    (fenced("pascal", "begin end."), "'pascal' is no language known here"),
    (fenced("", "code"), "'' is no language known here"),
    (f"{FENCE}cpp\nint i;\n", "a block is not closed"),
    ("text\n\n    int i;\n", "page.md:3: indented code has no language"),
    ("- a list\n\n    that goes on\n" + SH, ""),
    (program("", "declarations"), "a program has a main"),
    (fenced("cpp", "f();", "program"), "a program has a main"),
    (MORE, "page.md:3: the page does not say that timing_wheel/more.hpp is in the target lib::more"),
    ("Link `lib::more`.\n\n" + MORE, ""),
    (MORE.replace("more", "less"), "no target has timing_wheel/less.hpp"),
    (fenced("cmake", "find_package(lib)\nfind_package(Boost)\ntarget_link_libraries(x lib::core)"), ""),
    (fenced("cmake", "find_package(libs)"), "no package libs is known here"),
    (fenced("cmake", "target_link_libraries(x lib::cor)"), "there is no target lib::cor"),
    (fenced("sh", "./dev build now"), ""),
    (fenced("sh", "./dev built"), "page.md:2: there is no ./dev built"),
    ("`./dev built` builds\n\n" + SH, "page.md:1: there is no ./dev built"),
    (fenced("sh", "run --a 1 \\\n  --b 2 --quick\ncd a\\ b"), ""),
    (fenced("sh", "run --a 1 \\ --b 2"), "page.md:2: a backslash that continues a line stands in its"),
    (fenced("sh", "run --a 1 \\ \n  --b 2"), "page.md:2: there is a blank after the backslash"),
    (fenced("sh", "run --a\n  1"), "page.md:2: the line ends with an option, and no backslash"),
    (ONE + TWO, "", SNIPPETS),
    (ONE, "a.cpp: no page shows the snippet two", SNIPPETS),
    (ONE + TWO.replace("int j", "int k"), "this is not a.cpp snippet two to the letter", SNIPPETS),
    (fenced("cpp", "int i;", "declarations, same as b.cpp"), "there is no b.cpp"),
    (SH, "one.hpp:3: test/pages/context/headers.txt has 0 directives for 2 examples", HEADER),
    (SH, "headers.txt has 1 directives for 2 examples", HEADER | {HEADS: "one.hpp: statements\n"}),
    (SH, "there is no header two.hpp", HEADER | {HEADS: "one.hpp: statements; statements\ntwo.hpp: statements\n"}),
    (SH, "", HEADER | CONTEXT | {HEADS: "one.hpp: statements; statements\n"}),
    *((SH, "include/timing_wheel/one.hpp:2: an example in a comment is marked by four",
       {"include/timing_wheel/one.hpp": f"/// Text.\n/// {mark}\n/// f();\n"}) for mark in (r"\code", "@code", FENCE)),
    (program("std::cout << 1;  // one"), "page.md:3: a comment after an output says what is printed"),
    (fenced("cpp", 'f();  // prints "1"', "statements"), "only a program can be run"),
    (fenced("text", "1", "printed by the program above"), "there is no program right above"),
    (fenced("cpp", "what?", "not compiled: it is no C++, in fact"), ""),
]


class project(unittest.TestCase):
    """A small project with one page."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = Path(folder.name)
        self.put("CMakeLists.txt", "project(lib)\nfind_package(Boost)\nadd_library(lib::core ALIAS lib)\n")
        self.put("dev", "#!/bin/sh\necho '  build   builds'\n")

    def put(self, name, text):
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(stat.S_IRWXU)

    def written(self, page, count):
        """The sources of a page."""
        self.put("page.md", page)
        files = [self.source / f"out{i}.cpp" for i in range(count)]
        snippets.write(self.source, "page.md", files)
        return [file.read_text(encoding="utf-8") for file in files]


class check(project):
    def test_finds_what_is_wrong_and_nothing_else(self):
        for page, words, *files in RULES:
            self.setUp()
            for name, text in dict(*files).items():
                self.put(name, text)
            self.put("page.md", page)
            said = ""
            with contextlib.redirect_stdout(io.StringIO()) as listed:
                try:
                    snippets.check(self.source, TARGETS)
                except snippets.fault as e:
                    said = str(e)
            self.assertIn(words, said, page)
            self.assertEqual(bool(words), bool(said), f"{page}{said}")
        self.assertIn("page.md:3: cpp, not compiled, it is no C++, in fact", listed.getvalue())

    def test_the_list_tells_which_headers_of_the_library_each_program_needs(self):
        self.put("include/timing_wheel/more.hpp", "")
        self.put("page.md", program("") + program("").replace("int main", "#include <timing_wheel/more.hpp>\nint main"))
        with contextlib.redirect_stdout(io.StringIO()) as listed:
            snippets.print_list(self.source)
        self.assertIn(f"page page.md 0 2 {snippets.UMBRELLA} timing_wheel/more.hpp\n", listed.getvalue())


class write(project):
    def test_a_fragment_stands_in_a_function_of_its_own_with_its_line(self):
        self.put("test/pages/context/one.hpp", "#include <set>\nvoid f();\n")
        page = fenced("cpp", "#include <map>\nf();", "statements, context one, in base, given int i, returns int")
        (text,) = self.written("Text.\n\n" + page, 1)
        places = [text.index(each) for each in (f"#include <{snippets.UMBRELLA}>", "#include <set>",
                                                "namespace page_md_5 {", "void f();")]
        self.assertEqual(places, sorted(places))
        self.assertIn("struct snippet : base { int run(int i); };\nint snippet::run(int i) {\n", text)
        self.assertIn(f'#line 5 "{self.source}/page.md"\n\nf();\n}}  // function\n}}  // namespace', text)
        (text,) = self.written(fenced("cpp", "int i;", "declarations") * 2, 1)
        self.assertEqual(text.count("\nnamespace"), 2)

    def test_a_program_is_a_source_of_its_own_which_is_not_written_again_unless_it_changed(self):
        fragments, only = self.written(program("f();") + fenced("cpp", "int i;", "declarations"), 2)
        self.assertEqual(only, f'#line 2 "{self.source}/page.md"\nint main() {{\nf();\n}}\n')
        self.assertNotIn("f();", fragments)
        before = (self.source / "out0.cpp").stat().st_mtime_ns
        self.written(program("f();") + fenced("cpp", "int i;", "declarations"), 2)
        self.assertEqual((self.source / "out0.cpp").stat().st_mtime_ns, before)


class run(project):
    def says(self, page, prints, fault=None):
        self.put("page.md", page)
        self.put("program", f"#!/bin/sh\n{prints}\n")
        with contextlib.redirect_stdout(io.StringIO()):
            with self.assertRaisesRegex(snippets.fault, fault) if fault else contextlib.nullcontext():
                snippets.run(self.source, "page.md", 0, self.source / "program")

    def test_holds_what_a_program_prints_against_the_page(self):
        page = program('std::cout << a;  // prints "a"\nstd::cout << b;  // prints "b": the last one')
        self.says(page, "echo a; echo more; echo b")
        self.says(page, "echo b; echo a", 'page.md:4: this program does not print "b" there')
        page = program("f();") + fenced("text", "a\n…z", "printed by the program above")
        self.says(page, "echo a; echo to z")
        self.says(page, "echo a; echo to z; echo more", "page.md:8: the program above prints something else")
        self.says(program("f();"), "exit 3", "page.md:2: this program ended with 3")
        self.says(program("f();", "program, not run: it never ends"), "exit 3")

    def test_lets_times_be_one_percent_off_and_nothing_else(self):
        for expected, line, same in (
                ("1800 ms left", "1799 ms left", True), ("1800 ms left", "1700 ms left", False),
                ("1800 timers", "1799 timers", False), ("a (1 s) of 2", "a (1 s) of 2", True),
                ("0.5s … 7", "0.5s and 6, 7", True), ("a.b", "axb", False)):
            self.assertEqual(snippets.is_as_expected(expected, line), same, (expected, line))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
