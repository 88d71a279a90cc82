# SPDX-License-Identifier: Apache-2.0
"""The programs that a page's ```python blocks make, and how the page says that they are run.

A block that imports something begins a program; one that imports nothing continues the program above it.
A comment directly above a block says otherwise, and has code that the reader takes for granted:

  <!-- python: WORDS
  CODE
  -->

WORDS, separated by commas, are `begins` or `continues`; `exits 75`: the exit code that is expected of the
program; `run -n 4 --spares 1`: what is typed behind `muster`. CODE, if there is any, is a part of the block
that is not shown, before the part that is; `...` alone in its line is where the block goes.

A program is the file NAME.py if its first line that is seen is `# NAME.py`. A line of a ```sh or ```console
block that has `muster ` or `python3 ` in it and files of the page's programs is how these are run, as it
stands. A program that no line runs is run by `muster run -n 2 -- python3 FILE`. One without a name is the
only file that the next ```sh block runs and that no block is called after."""

import ast
import dataclasses
import re

FENCE = re.compile(
    r"(?:^<!-- python:(?P<words>[^\n]*?)(?:\n(?P<hidden>.*?))??\s*-->\n\s*)?"
    r"^```(?P<kind>\w*)[^\n]*\n(?P<code>.*?)^```$",
    re.M | re.S)
NAME = re.compile(r"#\s*(?:\S*/)?(\w+\.py)\b")
FILE = re.compile(r"(?<![\w/.-])\w+\.py\b")
PLAIN = "run -n 2"
WORD = re.compile(r"begins|continues|exits (?P<code>\d+)|(?P<flags>run .+)")


class Unclear(Exception):
    """A page says something of its blocks that this does not understand."""


@dataclasses.dataclass
class Program:
    line: int  # of its first block in the page
    text: str = ""
    name: str = ""
    flags: str = PLAIN
    code: int = 0

    def imports(self):
        """The packages that it imports, anywhere in it."""
        for node in ast.walk(ast.parse(self.text)):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield node.module.partition(".")[0]


@dataclasses.dataclass
class Command:
    """What is typed, where the files of these programs are."""

    line: int
    typed: str
    programs: list

    @property
    def code(self):
        return max(program.code for program in self.programs)


def imports_at_once(code):
    """Whether a statement of it, outside of all functions and the like, is an import."""
    try:
        return any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.parse(code).body)
    except SyntaxError:  # continues in the middle of a function
        return False


def words_of(said, line):
    """{"begins" or "continues" or "code" or "flags": value} of the words in a comment."""
    found = {}
    for word in filter(None, (one.strip() for one in said.split(","))):
        match = WORD.fullmatch(word)
        if not match:
            raise Unclear(f"line {line}: {word!r} is none of begins, continues, exits N, run FLAGS")
        if match["code"]:
            found["code"] = int(match["code"])
        elif match["flags"]:
            found["flags"] = match["flags"]
        else:
            found[word] = True
    return found


def whole(code, hidden):
    """A block with the code of its comment around it, as far as that has a place for it."""
    if not hidden:
        return code
    before, place, after = re.match(r"(.*?)(?:^( *)\.\.\.[ ]*$\n?(.*))?\Z", hidden + "\n", re.S | re.M).groups()
    if place:
        code = re.sub(r"^(?=.)", place, code, flags=re.M)
    return before + code + (after or "")


def parts(page):
    """(line, kind, words, code, hidden) of each fenced block."""
    found = list(FENCE.finditer(page))
    above = [match for match in found if match["words"] is not None]
    if len(above) != len(re.findall(r"^<!-- python:", page, re.M)):
        raise Unclear("a comment for python is not directly above a block")
    for match in found:
        line = page.count("\n", 0, match.start("kind")) + 1
        words = words_of(match["words"] or "", line)
        yield line, match["kind"], words, match["code"], match["hidden"]


def read(page):
    """(programs, commands) of a page, in its order."""
    programs, commands = [], []
    waiting = None  # the program that the next shell block may give a name
    for line, kind, words, code, hidden in parts(page):
        if kind != "python" and words:
            raise Unclear(f"line {line}: a comment for python above a block of {kind or 'text'}")
        if kind == "python":
            waiting = add(programs, line, words, code, hidden)
        elif kind in ("sh", "console", "bash"):
            if waiting and not waiting.name:
                name_by(waiting, code, {program.name for program in programs})
            commands += [(line, one.removeprefix("$ ")) for one in typed(code)]
            waiting = None
    for program in programs:
        program.name = program.name or f"block{program.line}.py"
    return programs, commands_of(programs, commands)


def add(programs, line, words, code, hidden):
    text = whole(code, hidden)
    begins = "begins" in words or ("continues" not in words and imports_at_once(text))
    if begins or not programs:
        if not begins:
            raise Unclear(f"line {line}: the first block imports nothing, and there is none to continue")
        programs.append(Program(line))
    program = programs[-1]
    named = NAME.match(code)
    if named and begins:
        program.name = named[1]
    program.text += text
    program.flags = words.get("flags", program.flags)
    program.code = words.get("code", program.code)
    return program


def typed(code):
    return [line.split("  #")[0].rstrip() for line in re.sub(r"\\\n\s*", "", code).splitlines()
            if re.search(r"\b(muster|python3) ", line) and FILE.search(line)]


def name_by(program, code, taken):
    names = {name for line in typed(code) for name in FILE.findall(line)} - taken
    if len(names) == 1:
        program.name = names.pop()


def commands_of(programs, lines):
    by_name = {}
    for program in programs:
        if program.name in by_name:
            raise Unclear(f"line {program.line}: there is a {program.name} already")
        by_name[program.name] = program
    commands = []
    for line, text in lines:
        files = FILE.findall(text)
        if files and all(name in by_name for name in files):
            commands.append(Command(line, text, [by_name[name] for name in dict.fromkeys(files)]))
    run = {id(program) for command in commands for program in command.programs}
    for program in programs:
        if id(program) not in run:
            line = f"muster {program.flags} -- python3 {program.name}"
            commands.append(Command(program.line, line, [program]))
    return sorted(commands, key=lambda command: command.line)
