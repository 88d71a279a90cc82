# SPDX-License-Identifier: Apache-2.0
"""The page at `/` of `--http`, in a real Chromium and with real jobs.

behaviour: http / The page
"""

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import urllib.error
import urllib.request

import pytest

from browsing import Browser, needs_browser
from conftest import ROOT, WAIT_S, pause, sanitized
from restarting import job  # noqa: F401
from running import read, service_of, until
from saving import loop  # noqa: F401
from test_cluster_status import BUSY, KEY
from test_hang import Hangs
from test_stragglers import pace  # noqa: F401
from wire import OK, Wire, field

PARTS = ("/", "/page.css", "/page.js")
SIZE_MAX = 30 << 10
SHOWN_S = 2  # after the service knows of it, where the machine has nothing else to do
EVERY_MS = int(re.search(r"EVERY_MS = (\d+)", (ROOT / "src" / "service" / "page" / "page.js").read_text())[1])
# In the page: how often it has asked, and what its head said then, whenever that changes.
NOTES = """
const ask = window.fetch, header = document.querySelector("header");
window.turns = 0;
window.said = [];
window.fetch = (...words) => {
  window.turns += words[0].includes("status.json");
  return ask(...words);
};
new MutationObserver(() => window.said.push([window.turns, header.textContent]))
  .observe(header, {subtree: true, childList: true, characterData: true});
"""
REFRESH_MS = 100
MANY = 4096
SCRIPT = "<script>document.title='taken over'</script><img src=x onerror=alert(1)>"


def get(url, **headers):
    """(status, headers, body)"""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=WAIT_S) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def url_of(process):
    """Of the HTTP port of a service or a run."""
    for lines in process.out, process.log:
        if found := lines.having("health and metrics on "):
            return found[0].split(" on ", 1)[1]
    return process.log.wait_for("health and metrics on ").split(" on ", 1)[1]


def story(url, **arguments):
    query = "&".join(f"{key}={value}" for key, value in arguments.items())
    return json.loads(read(f"{url}/history.json?{query}"))


@pytest.fixture
def served(serve):
    """served(flags...) -> a service and the address of its page."""

    def start(*args, **options):
        service = serve("--http", "127.0.0.1:0", *args, **options)
        return service, service.out.wait_for("health and metrics on ").split(" on ", 1)[1]

    return start


# ---- what is served ----


def test_the_page_is_small_and_needs_no_other_address(served):
    """A browser gets the page: a document, a style and a script, below 30 KiB together and with no
    address of another host in them. It may run and read nothing else, be part of no other page,
    and keeps nothing."""
    _, url = served()
    size = 0
    for path in PARTS:
        code, headers, body = get(url + path)
        assert code == 200
        size += len(body.encode())
        assert not re.search(r"(https?:)?//[a-z0-9]", body.replace("http://www.w3.org/2000/svg", "")), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b", body), path
    assert 10000 < size < SIZE_MAX
    assert headers["Content-Type"] == "text/javascript; charset=utf-8"
    for path in (*PARTS, "/status.json", "/history.json", "/livez"):
        _, headers, _ = get(url + path)
        assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'; ")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"


def test_the_page_is_told_to_no_name_that_is_not_ours(served):
    """The page, its parts and the history are asked for under a foreign name, as a browser does for
    a page of another site whose name points here. The answer is 403, in one line."""
    _, url = served()
    for path in (*PARTS, "/status.json?brief=1", "/history.json"):
        for host in "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "[evil]", "":
            code, _, body = get(url + path, Host=host)
            assert code == 403 and len(body.splitlines()) == 1
            assert body.startswith(path.split("?")[0] + " is told where the Host of the request is an address, ")
        for host in "127.0.0.1:1", "localhost", "[::1]:80":
            assert get(url + path, Host=host)[0] == 200


@contextlib.contextmanager
def ranks(service, size, job="default", hosts=1):
    """Members that say they are ranks of as many hosts, all in the first generation."""
    kept = []
    for index in range(size):
        kept.append(Wire(service.address))
        assert kept[-1].open_rank(index, size, job=job, host=f"b{index * hosts // size:03}",
                                  pid=1000 + index).status == OK
    for wire in kept:
        wire.post("join")
    for wire in kept:
        wire.receive()
    yield kept
    for wire in kept:
        wire.close()


