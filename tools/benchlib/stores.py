# SPDX-License-Identifier: Apache-2.0
"""Keys and barriers from Python beside PyTorch's TCPStore, each through its own binding: the same
interpreter, the same loop, a server process each."""
import os
import pathlib
import subprocess

from .figures import Bar, Measure, Pair
from .programs import Failed, Server, Service, measure
from .run import Skipped
from .traffic import NO_RENEWALS

SCRIPT = pathlib.Path(__file__).with_name("python_store.py")
CALLS = 4000
AHEAD = Bar("ahead", lambda pair: pair.ratio < 1)
STORE = """
import time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
time.sleep(3600)
"""


def interpreter(run):
    """That of the virtual environment with PyTorch."""
    folder = getattr(run.arguments, "python", None) or os.environ.get("TEST_TORCH")
    python = pathlib.Path(folder or "/nowhere") / "bin/python"
    if not python.is_file():
        raise Skipped("TEST_TORCH names no virtual environment with PyTorch")
    return python


class Store(Server):
    def __init__(self, python):
        self.process = subprocess.Popen([python, "-W", "ignore", "-c", STORE],
                                        stdout=subprocess.PIPE, text=True)
        self.at = self.process.stdout.readline().strip()
        if not self.at:
            raise Failed("torch's TCPStore did not start")
        self.address = f"127.0.0.1:{self.at}"


def report(run, server, kind, *words):
    python = interpreter(run)
    with server:
        return measure(python, "-W", "ignore", SCRIPT, kind, server.address, *words,
                       env={**os.environ, "PYTHONPATH": str(run.bin.parent / "python")})


def both(run, *words, unix):
    beside = report(run, Store(interpreter(run)), "torch", *words)
    server = Service(run.bin, None, *NO_RENEWALS, unix=unix)
    return report(run, server, "muster", *words), beside


def keys(run):
    """Over the socket of each that a job on one machine has: muster's is a Unix socket. TCPStore
    answers no set."""
    measures = [Measure("get from Python", "TCPStore", AHEAD),
                Measure("add from Python", "TCPStore", AHEAD),
                Measure("get from Python, TCP", "TCPStore", AHEAD)]

    def pair():
        run.pinned_ping_pong()
        subject, beside = both(run, "keys", CALLS, unix=True)
        over_tcp, beside_tcp = both(run, "keys", CALLS, unix=False)
        return [Pair.of_p50(subject["get"], beside["get"]),
                Pair.of_p50(subject["add"], beside["add"]),
                Pair.of_p50(over_tcp["get"], beside_tcp["get"])]

    return run.pairs(measures, pair)


def barrier(run, ranks):
    measures = [Measure(f"barrier of {ranks} Python ranks", "TCPStore", AHEAD),
                Measure(f"barrier of {ranks} Python ranks, TCP", "TCPStore")]

    def pair():
        run.pinned_ping_pong()
        figures = []
        for unix in (True, False):
            subject, beside = both(run, "barrier", ranks, 3 * run.arguments.rounds, unix=unix)
            figures.append(Pair.of_p50(subject["barrier"], beside["barrier"]))
        return figures

    return run.pairs(measures, pair)
