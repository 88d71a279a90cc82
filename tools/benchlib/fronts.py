# SPDX-License-Identifier: Apache-2.0
"""The fronts of `muster run` beside what they stand for: jaxlib's coordination service and torch's
TCPStore, each in a process of its own, with the clients of those packages (tools/interop)."""
import os
import pathlib
import signal
import subprocess

from .figures import Bar, Measure, Pair
from .programs import ROOT, Failed, Server, measure, pinned_to
from .pytorch import free_ports
from .run import ANCHOR_CPU, Skipped

SCRIPT = pathlib.Path(__file__).with_name("front_clients.py")
CALLS = 4000
CLIENTS = 8  # of a rate, and in each process of a large barrier
QUIET = {"stderr": subprocess.DEVNULL}
RANK = 'echo "$JAX_COORDINATOR_ADDRESS $MASTER_ADDR:$MASTER_PORT"; exec sleep 3600'


class Jax:
    package, front, title, beside = "jax", "xla", "JAX", "jaxlib's service"
    keys, rate, barrier = Bar.at_most(0.7), Bar.at_least(1.3), Bar.at_most(0.8)
    server = """
import sys, time
from jaxlib import _jax
service = _jax.get_distributed_runtime_service(sys.argv[1], int(sys.argv[2]))
print(sys.argv[1], flush=True)
time.sleep(3600)
"""


class Torch:
    package, front, title, beside = "torch", "tcpstore", "TCPStore", "torch's server"
    keys, rate, barrier = Bar.at_most(2), Bar.at_least(0.5), Bar.at_most(2)
    server = """
import time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(f"127.0.0.1:{store.port}", flush=True)
time.sleep(3600)
"""


def interpreter(kind):
    name = kind.package
    folder = pathlib.Path(os.environ.get(f"TEST_{name.upper()}") or ROOT / "build/interop" / name)
    python = folder / "bin/python"
    if not python.is_file():
        raise Skipped(f"{kind.title}: skipped: no environment with {name}: tools/interop --make {name}")
    return python


class Own(Server):
    """The server of the package."""

    def __init__(self, kind, size, cpu):
        self.process = subprocess.Popen(
            [interpreter(kind), "-W", "ignore", "-c", kind.server, f"127.0.0.1:{free_ports(1)}", str(size)],
            stdout=subprocess.PIPE, text=True, preexec_fn=pinned_to(cpu), **QUIET)
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            raise Failed(f"{kind.beside} did not start")


class Front(Server):
    """That of a `muster run`. Its ranks only wait: the clients that are measured stand for them."""

    def __init__(self, run, kind, size, cpu):
        self.process = subprocess.Popen(
            [run.bin / "muster", "run", "-n", str(size), "--front", kind.front, "--", "sh", "-c", RANK],
            stdout=subprocess.PIPE, text=True, preexec_fn=pinned_to(cpu), **QUIET)
        words = self.process.stdout.readline().split()
        if not words:
            raise Failed("muster run did not start")
        self.address = words[-2 if kind is Jax else -1]

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)  # SIGTERM would be a notice for JAX
        self.process.wait()
        self.process.stdout.close()


def both(run, kind, size, cpu, *words):
    """What the clients report of the front, and of the package's own server."""
    reports = []
    for start in (lambda: Own(kind, size, cpu), lambda: Front(run, kind, size, cpu)):
        with start() as server:
            reports.append(measure(interpreter(kind), "-W", "ignore", SCRIPT, kind.package, server.address,
                                   *words, preexec_fn=pinned_to(cpu), **QUIET))
    beside, subject = reports
    return subject, beside


def keys(run, kind):
    """No set of TCPStore is answered: its time is that of a write."""
    calls = ("set", "get", "add")
    measures = [Measure(f"{kind.title}'s {call} at the front, one CPU", kind.beside,
                        kind.keys if (kind, call) != (Jax, "add") else None) for call in calls]

    def pair():
        run.pinned_ping_pong()
        subject, beside = both(run, kind, 1, ANCHOR_CPU, "keys", CALLS)
        return [Pair.of_p50(subject[call], beside[call]) for call in calls]

    return run.pairs(measures, pair)


def rate(run, kind):
    calls = ("set", "get", "add")
    measures = [Measure(f"{kind.title}'s {call} of {CLIENTS} clients at the front, all CPUs", kind.beside,
                        kind.rate, "/s") for call in calls]

    def pair():
        run.pinned_ping_pong()
        subject, beside = both(run, kind, CLIENTS, None, "rate", CLIENTS, run.arguments.milliseconds)
        return [Pair(subject[call]["per_second"], beside[call]["per_second"]) for call in calls]

    return run.pairs(measures, pair)


def barrier(run, kind, size):
    """Of 8 processes, which have a client each or several."""
    measures = [Measure(f"{kind.title}'s barrier of {size} at the front, last in to last out, all CPUs",
                        kind.beside, kind.barrier)]

    def pair():
        run.pinned_ping_pong()
        subject, beside = both(run, kind, size, None, "barrier", CLIENTS, size // CLIENTS,
                               2 * run.arguments.rounds)
        return [Pair.of_p50(subject["barrier"], beside["barrier"])]

    return run.pairs(measures, pair)