def kill(service, index, size, words, hosts=1, job="default"):
    """The agent of its host reports the death of such a member."""
    agent = Wire(service.address)
    assert agent.open(job=job, host=f"b{index * hosts // size:03}").status == OK
    assert agent.ask("lost", field(1, index) + field(2, 1000 + index) + field(3, 2) + field(4, 9 << 1) +
                     field(5, words)).number == 1


def test_the_history_is_that_of_the_command(served, muster):
    """`/history.json` and `muster why --json` are read in the same state. They have the same bytes,
    but for the ages, and for the advice and the end of the run, which the command adds. `?after=N` leaves out the incidents up to number N, `?job=` names another job,
    and one that is not there is 404. [Status]"""
    service, url = served("--lease", "60s")
    with ranks(service, 3), ranks(service, 2, job="other"):
        kill(service, 1, 3, "oops \"\n\xe9")
        ages = lambda text: re.sub(r'"(ago|age|restart|without)_ms":\d+|"without":\[.*?\]', "", text)
        code, headers, body = get(url + "/history.json")
        assert (code, headers["Content-Type"]) == (200, "application/json")
        told = muster("why", "--json").stdout
        assert ages(body) == re.sub(r',"advice":.*,"run":null', "", ages(told))
        assert [one["what"] for one in story(url)["incidents"]] == ["started", "lost"]
        assert [one["what"] for one in story(url, after=1)["incidents"]] == ["lost"]
        assert story(url, after=2)["incidents"] == []
        assert [one["after"] for one in story(url, job="other")["incidents"]] == [2]
        assert get(url + "/history.json?job=none")[0::2] == (404, "the service has no job of this name\n")


def test_a_brief_status_has_members_by_host(served):
    """`/status.json?brief=1` is asked for. It lists ranks by host with index, rank and state, in full
    only those that are not present, and with each open round all ranks that it waits for. Of more
    than 2,000 it has counts alone. [Status]"""
    service, url = served("--lease", "10m")
    with ranks(service, 6, hosts=2) as wires:
        for wire in wires[:3]:
            wire.post("round", field(1, 1) + field(2, "epoch"))
        until(lambda: [one["arrived"] for one in json.loads(read(url + "/status.json"))["rounds"]] == [3])
        brief = json.loads(read(url + "/status.json?brief=1"))
        assert brief["members"] == []
        assert brief["states"] == {"present": 6}
        assert [of["host"] for of in brief["by_host"]] == ["b000", "b001"]
        assert brief["by_host"][1] == {"host": "b001", "states": {"present": 3},
                                       "places": [["rank", index, index, "present"] for index in (3, 4, 5)]}
        assert [round["absent"] for round in brief["rounds"]] == [[3, 4, 5]]
        kill(service, 4, 6, "oops", hosts=2)
        brief = until(lambda: (now := json.loads(read(url + "/status.json?brief=1")))["members"] and now)
        assert [(one["index"], one["state"], one["text"]) for one in brief["members"]] == [(4, "lost", "oops")]
        assert brief["by_host"][1]["states"] == {"present": 2, "lost": 1}
        full = json.loads(read(url + "/status.json"))
        assert set(brief) - set(full) == {"states", "by_host"} and set(full) <= set(brief)
        assert len(full["members"]) == 6


# ---- in a browser ----


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    one = Browser(tmp_path_factory.mktemp("chromium"))
    yield one
    one.close()


