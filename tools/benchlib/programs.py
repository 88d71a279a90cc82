# SPDX-License-Identifier: Apache-2.0
"""The programs of a measure: those that report figures, and the servers under them."""
import json
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 10


class Failed(Exception):
    pass


def measure(*command, **options):
    """Runs a program of the benchmark; its lines of JSON by name."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                          **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(str(word) for word in command)} ended with {done.returncode}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line["name"]: line for line in lines}


def only(report):
    return next(iter(report.values()))


def pinned_to(cpu):
    """What a child does first; None: it runs where it likes."""
    return None if cpu is None else lambda: os.sched_setaffinity(0, {cpu})


class Server:
    """A server that lives as long as a `with`, on one CPU or on any. It listens on loopback TCP, or
    on a Unix socket of its own; `at` is what drivers are told: the port, or the path."""

    process = None
    at = ""

    def cpu_us(self):
        """All its threads have used so far."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0])
                   for task in tasks.iterdir()) / 1000

    def memory_kib(self):
        """What it alone uses, and its part of what it shares."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class Service(Server):
    """muster's own, in plain or with a secret."""

    def __init__(self, programs, cpu, *flags, secret=False, unix=False):
        self.folder = tempfile.TemporaryDirectory()
        self.secret = pathlib.Path(self.folder.name) / "secret" if secret else None
        words = []
        if secret:
            self.secret.touch(mode=0o600)
            self.secret.write_text(secrets.token_hex(32))
            words = ["--secret-file", self.secret]
        ready, told = os.pipe()
        self.process = subprocess.Popen(
            [programs / "muster", "serve", "--addr",
             f"unix:{self.folder.name}/socket" if unix else "127.0.0.1:0", "--ready-fd", str(told),
             "--log-level", "error", *words, *flags], stdout=subprocess.PIPE, text=True,
            pass_fds=[told], preexec_fn=pinned_to(cpu))
        os.close(told)
        with os.fdopen(ready) as pipe:
            if not pipe.readline():
                raise Failed("the service did not start")
        self.address = self.process.stdout.readline().split(" on ", 1)[1].strip()
        self.at = self.address.rsplit(":", 1)[1]

    def environment(self):
        return {**os.environ, "MUSTER_ADDR": self.address, "MUSTER_JOB": "bench",
                "MUSTER_SECRET_FILE": str(self.secret or "")}

    def __exit__(self, *details):
        super().__exit__(*details)
        self.folder.cleanup()


class Bare(Server):
    """The barest server of a kind: one thread, epoll, no protocol."""

    def __init__(self, programs, cpu, *words, unix=False):
        self.folder = tempfile.TemporaryDirectory()
        where = ["-u", f"{self.folder.name}/socket"] if unix else []
        self.process = subprocess.Popen([programs / "bench_bare", *where, *map(str, words)],
                                        stdout=subprocess.PIPE, text=True,
                                        preexec_fn=pinned_to(cpu))
        self.at = self.process.stdout.readline().strip()
        if not self.at:
            raise Failed("bench_bare did not start")

    def __exit__(self, *details):
        super().__exit__(*details)
        self.folder.cleanup()


class Foreign(Server):
    """A server of another project, from its Debian package, on a free port."""

    program = package = ""

    def words(self):
        """How it is started to serve `at`, with `folder` for what it must keep."""
        raise NotImplementedError

    def __init__(self, cpu):
        self.folder = tempfile.TemporaryDirectory()
        path = shutil.which(self.program, path=os.environ.get("PATH", "") + ":/usr/sbin")
        if not path:
            raise Failed(f"{self.package} is not installed: tools/deps --bench")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.at = str(probe.getsockname()[1])
        self.process = subprocess.Popen([path, *self.words()], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=pinned_to(cpu))
        self.await_it()

    def await_it(self):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", int(self.at))).close()
                return
            except OSError:
                time.sleep(0.01)
        raise Failed(f"{self.package} did not start")

    def __exit__(self, *details):
        super().__exit__(*details)
        self.folder.cleanup()


class Redis(Foreign):
    """It keeps nothing on disk."""

    program = package = "redis-server"

    def words(self):
        return ["--bind", "127.0.0.1", "--port", self.at, "--save", "", "--appendonly", "no",
                "--dir", self.folder.name]


class Gearman(Foreign):
    """With one thread, with which it is fastest on machines of this size."""

    program, package = "gearmand", "gearman-job-server"

    def words(self):
        return ["--listen", "127.0.0.1", "--port", self.at, "--threads", "0", "--log-file", "none",
                "--pid-file", f"{self.folder.name}/pid"]


class Idle:
    """Members that only renew, while a `with` lasts."""

    program = "bench_idle"

    def __init__(self, programs, cpu, kind, at, members, period_ms, *more):
        self.process = subprocess.Popen(
            [programs / self.program, kind, at, *map(str, (members, period_ms, *more))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=pinned_to(cpu))
        self.ready = self.line()

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"{self.program} ended early")
        return json.loads(line)

    def end(self):
        """How many there were, in all."""
        self.process.stdin.close()
        return self.line()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Beats(Idle):
    """Members that beat once per period, while a `with` lasts."""

    program = "bench_beats"
