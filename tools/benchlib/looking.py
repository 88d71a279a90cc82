# SPDX-License-Identifier: Apache-2.0
"""What looking at a job costs the service: a full history, and a browser that has the page open."""
import json
import subprocess
import threading
import urllib.request

from .figures import Bar, Measure, Pair, middle
from .keys import PUTS, TURNS
from .programs import Failed, Idle, Service, measure, only
from .run import ANCHOR_CPU, SERVER_CPU
from .traffic import CONNECTIONS, PERIOD_MS

HISTORY = 256  # incidents: the default of --history
NO_HISTORY = ("--history", "0")
JOB = "bench"
EVERY_S = 1  # as often as the page asks
ASKS = ("/status.json?brief=1&", "/history.json?after=0&")  # what it asks for; with no incident left out


class Watched(Service):
    """A service with an HTTP port, whose job has a full history."""

    def __init__(self, run, cpu):
        super().__init__(run.bin, cpu, "--http", "127.0.0.1:0", "--history", str(HISTORY))
        self.run = run
        self.url = self.process.stdout.readline().split(" on ", 1)[1].strip()

    def ask(self, path):
        with urllib.request.urlopen(f"{self.url}{path}job={JOB}", timeout=10) as answer:
            return json.loads(answer.read())

    def fill(self):
        """Each such key is an incident: all processes of the job are to begin anew."""
        words = [f"{self.run.bin}/muster", str(2 * HISTORY)]
        subprocess.run(["sh", "-c", 'for i in $(seq "$1"); do "$0" key put "muster/run/life/$i" why || exit; done', *words],
                       env=self.environment(), stdout=subprocess.DEVNULL, check=True)
        done = subprocess.run([self.run.bin / "muster", "why", "--json"], env=self.environment(), capture_output=True,
                              text=True, check=True)
        there = len(json.loads(done.stdout)["incidents"])
        if there != HISTORY:
            raise Failed(f"the history has {there} incidents, and not {HISTORY}")
        return self


class Page:
    """Asks as the page does, while a `with` lasts."""

    def __init__(self, service):
        self.service, self.over, self.failed = service, threading.Event(), None
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.is_set() and not self.failed:
            try:
                for path in ASKS:
                    self.service.ask(path)
            except (OSError, ValueError) as why:
                self.failed = why
            self.over.wait(EVERY_S)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *details):
        self.over.set()
        self.thread.join()
        if self.failed and not details[0]:
            raise Failed(f"the page was not answered: {self.failed}")


def put(run, service):
    return measure(run.bin / "bench_keys", "-p", "same", PUTS, env=service.environment())


def rate(run, service):
    return only(measure(run.bin / "bench_generator", "-c", ANCHOR_CPU, "muster", service.at,
                        CONNECTIONS, 16, run.arguments.milliseconds))["per_second"]


def watched(run, cpu, drive):
    with Watched(run, cpu) as service, Page(service.fill()):
        return drive(run, service)


def unwatched(run, cpu, drive):
    with Service(run.bin, cpu, *NO_HISTORY) as service:
        return drive(run, service)


def keys(run):
    measures = [Measure(f"{call} with a full history and an open page, one CPU", "without",
                        Bar.at_most(1.1)) for call in ("put", "get")]

    def pair():
        run.pinned_ping_pong()
        turns = [(unwatched(run, ANCHOR_CPU, put), watched(run, ANCHOR_CPU, put)) for _ in range(TURNS)]
        without, among = (middle(reports) for reports in zip(*turns))
        return [Pair.of_p50(among[call], without[call]) for call in ("put", "get")]

    return run.pairs(measures, pair)


def requests(run):
    bar = Bar(">= 90 %", lambda pair: pair.ratio >= 0.9)
    subject = Measure(f"requests, {CONNECTIONS} connections, depth 16, a full history and an open page, two CPUs",
                      "without", bar, "/s")

    def pair():
        run.pinned_ping_pong()
        without = unwatched(run, SERVER_CPU, rate)
        return (Pair(watched(run, SERVER_CPU, rate), without),)

    return run.pairs([subject], pair)


def memory(run):
    """A service that has answered a page keeps some of the memory of its answers, so that is another row."""
    members = run.arguments.idle
    name = f"{members:,} members, a full history{{}}, memory of the service"
    measures = [Measure(name.format(""), "without", Bar.at_most(1.05), "KiB"),
                Measure(name.format(" and an open page"), "without", None, "KiB")]

    def with_members(service, look):
        with Idle(run.bin, SERVER_CPU, "muster", service.at, members, PERIOD_MS):
            return look(service)

    def both(service):
        history_kib = service.memory_kib()
        for path in ASKS:
            service.ask(path)
        return history_kib, service.memory_kib()

    def pair():
        run.pinned_ping_pong()
        with Service(run.bin, ANCHOR_CPU, *NO_HISTORY) as service:
            without = with_members(service, Service.memory_kib)
        with Watched(run, ANCHOR_CPU) as service:
            service.fill()  # before they come: each member hears of each key
            return [Pair(kib, without) for kib in with_members(service, both)]

    return run.pairs(measures, pair)