class Page:
    """The page of a job, open in the browser."""

    def __init__(self, browser, url, job=""):
        self.browser, self.url = browser, url
        browser.look("light", 1280, 900)
        browser.open(url + "/" + job)
        browser.shows("#facts", "generation")
        browser.run(NOTES)

    def names(self, knows, *words):
        """The head of the page has these words soon after the service knows it, and they stay in the
        list of incidents. `knows` are words of an incident."""
        until(lambda: any(all(word in one["sentence"] for word in knows) for one in story(self.url)["incidents"]))
        known = self.browser.run("return window.turns")
        self.browser.shows("header", *words)
        shown = next(asked for asked, text in self.browser.run("return window.said")
                     if all(word in text for word in words))
        assert (shown - known) * EVERY_MS <= SHOWN_S * 1000, (known, shown)
        self.browser.shows("#incidents", *words)

    def places(self):
        """What the grid says, by place."""
        return self.browser.run("return [...document.querySelectorAll('.cell')].map((cell) => cell.ariaLabel)")

    def in_order(self, *unreachable):
        """No error, and no request to another address. `unreachable`: what the console may say of a
        service that was away."""
        self.browser.collect()
        errors = [entry["message"] for entry in self.browser.console
                  if not any(word in entry["message"] for word in unreachable)]
        assert errors == []
        assert len(self.browser.requests) > len(PARTS)
        assert [url for url in self.browser.requests if not url.startswith((self.url + "/", "data:,"))] == []


@pytest.fixture
def page(chromium):
    return lambda url, job="": Page(chromium, url, job)


AWAY = ("net::ERR_CONNECTION_REFUSED", "net::ERR_CONNECTION_RESET", "net::ERR_EMPTY_RESPONSE",
        "net::ERR_SOCKET_NOT_CONNECTED")
FLAGS = ("--http", "127.0.0.1:0", "--min-size")


@needs_browser
def test_a_kill_is_on_the_page(job, page):  # noqa: F811
    """A rank is killed, and started again. The page names it and the signal within 2 s, shows how long
    the job was without all ranks, and keeps the incident when all run again."""
    job.run(3, "--job", "page-kill", *FLAGS, "3")
    entered = job.entered(3, generation=1)
    shown = page(url_of(job.runner))
    assert sorted(shown.places()) == ["rank #0: here", "rank #1: here", "rank #2: here"]
    mark = job.mark()
    os.kill(entered[1].pid, signal.SIGKILL)
    shown.names(["(#1)", "was killed"], "rank 1 (#1)", "was killed by signal 9 (Killed)")
    again = job.entered(3, mark, generation=2)
    shown.browser.shows("#incidents", "restarted with 3 of 3 ranks, generation 2")
    until(lambda: sorted(shown.places()) == ["rank #0: here", "rank #1: here", "rank #2: here"])
    shown.browser.shows("#line", "g2")
    says = shown.browser.run("return document.querySelector('.band').dataset.says")
    assert re.match(r"without all ranks for \d.*: restarted with 3 of 3 ranks", says)
    shown.browser.shows("#losses", socket_name())
    shown.in_order()
    job.order(again, "ok")
    job.finish(3)
    job.ended()


@needs_browser
def test_time_with_fewer_ranks_is_on_the_page(job, page):  # noqa: F811
    """A rank of three is killed for which no restart is left, and two go on. The timeline has a band for
    the restart and a paler one for the time with two ranks, which grows while they run."""
    job.run(3, "--job", "page-fewer", *FLAGS, "2", "--max-restarts", "0")
    entered = job.entered(3, generation=1)
    shown = page(url_of(job.runner))
    mark = job.mark()
    os.kill(entered[1].pid, signal.SIGKILL)
    again = job.entered(2, mark, generation=2)
    says = lambda: shown.browser.run("return [...document.querySelectorAll('.fewer')].map((band) => band.dataset.says)")
    shown.browser.until(lambda: len(says()) == 1)
    first = says()
    assert re.fullmatch(r"without all ranks for \d.*: restarted with 2 of 3 ranks, generation 2.*", first[0])
    shown.browser.until(lambda: says() != first)
    gaps = story(shown.url)["without"]
    assert [gap["idle"] for gap in gaps[-2:]] in ([True, False], [False])  # a restart may take no whole millisecond
    assert len({gap["number"] for gap in gaps}) == 1
    bands = shown.browser.run("return document.querySelectorAll('.band').length")
    assert bands == len(gaps)
    shown.in_order()
    job.order(again, "ok")
    job.finish(2)


def socket_name():
    return os.uname().nodename


