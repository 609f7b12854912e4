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


class pages(unittest.TestCase):
    """A small project, whose only page each test writes."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.source = Path(folder.name)
        self.put("CMakeLists.txt", "project(lib)\nfind_package(Boost)\nadd_library(lib::core ALIAS lib)\n")
        self.put("dev", "#!/bin/sh\necho '  build   builds'\n")
        (self.source / "dev").chmod(stat.S_IRWXU)

    def put(self, name, text):
        path = self.source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def faults(self):
        """What `check` says; empty if nothing is wrong."""
        with contextlib.redirect_stdout(io.StringIO()) as self.listed:
            try:
                snippets.check(self.source, TARGETS)
            except snippets.fault as e:
                return str(e)
        return ""

    def expect(self, page, words):
        """`check` finds one fault in the page, and says `words`; none if there are no words."""
        self.put("page.md", page)
        faults = self.faults()
        self.assertIn(words, faults)
        self.assertEqual(bool(words), bool(faults), faults)

    def written(self, page, count):
        """The lines of the sources of a page."""
        self.put("page.md", page)
        files = [self.source / f"out{i}.cpp" for i in range(count)]
        snippets.write(self.source, "page.md", files)
        return [file.read_text(encoding="utf-8").splitlines() for file in files]


class what_is_wrong(pages):
    def test_a_fragment_without_directive(self):
        self.expect(fenced("cpp", "f();"), "page.md:2: this fragment does not say how it is compiled")

    def test_a_kind_that_there_is_not(self):
        self.expect(fenced("cpp", "f();", "expression"), "'expression' is no kind of code")

    def test_a_clause_without_its_word(self):
        self.expect(fenced("cpp", "f();", "statements, context"), "cannot be understood")

    def test_a_context_that_there_is_not(self):
        page = fenced("cpp", "f();", "statements, context none")
        self.expect(page, "page.md:3: there is no context test/pages/context/none.hpp")

    def test_a_context_that_nobody_uses(self):
        self.put("test/pages/context/none.hpp", "")
        self.expect(fenced("sh", "true"), "test/pages/context/none.hpp:1: no page uses this context")

    def test_a_context_that_hides_a_header_of_the_library(self):
        self.put("test/pages/context/one.hpp", "\n#include <timing_wheel/more.hpp>\n")
        self.expect(fenced("cpp", "f();", "statements, context one"), "one.hpp:2: a context includes no header")

    def test_a_directive_that_stands_before_no_block(self):
        self.expect("<!-- cpp: statements -->\n\ntext\n", "page.md:1: a directive stands right before its block")

    def test_a_language_that_is_not_known(self):
        self.expect(fenced("pascal", "begin end."), "'pascal' is no language known here")
        self.expect(fenced("", "code"), "'' is no language known here")

    def test_a_block_that_is_not_closed(self):
        self.expect(f"{FENCE}cpp\nint i;\n", "a block is not closed")

    def test_indented_code(self):
        self.expect("text\n\n    int i;\n", "page.md:3: indented code has no language")
        self.expect("- a list\n\n    that goes on\n" + fenced("sh", "true"), "")

    def test_a_main_in_a_fragment_and_a_program_without_one(self):
        self.expect(program("", "declarations"), "a program has a main")
        self.expect(fenced("cpp", "f();", "program"), "a program has a main")

    def test_nothing_to_continue(self):
        self.expect(fenced("cpp", "f();", "continues"), "there is no fragment that it could continue")
        self.expect(program("") + fenced("cpp", "f();", "continues"), "there is no fragment that it could continue")

    def test_a_header_whose_target_the_page_does_not_name(self):
        code = fenced("cpp", "#include <timing_wheel/more.hpp>\nint i;", "declarations")
        self.expect(code, "page.md:3: the page does not say that timing_wheel/more.hpp is in the target lib::more")
        self.expect("Link `lib::more`.\n\n" + code, "")

    def test_a_header_that_no_target_has(self):
        code = fenced("cpp", "#include <timing_wheel/less.hpp>", "declarations")
        self.expect(code, "no target has timing_wheel/less.hpp")

    def test_a_package_or_a_target_that_there_is_not(self):
        self.expect(fenced("cmake", "find_package(lib)\nfind_package(Boost)\ntarget_link_libraries(x lib::core)"), "")
        self.expect(fenced("cmake", "find_package(libs)"), "no package libs is known here")
        self.expect(fenced("cmake", "target_link_libraries(x lib::cor)"), "there is no target lib::cor")

    def test_a_command_that_there_is_not(self):
        self.expect(fenced("sh", "./dev build now"), "")
        self.expect(fenced("sh", "./dev built"), "page.md:2: there is no ./dev built")
        self.expect("`./dev built` builds\n\n" + fenced("sh", "true"), "page.md:1: there is no ./dev built")

    def test_a_command_whose_lines_were_broken_anew(self):
        self.expect(fenced("sh", "run --a 1 \\\n  --b 2 --quick\ncd a\\ b"), "")
        self.expect(fenced("sh", "run --a 1 \\ --b 2"), "page.md:2: a backslash that continues a line stands in its")
        self.expect(fenced("sh", "run --a 1 \\ \n  --b 2"), "page.md:2: there is a blank after the backslash")
        self.expect(fenced("sh", "run --a\n  1"), "page.md:2: the line ends with an option, and no backslash")

    def test_json_that_is_none(self):
        self.expect(fenced("json", "{"), "page.md:2: Expecting")

    def test_what_differs_from_its_file(self):
        self.put("a.cpp", "// snippet one\nint i;\n// end\n// snippet two\nint j;\n// end\n")
        one = fenced("cpp", "int i;", "declarations, same as a.cpp snippet one")
        two = fenced("cpp", "int j;", "declarations, same as a.cpp snippet two")
        self.expect(one + two, "")
        self.expect(one, "a.cpp: no page shows the snippet two")
        self.expect(one + two.replace("int j", "int k"), "this is not a.cpp snippet two to the letter")
        self.expect(fenced("cpp", "int i;", "declarations, same as b.cpp"), "there is no b.cpp")

    def test_an_example_of_a_header_without_context(self):
        self.put("include/timing_wheel/one.hpp", "/// Text.\n///\n///     f();\nint f();\n///     g();\nint g();\n")
        self.expect(fenced("sh", "true"), "one.hpp:3: for this example, test/pages/context/headers/one.hpp")
        self.put("test/pages/context/headers/one.hpp", "// cpp: statements\n")
        self.expect(fenced("sh", "true"), "one.hpp:1: 1 directives for the 2 examples")
        self.put("test/pages/context/headers/one.hpp", "// cpp: statements; statements\n")
        self.expect(fenced("sh", "true"), "")

    def test_an_example_of_a_header_that_is_marked_otherwise(self):
        for mark in (r"\code", "@code", FENCE):
            self.put("include/timing_wheel/one.hpp", f"/// Text.\n/// {mark}\n/// f();\n")
            self.expect(fenced("sh", "true"),
                        "include/timing_wheel/one.hpp:2: an example in a comment is marked by four")

    def test_a_comment_after_an_output_that_says_no_more(self):
        self.expect(program("std::cout << 1;  // one"), "page.md:3: a comment after an output says what is printed")

    def test_an_output_that_nothing_can_check(self):
        self.expect(fenced("cpp", 'f();  // prints "1"', "statements"), "only a program can be run")
        self.expect(fenced("text", "1", "printed by the program above"), "there is no program right above")

    def test_the_list_tells_which_headers_of_the_library_each_program_needs(self):
        self.put("include/timing_wheel/more.hpp", "")
        self.put("page.md",
                 program("") + fenced("cpp", "#include <vector>\n#include <timing_wheel/more.hpp>\nint main() {}"))
        with contextlib.redirect_stdout(io.StringIO()) as listed:
            snippets.print_list(self.source)
        self.assertIn(f"page page.md 0 2 {snippets.UMBRELLA} timing_wheel/more.hpp\n", listed.getvalue())

    def test_code_that_is_not_compiled_is_listed_with_its_reason(self):
        self.expect(fenced("cpp", "what?", "not compiled: it is no C++, in fact"), "")
        self.assertIn("page.md:3: cpp, not compiled, it is no C++, in fact", self.listed.getvalue())


class what_is_made_of_a_page(pages):
    def test_a_fragment_stands_in_a_function_of_its_own_with_its_line(self):
        self.put("test/pages/context/one.hpp", "#include <set>\nvoid f();\n")
        page = fenced("cpp", "#include <map>\nf();", "statements, context one, in base, given int i, returns int")
        (lines,) = self.written("Text.\n\n" + page, 1)
        text = "\n".join(lines)
        self.assertEqual(lines[0], f"#include <{snippets.UMBRELLA}>")
        self.assertLess(lines.index("#include <set>"), lines.index("namespace page_md_5 {"))
        self.assertLess(lines.index("namespace page_md_5 {"), lines.index("void f();"))
        self.assertIn("struct snippet : base { int run(int i); };\nint snippet::run(int i) {\n", text)
        self.assertIn(f'#line 5 "{self.source}/page.md"\n\nf();\n}}  // function\n}}  // namespace', text)

    def test_what_continues_stands_in_the_same_function_or_namespace(self):
        page = fenced("cpp", "int i;", "declarations") + fenced("cpp", "g();", "statements, continues")
        (lines,) = self.written(page + fenced("cpp", "h();", "continues"), 1)
        wanted = ["int i;", "g();", "h();", "}  // function", "}  // namespace"]
        self.assertEqual([line for line in lines if line in wanted], wanted)

    def test_two_fragments_do_not_see_each_other(self):
        (lines,) = self.written(fenced("cpp", "int i;", "declarations") * 2, 1)
        self.assertEqual(sum(line.startswith("namespace") for line in lines), 2)

    def test_a_program_is_a_source_of_its_own(self):
        fragments, only = self.written(program("f();") + fenced("cpp", "int i;", "declarations"), 2)
        self.assertEqual(only, [f'#line 2 "{self.source}/page.md"', "int main() {", "f();", "}"])
        self.assertNotIn("f();", fragments)

    def test_what_did_not_change_is_not_written_again(self):
        self.written(program(""), 1)
        (self.source / "out0.cpp").chmod(stat.S_IRUSR)
        self.written(program(""), 1)


class what_a_program_prints(pages):
    def run_page(self, page, prints):
        self.put("page.md", page)
        self.put("program", f"#!/bin/sh\n{prints}\n")
        (self.source / "program").chmod(stat.S_IRWXU)
        with contextlib.redirect_stdout(io.StringIO()):
            snippets.run(self.source, "page.md", 0, self.source / "program")

    def test_is_what_its_comments_say_in_their_order(self):
        page = program('std::cout << a;  // prints "a"\nstd::cout << b;  // prints "b": the last one')
        self.run_page(page, "echo a; echo more; echo b")
        with self.assertRaisesRegex(snippets.fault, 'page.md:4: this program does not print "b" there'):
            self.run_page(page, "echo b; echo a")

    def test_is_all_that_stands_below(self):
        page = program("f();") + fenced("text", "a\n…z", "printed by the program above")
        self.run_page(page, "echo a; echo to z")
        with self.assertRaisesRegex(snippets.fault, "page.md:8: the program above prints something else"):
            self.run_page(page, "echo a; echo to z; echo more")

    def test_counts_only_if_it_ends_well(self):
        with self.assertRaisesRegex(snippets.fault, "page.md:2: this program ended with 3"):
            self.run_page(program("f();"), "exit 3")

    def test_is_not_looked_at_if_the_page_says_why(self):
        self.run_page(program("f();", "program, not run: it never ends"), "exit 3")

    def test_may_have_times_one_percent_off_and_nothing_else(self):
        for expected, line, same in [
            ("1800 ms left", "1799 ms left", True),
            ("1800 ms left", "1700 ms left", False),
            ("1800 timers", "1799 timers", False),
            ("a (1 s) of 2", "a (1 s) of 2", True),
            ("0.5s … 7", "0.5s and 6, 7", True),
            ("a.b", "axb", False),
        ]:
            self.assertEqual(snippets.is_as_expected(expected, line), same, (expected, line))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=1))
