# SPDX-License-Identifier: Apache-2.0
"""The pages of the C interface, made from the contracts in the headers: which there are, that man(1) finds them,
and that their links lead somewhere.

behaviour: install / The reference of C
"""

import html.parser
import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

SYMBOLS = (ROOT / "tests/abi/symbols.txt").read_text().split()
HEADERS = sorted(path for path in (ROOT / "include/muster").glob("*.h") if path.stem != "muster")
PAGES = BUILD / "reference"

pytestmark = pytest.mark.skipif(not PAGES.exists(), reason="this tree has no pages: no python3, or a sanitizer")


def types():
    """The structures, enumerations, handles and callback types of the headers, by a pattern of their own."""
    text = "".join(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S) for path in HEADERS)
    found = re.findall(r"^(?:typedef )?(?:struct|enum) (muster_\w+) \{", text, re.M)
    found += re.findall(r"^typedef struct (muster_\w+) muster_\w+;", text, re.M)
    return set(found) | set(re.findall(r"^typedef [\w ]+\b(muster_\w+)\(", text, re.M))


def test_every_function_and_type_has_its_pages():
    """A function is exported, or a header has a structure, an enumeration, a handle or a callback type. It has a
    page in section 3 of the manual, and one for a browser."""
    there = {path.stem for path in (PAGES / "man").glob("*.3")}
    assert there == set(SYMBOLS) | types()
    assert len(SYMBOLS) > 150 and len(types()) > 50
    html_pages = {path.stem for path in (PAGES / "html").glob("*.html")}
    assert there < html_pages
    assert {f"muster-{path.stem}" for path in HEADERS} | {"index", "muster-glossary"} == html_pages - there
    assert {path.stem for path in (PAGES / "man").glob("*.7")} == {f"muster-{path.stem}" for path in HEADERS} | {"muster"}


def test_a_page_has_its_contract():
    """A page has the words of the header's comment, the members with theirs, and the contract of the blocking
    function for one that starts it."""
    def shown(name):
        page = re.sub(r"\\f[BR]|^\.\w+ ?|\\&", "", (PAGES / "man" / name).read_text(), flags=re.M)
        return " ".join(page.replace("\\-", "-").replace("\\(aq", "'").split())

    page = shown("muster_round_broadcast.3")
    assert "Sends the bytes of rank root to all ranks of the generation. On that rank mine is what is sent" in page
    assert "HISTORY Since muster 0.1." in page and "muster_round_broadcast_start (3)" in page
    assert "uint64_t iteration of muster_restart_run(3): the attempt, from 0, the same on all ranks" in shown("muster_view.3")
    start = shown("muster_key_put_start.3")
    assert "starts muster_key_put and returns at once" in start
    assert "CONTRACT OF muster_key_put Writes the key, whether it exists or not." in start
    assert "MUSTER_ROUND_OPTIONS_INIT" in shown("muster_round_options.3")
    # One name, a structure and the function that fills it.
    both = shown("muster_round_count.3")
    assert "struct muster_round_count {" in both and "void muster_round_count(" in both


def test_man_finds_every_page(tmp_path):
    """`mandb` reads the pages. `apropos` finds each by its name, with what it does."""
    if not shutil.which("mandb"):
        pytest.skip("man-db is not installed: tools/deps --test")
    man = tmp_path / "man"
    for path in (PAGES / "man").iterdir():
        section = man / f"man{path.suffix[1:]}"
        section.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, section)
    config = tmp_path / "man_db.conf"
    config.write_text(f"MANDATORY_MANPATH {man}\nMANDB_MAP {man} {tmp_path / 'cat'}\n")
    env = {**os.environ, "MANPATH": str(man), "LC_ALL": "C.UTF-8", "COLUMNS": "400"}
    made = subprocess.run(["mandb", "-C", config, "-c", "-q", man], env=env, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    said = subprocess.run(["apropos", "-C", config, "-l", "-r", "."], env=env, capture_output=True, text=True).stdout
    found = dict(re.findall(r"^(\S+ \(\d\)) +- (.+)$", said, re.M))
    assert set(found) == {f"{path.stem} ({path.suffix[1:]})" for path in (PAGES / "man").iterdir()}
    assert found["muster_exit_code (3)"] == "the exit code for a program"
    said = subprocess.run(["apropos", "-C", config, "muster"], env=env, capture_output=True, text=True).stdout
    assert len(said.splitlines()) == len(found)


class Page(html.parser.HTMLParser):
    """What a page links to, and whether each element that it opens is closed."""

    def __init__(self, path):
        super().__init__()
        self.links, self.open, self.text, self.outside = [], [], "", []
        self.feed(path.read_text())
        self.close()

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_links_of_the_pages_lead_somewhere():
    """A page for a browser is opened. Its elements are closed in order, its links are to pages that are there, to
    none of another address, and each page can be reached from the first one."""
    reached, new = set(), {"index.html"}
    while new:
        name = new.pop()
        reached.add(name)
        if name.endswith(".html"):
            page = Page(PAGES / "html" / name)
            assert page.open == [], name
            assert all((PAGES / "html" / link).is_file() for link in page.links), name
            new |= set(page.links) - reached
    assert reached == {path.name for path in (PAGES / "html").iterdir()}


def test_a_man_page_refers_to_what_is_there():
    """A page of the manual refers to others. Those that are muster's are there."""
    ours = {path.name for path in (PAGES / "man").iterdir()} | {"muster.1", "muster-environment.7"}
    for path in (PAGES / "man").iterdir():
        for name, section in re.findall(r"^\.BR (muster\S*) \((\d)\)", path.read_text().replace("\\-", "-"), re.M):
            assert f"{name}.{section}" in ours, path.name


def test_a_declaration_without_a_comment_is_refused(tmp_path):
    """A function without a comment comes into a header. The pages are not made, and one line names it."""
    for part in ("tools/reference", "docs/glossary.md"):
        (tmp_path / part).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / part, tmp_path / part)
    shutil.copytree(ROOT / "include", tmp_path / "include")
    header = tmp_path / "include/muster/call.h"
    header.write_text(header.read_text().replace(
        "#ifdef __cplusplus\n}", "\nMUSTER_API int muster_call_nothing(muster_call *call);\n\n#ifdef __cplusplus\n}"))
    done = subprocess.run([tmp_path / "tools/reference", "1", "2026-01-01", tmp_path / "out"],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "tools/reference: include/muster/call.h: muster_call_nothing has no comment\n"


def glossary():
    page = (ROOT / "docs/glossary.md").read_text()
    return [row.strip("|").split("|")[0].strip() for row in re.findall(r"^\|.*\|$", page, re.M)][2:]


def test_the_glossary_is_in_the_manual():
    """A word is in the glossary. `man 7 muster` and the pages for a browser have it, and README leads to it."""
    assert {"index", "rank", "incarnation", "generation", "seal", "round", "lease"} <= set(glossary())
    man = (PAGES / "man/muster.7").read_text().replace("\\-", "-")
    browser = Page(PAGES / "html/muster-glossary.html").text
    for word in glossary():
        assert f".TP\n\\fB{word}\\fR\n" in man and word in browser
    assert "](docs/glossary.md)" in (ROOT / "README.md").read_text()