@needs_browser
def test_a_whole_group_that_restarts_is_on_the_page(job, page):  # noqa: F811
    """A rank asks that all begin again. The page says so, and lists the restart. Last words that are a
    script are text."""
    job.run(2, "--job", "page-again", *FLAGS, "2")
    entered = job.entered(2, generation=1)
    shown = page(url_of(job.runner))
    mark = job.mark()
    job.order(entered[:1], "again")
    again = job.entered(2, mark, generation=2)
    shown.names(["(#0)"], "rank 0 (#0)", "asked")
    mark = job.mark()
    job.order(again[1:], f"fail 3 {SCRIPT}")
    third = job.entered(2, mark, generation=3)
    shown.names(["(#1)", "failed"], "rank 1 (#1)", SCRIPT)
    assert shown.browser.run("return document.querySelectorAll('main script, main img, header script').length") == 0
    assert "taken over" not in shown.browser.run("return document.title.slice(0, 10)")
    shown.in_order()
    job.order(third, "ok")
    job.finish(2)
    job.ended()


@pytest.fixture
def hangs(spawn, env, started, tmp_path):
    folder = pathlib.Path("/tmp") / f"mst-page-{os.getpid()}"
    folder.mkdir()
    made = Hangs(spawn, env, str(folder), started)
    yield made
    made.socket.close()
    shutil.rmtree(folder, ignore_errors=True)


@needs_browser
def test_a_hang_and_a_frozen_rank_are_on_the_page(hangs, page):
    """A rank hangs in a call, and all are interrupted. Then one is stopped (SIGSTOP), and is ended and
    replaced. Each time the page names it, and what it did or did not do."""
    entered = hangs.start(3, *FLAGS, "3")
    shown = page(url_of(hangs.runner))
    mark = hangs.hold(entered[1], "read")
    again = hangs.all_again(3, mark)
    shown.names(["(#1)", "made no progress"], "rank 1 (#1)", "made no progress for ", "blocked in read")
    hangs.pings(again[2])
    mark = hangs.mark()
    os.kill(again[2].pid, signal.SIGSTOP)
    third = hangs.all_again(3, mark)
    shown.names(["(#2)"], "(#2)")
    shown.browser.shows("#incidents", "rank 2 (#2)", "made no progress for ")
    shown.in_order()
    hangs.all_well(third)


@needs_browser
def test_a_straggler_is_on_the_page(pace, page):  # noqa: F811
    """Of 8 ranks that meet in each step one works 30 % longer. The page names it, how much longer its
    work takes and how far it is, marks its place, and says how many steps the job takes per second."""
    run = pace("barrier", 5, 30, "--http", "127.0.0.1:0")
    shown = page(url_of(run))
    shown.names(["(#5)", "is a straggler"], "rank 5 (#5)", "is a straggler")
    shown.browser.shows("#stragglers", "rank #5 on ", "times the median; step ")
    shown.browser.until(lambda: "rank #5: straggler" in shown.places() and "rank #4: here" in shown.places())
    shown.browser.shows("#facts", "steps per second")
    shown.in_order()


@needs_browser
def test_a_preemption_is_on_the_page(loop, page):  # noqa: F811
    """A notice of preemption is given. The page counts down to its deadline, says which step is agreed
    and lists the notice."""
    trains = loop(2, "--http", "127.0.0.1:0", LOOP_SLOW=1).trains()
    shown = page(url_of(trains.run))
    done = trains.muster("preempt", "-j", trains.job, "--in", "50s", "--reason", "b2 goes away", "1")
    assert done.returncode == 0, done.stderr
    shown.names(["notice of preemption for #1"], "notice of preemption for #1")
    shown.browser.shows("#notices", "notice for #1: ", "left; b2 goes away (hand, ")
    before = shown.browser.text("#notices")
    shown.browser.until(lambda: shown.browser.text("#notices") != before)
    shown.browser.shows("#notices", "is agreed")
    shown.in_order()
    (trains.dir / "go").touch()
    assert trains.run.wait() == 75, trains.log.lines


