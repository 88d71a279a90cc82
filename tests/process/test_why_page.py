# SPDX-License-Identifier: Apache-2.0
"""`muster why --html`: the story of a job in one file.

behaviour: program / muster why
"""

import json
import os
import re
import shutil
import subprocess

import pytest

from restarting import job  # noqa: F401

html5lib = pytest.importorskip("html5lib")
EVIL = "<script>alert(1)</script>&amp;\"'"
SPACE = "{http://www.w3.org/1999/xhtml}"
DRAWN = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def page(job, muster, tmp_path):
    """A page of a job in which a rank failed with such words, and what `muster why --json` says."""
    path = tmp_path / "why.html"
    job.run(2, "--job", "why-page")
    ranks = job.entered(2, generation=1)
    mark = job.mark()
    job.order(ranks[:1], "fail 3 " + EVIL)
    again = job.entered(2, mark, generation=2)
    story = json.loads(muster("why", "why-page", "--json").stdout)
    done = muster("why", "why-page", "--html", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    job.order(again, "ok")
    job.finish(2)
    job.ended()
    return path, story


def test_a_page_is_whole_and_says_what_happened(page):
    """The story is written as a page. It is HTML without an error, has the sentence of each incident
    and a mark for it in its drawing, and the same as JSON in it for a program."""
    path, story = page
    document = html5lib.HTMLParser(strict=True).parse(path.read_text())
    text = "".join(document.itertext())
    cells = ["".join(cell.itertext()) for cell in document.iter(f"{SPACE}td")]
    assert [one["sentence"] for one in story["incidents"]] == cells[2::3]
    assert "restarted 1 time" in text and story["advice"] in text
    marks = [mark.find(f"{DRAWN}title").text for mark in document.iter(f"{DRAWN}line")]
    assert [mark.split(" ", 1)[1] for mark in marks] == cells[2::3]
    bands = [band.get("class") for band in document.iter(f"{DRAWN}rect")]
    assert bands == ["base"] + ["idle"] * (story["restart_ms"] > 0)
    (data,) = document.iter(f"{SPACE}script")
    inside = json.loads(data.text)
    assert [one["sentence"] for one in inside["incidents"]] == cells[2::3]


@pytest.mark.skipif(shutil.which("tidy") is None, reason="there is no tidy here")
def test_a_checker_of_html_finds_nothing(page):
    """The page is given to a checker of HTML, which has no complaint."""
    said = subprocess.run(["tidy", "-quiet", "-errors", page[0]], capture_output=True, text=True)
    assert (said.returncode, said.stderr) == (0, "")


def test_words_of_a_rank_are_text(page):
    """A rank failed with words that are HTML. The page shows them, and no more: it has no script that
    runs, no address, and forbids both to the reader's browser."""
    path, story = page
    source = path.read_text()
    document = html5lib.HTMLParser(strict=True).parse(source)
    assert story["incidents"][1]["text"] == EVIL
    assert any(EVIL in "".join(cell.itertext()) for cell in document.iter(f"{SPACE}td"))
    assert [node.get("type") for node in document.iter(f"{SPACE}script")] == ["application/json"]
    for node in document.iter():
        assert not {"src", "href", "action", "style"} & set(node.attrib), node.attrib
    (policy,) = [node.get("content") for node in document.iter(f"{SPACE}meta")
                 if node.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert not re.search(r"https?:|url\(|@import", source)
    assert "prefers-color-scheme: dark" in source


def test_a_page_goes_where_it_is_wanted(page, muster, tmp_path):
    """A page is wanted on stdout, in a pipe, behind a link, in a folder that is not there, or with
    JSON. The first three are written, and pipe and link stay; the others are refused in one line."""
    (tmp_path / "run.json").write_text(json.dumps(
        {"job": EVIL, "began_ms": 1, "written_ms": 2, "incidents": [],
         "report": {"ending": "failed", "exit_code": 1, "first_cause": {"message": "no", "stderr": [EVIL]}}}))
    done = muster("why", "run.json", "--html", "-", cwd=tmp_path)
    document = html5lib.HTMLParser(strict=True).parse(done.stdout)
    assert [words.text for words in document.iter(f"{SPACE}pre")] == [EVIL + "\n"]
    assert [title.text for title in document.iter(f"{SPACE}h1")] == ["job " + EVIL]
    done = muster("why", "run.json", "--html", "no/such", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "muster why: --html no/such: No such file or directory\n")
    (tmp_path / "link").symlink_to("linked")
    done = muster("why", "run.json", "--html", "link", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "link").is_symlink() and EVIL not in (tmp_path / "linked").read_text()
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True)
    try:
        done = muster("why", "run.json", "--html", "pipe", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "") and (tmp_path / "pipe").is_fifo()
        assert reader.communicate()[0] == (tmp_path / "linked").read_text()
    finally:
        reader.kill()
    done = muster("why", "run.json", "--html", "-", "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "muster why: --html and --json contradict each other\n")
