# SPDX-License-Identifier: Apache-2.0
"""Keys as a program of the library puts and gets them: in plain, beside idle members, through TLS,
and onto the disk."""
import contextlib
import os
import tempfile

from .figures import Bar, Measure, Pair, middle
from .programs import Idle, Service, measure, only
from .run import ANCHOR_CPU, SERVER_CPU
from .traffic import PERIOD_MS

SYNCED_MS = 1500  # of synced puts, in each pair
PUTS = 8000
TURNS = 3  # with idle members and without, within a pair


def put_and_get(run, pinned, members=0):
    """With so many idle members connected, whose process runs on the other CPU."""
    words = ["-p", "same"] if pinned else []
    with Service(run.bin, ANCHOR_CPU if pinned else None) as service, contextlib.ExitStack() as with_:
        if members:
            with_.enter_context(Idle(run.bin, SERVER_CPU, "muster", service.at, members,
                                     PERIOD_MS))
        return measure(run.bin / "bench_keys", *words, PUTS, env=service.environment())


def alone(run, pinned):
    where = "one CPU" if pinned else "unpinned"
    bar = Bar.at_most(1.7) if pinned else None
    measures = [Measure(f"{call}, {where}", "TCP ping-pong", bar) for call in ("put", "get")]

    def pair():
        beside = run.pinned_ping_pong() if pinned else run.anchor("rtt", "tcp")
        report = put_and_get(run, pinned)
        return [Pair.of_p50(report[call], beside) for call in ("put", "get")]

    return run.pairs(measures, pair)


def among_idle(run):
    members = run.arguments.idle_beside
    measures = [Measure(f"{call} with {members:,} idle members, one CPU", "without",
                        Bar.at_most(1.1)) for call in ("put", "get")]

    def pair():
        run.pinned_ping_pong()
        turns = [(put_and_get(run, True), put_and_get(run, True, members)) for _ in range(TURNS)]
        without, among = (middle(reports) for reports in zip(*turns))
        return [Pair.of_p50(among[call], without[call]) for call in ("put", "get")]

    return run.pairs(measures, pair)


def tls(run):
    names = {"connect": "connect until the first answer", "put_1": "put", "put_16":
             "put, 16 at a time, each", "put_large": "put of 256 KiB"}
    measures = [Measure(f"TLS, {text}, one CPU", "plain") for text in names.values()]

    def streams(secret):
        with Service(run.bin, ANCHOR_CPU, secret=secret) as service:
            return measure(run.bin / "bench_stream", "-p", "same", run.arguments.puts,
                           env=service.environment())

    def pair():
        run.pinned_ping_pong()
        plain, secret = streams(False), streams(True)
        return [Pair.of_p50(secret[name], plain[name]) for name in names]

    return run.pairs(measures, pair)


def synced(run, connections):
    """All write to the same disk, the one on which muster was built. Appends by the bare server, or
    puts by the service, each answered when it is durable."""
    program = run.bin / "bench_synced"
    name = f"synced put, {connections} connection{'s' if connections > 1 else ''}, each"
    bar = Bar(">= 60 % of its rate", lambda pair: pair.ratio <= 1 / 0.6)
    measures = [Measure(name, "append + fdatasync", bar),
                Measure(f"{name} (1)", "into reserved room")]

    def bare(how, folder):
        return only(measure(program, how, folder, connections, SYNCED_MS))

    def pair():
        run.pinned_ping_pong()
        with tempfile.TemporaryDirectory(dir=run.bin.parent) as folder:
            plain = bare("bare", folder)
            with Service(run.bin, None, "--journal", os.path.join(folder, "journal"),
                         "--sync") as service:
                subject = only(measure(program, "muster", service.at, connections, SYNCED_MS))
            reserved = bare("reserved", folder)
        return Pair.of_p50(subject, plain), Pair.of_p50(subject, reserved)

    return run.pairs(measures, pair)