@needs_browser
def test_the_page_goes_on_when_the_service_was_killed(job, page):  # noqa: F811
    """The service of `muster run` is killed while the page is open. The page says that it does not
    answer, goes on by itself when the run has started it again at the same port, and lists that."""
    # It is away for what the page waits before it says so, and no rank is to miss it.
    job.run(2, "--job", "page-service", "--lease", "60s", *FLAGS, "2")
    entered = job.entered(2, generation=1)
    shown = page(url_of(job.runner))
    killed = service_of(job.runner.pid)
    os.kill(killed, signal.SIGSTOP)  # or it is back before the page asks
    shown.browser.shows("#link", "The service ")
    assert shown.browser.run("return document.body.className") == "stale"
    os.kill(killed, signal.SIGKILL)
    shown.browser.shows("header", "the service was started again")
    shown.browser.shows("#incidents", "the service was started again")
    shown.browser.until(lambda: shown.browser.run("return document.getElementById('link').hidden"))
    assert shown.browser.run("return document.body.className") == ""
    shown.in_order(*AWAY, "503 (Service Unavailable)")
    job.order(entered, "ok")
    job.finish(2)
    job.ended()


@needs_browser
def test_a_plain_program_that_begins_anew_is_on_the_page(spawn, page, env, tmp_path):
    """A program without muster fails once, and all its processes are started anew. The page says so with
    the reason, shows its ranks as running without muster, and how many restarts are left."""
    once = f"test -e {tmp_path}/again || {{ sleep 600 & echo $! >{tmp_path}/pid; wait; exit 3; }}; exec sleep 600"
    run = spawn("run", "-n", 2, "-j", "page-plain", "--http", "127.0.0.1:0", "--max-restarts", "2", "--", "sh", "-c", once,
                env=env)
    shown = page(url_of(run))
    both = ["rank #0: without muster", "rank #1: without muster"]
    shown.browser.until(lambda: sorted(shown.places()) == both)
    (tmp_path / "again").touch()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    shown.names(["all processes are to begin anew (1)"], "all processes are to begin anew (1): #", "ended with status 3")
    shown.browser.until(lambda: sorted(shown.places()) == both)
    shown.browser.shows("#facts", "1 left")
    assert shown.browser.run("return document.querySelector('.sign.bad').textContent") == "↻"
    shown.in_order()
    run.process.terminate()
    run.wait()


FASTER = """{ const real = window.fetch;
window.fetch = async (...args) => {
  const answer = await real(...args), text = await answer.text();
  const longer = text.replace(/"((?:ago|age|from|to)_ms)":(\\d+)/g, (_, name, ms) => `"${name}":${ms * 100000}`);
  return new Response(args[0].startsWith("history") ? longer : text, answer);
}; }"""


@needs_browser
def test_the_buttons_of_time(served, chromium):
    """The page is open on a job that is older than an hour: its clock is made to run faster. Two buttons
    choose the last hour or the whole run. Each says which is chosen, and the whole run has the marks of
    its beginning, which the last hour has not; of a younger job there are no buttons."""
    service, url = served("--lease", "10m")
    with ranks(service, 3):
        shown = Page(chromium, url)
        look = shown.browser.run
        assert look("return document.querySelector('.range').hidden")
        script = chromium.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": FASTER})
        try:
            shown = Page(chromium, url)
            shown.browser.until(lambda: not look("return document.querySelector('.range').hidden"))
            pressed = lambda: look("return ['hour', 'whole'].map((id) => document.getElementById(id).ariaPressed)")
            numbers = lambda: look("return [...document.querySelectorAll('#line [data-number]')].map((one) => one.dataset.number)")
            assert pressed() == ["true", "false"]
            shown.browser.until(lambda: numbers() == [])
            look("document.getElementById('whole').click()")
            assert pressed() == ["false", "true"]
            assert numbers() == ["1"]
            shown.browser.shows("#line", "g1")
            look("document.getElementById('hour').focus(); document.activeElement.click()")
            assert pressed() == ["true", "false"]
            assert numbers() == []
            shown.in_order()
        finally:
            chromium.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@needs_browser
def test_open_rounds_and_other_jobs_are_on_the_page(served, page):
    """Ranks wait in a round. The page lists it with all that it waits for. Another job of the service
    is a link to its own page."""
    service, url = served("--lease", "10m")
    with ranks(service, 12, hosts=3) as wires, ranks(service, 2, job="other <b>"):
        shown = page(url)
        for wire in wires[:2] + wires[6:]:
            wire.post("round", field(1, 1) + field(2, "epoch"))
        shown.browser.shows("#rounds", "'epoch' (0): 8 of 12", "waits for #2–#5")
        shown.browser.shows("#jobs", "other <b> 2 of 2")
        shown.browser.run("document.querySelector('#jobs a').click()")
        shown.browser.shows("#job", "other <b>")
        shown.browser.shows("#facts", "2 of 2")
        shown.in_order()


@needs_browser
def test_closures_are_on_the_page(served, page):
    """A cluster of the job has closures in its queue. The page lists how many wait and run, on how many
    workers, and which closure waits and which runs longest."""
    service, url = served("--lease", "10m")
    assert service.wire().put(KEY.format("default"), BUSY).status == OK
    shown = page(url)
    shown.browser.shows("#clusters tbody", "default")
    cells = shown.browser.run("return [...document.querySelectorAll('#clusters td')].map((cell) => cell.textContent)")
    assert cells == ["default", "12", "8", "2 of 3", "1034.5", "2"]
    shown.browser.shows("#clusters ul", "oldest: closure 17 resize, for 61 min, waits for slot")
    shown.browser.shows("#clusters ul", "longest: closure 5 train, for 3 min, on worker 1")
    shown.in_order()


@needs_browser
def test_the_page_is_read_by_keyboard_and_screen_reader(served, page):
    """A reader moves through the places with the arrow keys, and through the marks of the timeline
    with the tabulator. Each says in words what its colour says; the sentence is live text, which does
    not change with each second that passes; at 400 pixels nothing is wider than the window."""
    service, url = served("--lease", "10m")
    with ranks(service, 12, hosts=3):
        kill(service, 7, 12, "out of memory", hosts=3)
        shown = page(url)
        look = shown.browser.run
        shown.browser.shows("#hosts", "×7")
        look("document.querySelector('.cell').focus()")
        key = lambda name: look("document.activeElement.dispatchEvent(new KeyboardEvent('keydown',"
                                " {key: arguments[0], bubbles: true}))", name)
        for name in "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight":
            key(name)
        assert look("return document.activeElement.ariaLabel") == "rank #7: lost"
        assert "on b001, process 1007; signal 9; " in shown.browser.text("#one")
        assert "last words: out of memory" in shown.browser.text("#one")
        assert look("return [...document.querySelectorAll('.cell')].filter((cell) => cell.tabIndex === 0).length") == 1
        look("document.activeElement.click()")
        look("document.querySelector('#line [data-number=\"2\"]').focus()")
        shown.browser.shows("#mark", "rank 7 (#7) on b001 was killed by signal 9 (Killed)")
        said, sentence = shown.browser.text("[role=status]"), shown.browser.text("h1")
        assert "rank 7 (#7) on b001 was killed by signal 9 (Killed)" in said
        shown.browser.until(lambda: shown.browser.text("h1") != sentence)  # "interrupted for 3.2 s"
        assert shown.browser.text("[role=status]") == said
        assert look("return document.querySelector('#incidents i').ariaHidden") == "true"
        for width in 400, 1280:
            shown.browser.look("dark", width, 900)
            assert look("return document.documentElement.scrollWidth") <= width
        shown.in_order()


@needs_browser
def test_the_page_is_sound_html(served, page):
    """The document as it is sent, and as it is once the script has filled it in, has no finding of an
    HTML checker."""
    import html5lib

    service, url = served("--lease", "10m")
    with ranks(service, 12, hosts=3):
        kill(service, 7, 12, SCRIPT, hosts=3)
        shown = page(url)
        shown.browser.shows("#incidents", SCRIPT)
        filled = "<!doctype html>" + shown.browser.run("return document.documentElement.outerHTML")
        for text in get(url + "/")[2], filled:
            parser = html5lib.HTMLParser(strict=True)
            parser.parse(text)
            assert parser.errors == []
            if tidy := shutil.which("tidy"):
                done = subprocess.run([tidy, "-e", "-q", "--drop-empty-elements", "no"], input=text, text=True,
                                      capture_output=True, timeout=WAIT_S)
                assert (done.returncode, done.stderr) == (0, "")
        ids = shown.browser.run("return [...document.querySelectorAll('[id]')].map((node) => node.id)")
        assert len(ids) == len(set(ids))


@needs_browser
@pytest.mark.skipif(sanitized(), reason="a sanitizer measures nothing")
def test_many_members_are_hosts_and_a_refresh_stays_short(served, page):
    """The job has 4,096 members on 512 hosts. The page shows a cell for each host, and asks and draws
    within 100 ms."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < MANY + 256:
        pytest.skip(f"needs {MANY} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (MANY + 256, hard))
    service, url = served("--lease", "10m")
    with ranks(service, MANY, hosts=512) as wires:
        shown = page(url)
        assert len(shown.places()) == 512
        wires[9].close()
        shown.browser.until(lambda: "b001: 1 silent, 7 here" in shown.places())
        # The best of them: a loaded machine is not what is looked at, so until it has a quiet moment.
        shown.browser.until(lambda: float(shown.browser.run("return document.body.dataset.ms")) < REFRESH_MS,
                            patience_s=4 * WAIT_S)
        shown.in_order()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def seal(wires, generation):
    """They go to the seal of the next generation."""
    for wire in wires:
        wire.post("round", field(1, generation) + field(2, "muster/seal") + field(6, 1) + field(9, 1))


@needs_browser
def test_the_pictures_of_the_pages_are_what_the_browser_shows(serve, chromium, tmp_path):
    """Of 64 ranks on 8 hosts one was killed and replaced, and another one was killed since. The pictures
    of README and docs are made of this: `make pictures`."""
    service = serve("--http", "127.0.0.1:0", "--addr", "127.0.0.1:0", "--insecure", "--job", "train", "--lease", "10m")
    url = url_of(service)
    size, hosts, job = 64, 8, "train"
    with ranks(service, size, job=job, hosts=hosts) as wires:
        folder = pathlib.Path(os.environ.get("PICTURES", tmp_path))

        def lasts(what, seconds):
            """A picture is of a job in which that was so for a while."""
            until(lambda: "PICTURES" not in os.environ or
                  (last := story(url, job=job)["incidents"][-1])["what"] == what and last["ago_ms"] > 1000 * seconds)

        lasts("started", 9)
        kill(service, 21, size, "CUDA out of memory", hosts, job)
        wires[21].close()
        lasts("lost", 2)
        seal(wires[:21] + wires[22:63], 1)
        wires[21] = Wire(service.address)
        assert wires[21].open_rank(21, size, job=job, host="b002", pid=2021).status == OK
        wires[21].post("join")
        service.log.wait_for("member-ready #21", count=2, meanwhile=wires[63].renew)
        seal(wires[63:], 1)
        for wire in wires:
            wire.receive()
        lasts("restarted", 9)
        kill(service, 42, size, "NCCL: unhandled system error", hosts, job)
        wires[42].close()
        seal(wires[:42] + wires[43:60], 2)
        page = Page(chromium, url, "?job=train")
        page.browser.shows("h1", "rank 42 (#42) on b005 was killed by signal 9 (Killed)")
        page.browser.shows("#rounds", "'muster/seal'")
        lasts("lost", 4)
        for name, scheme, width in ("page", "light", 1120), ("page-phone", "dark", 400):
            page.browser.look(scheme, width, 500)
            page.browser.until(lambda: page.browser.run("return document.getElementById('line').firstChild."
                                                        "getBoundingClientRect().right <= innerWidth"))
            page.browser.picture(folder / f"{name}.png")
            png = (folder / f"{name}.png").read_bytes()
            assert png.startswith(b"\x89PNG") and 10_000 < len(png) < 200_000
        page.in_order()
