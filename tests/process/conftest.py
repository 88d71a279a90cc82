# SPDX-License-Identifier: Apache-2.0
"""Real processes of this build. A test waits for a line, a reply or an end; where nothing tells of a change,
it looks again after a pause."""

import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from wire import Wire  # noqa: E402

WAIT_S = 60  # nothing takes so long: beyond it something hangs
PAUSE_S = 0.01
LINES_SHOWN = 60
ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MUSTER_BUILD", ROOT / "build" / "dev"))
MUSTER = BUILD / "bin" / "muster"
# What a script starts in the background ignores the first of these, and so does all that it starts;
# the others are what some supervisors leave ignored.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)

COMPLAINTS = ("Sanitizer", "runtime error", "broken invariant")


def pause():
    """Between two looks: a test that waits takes no processor from what it waits for."""
    time.sleep(PAUSE_S)


LAUNCHED_FROM = 20000  # ports that `muster run` derives from the name of a launcher's job


def free_port():
    """Where nobody listens, and where whoever asks for any port is not sent: so it stays free until
    it is used."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        end = min(int(file.read().split()[0]), LAUNCHED_FROM)
    dice = random.SystemRandom()
    while True:
        port = dice.randrange(max(1024, end - 10000), end)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:  # in use
                pass


def sanitized():
    """Whether the program carries a sanitizer: then it measures nothing."""
    program = MUSTER.read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


class Lateness:
    """How late a busy machine is with anything: the longest that a program took from its start to its
    end, of those that were started one after the other."""

    def __init__(self):
        self.longest_s, self.began = 0.0, None
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._measure)
        self.thread.start()

    def _measure(self):
        while not self.over.wait(5 * PAUSE_S):
            self.began = time.monotonic()
            subprocess.run([str(MUSTER), "--version"], stdout=subprocess.DEVNULL, check=True)
            self.longest_s, self.began = self.so_far_s(), None

    def so_far_s(self):
        """With the one that has not ended."""
        began = self.began
        return max(self.longest_s, time.monotonic() - began if began else 0.0)

    def spare_s(self):
        """What a limit that is short gives to a busy machine: several processes wait, one for the other."""
        return 5 * self.so_far_s()

    def end(self):
        self.over.set()
        self.thread.join()


def holds(line, words):
    """Whether a line has all of these; a word may be a pattern."""
    return all(word.search(line) if isinstance(word, re.Pattern) else word in line for word in words)


class Lines:
    """What a process says, line by line; waiting for one does not lose the others."""

    def __init__(self, stream):
        self.lines = []
        self.ended = False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self.thread.start()

    def _read(self, stream):
        for line in stream:
            with self.changed:
                self.lines.append(line.rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait_for(self, *words, count=1, meanwhile=None, patience_s=WAIT_S):
        """The count-th line that holds all the words. `meanwhile` is called again and again."""

        def found():
            return [line for line in self.lines if holds(line, words)]

        deadline = time.monotonic() + patience_s
        with self.changed:
            while len(found()) < count and not self.ended and time.monotonic() < deadline:
                self.changed.wait(0.05 if meanwhile else patience_s)
                if meanwhile:
                    meanwhile()
            assert len(found()) >= count, f"no line with {words} in:\n" + "\n".join(self.lines)
            return found()[count - 1]

    def having(self, *words):
        with self.changed:
            return [line for line in self.lines if holds(line, words)]


# At its end a process with the address sanitizer stops its own threads, to look for what they have
# leaked, and a SIGCONT in that moment makes it wait for ever for one that has not stopped.
NO_LEAKS = {"ASAN_OPTIONS": "detect_leaks=0"}


def leaks(args, env):
    """The environment for a program that nobody sends SIGCONT unasked, as a launcher does to what
    it has started: one of ours looks for what it has leaked."""
    program, first = str(args[0]), str(args[1]) if len(args) > 1 else ""
    if not program.startswith(str(BUILD)) or (program == str(MUSTER) and first == "run"):
        return env
    return {key: value for key, value in env.items() if (key, value) not in NO_LEAKS.items()}


class Process:
    """A program that runs beside the test."""

    def __init__(self, args, env, **options):
        self.process = subprocess.Popen(
            [str(arg) for arg in args],
            env=leaks(args, env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.pid = self.process.pid
        self.out = Lines(self.process.stdout)
        self.log = Lines(self.process.stderr)

    def wait(self):
        code = self.process.wait(WAIT_S)
        self.out.thread.join(WAIT_S)
        self.log.thread.join(WAIT_S)
        return code

    def signal(self, number):
        self.process.send_signal(number)

    def stopped(self):
        """Whether it is stopped by a signal; it may have ended and been waited for meanwhile."""
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "T"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def kill(self):
        self.process.kill()
        return self.wait()

    def complaints(self):
        return [line for line in self.log.lines if any(word in line for word in COMPLAINTS)]


class Service(Process):
    """A `muster serve` that can be reached."""

    def __init__(self, args, env, **options):
        super().__init__([MUSTER, "serve", *args], env, **options)
        ready = self.out.wait_for("muster: serving on ")
        self.address = ready[len("muster: serving on ") :]

    def wire(self, job="default", **options):
        wire = Wire(self.address)
        assert wire.open(job=job, **options).status == 0
        return wire


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """A test that fails shows what each process that it started has said last."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        used = getattr(item, "funcargs", {})
        for process in [*used.get("started", []), *getattr(used.get("cluster"), "started", [])]:
            how = "runs" if process.process.poll() is None else "has ended"
            said = [*process.out.lines, *process.log.lines][-LINES_SHOWN:]
            report.sections.append((f"{process.process.args[0]}, process {process.pid}, {how}",
                                    "\n".join(said)))


@pytest.fixture
def env():
    """An environment of its own, with a runtime directory whose path fits into a socket's."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")} | NO_LEAKS
    directory = tempfile.mkdtemp(prefix="mst-", dir="/tmp")
    clean["MUSTER_RUNTIME_DIR"] = directory
    clean["MUSTER_KEEP_RUNS"] = "0"  # nothing into the home of the user who tests
    yield clean
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def started():
    """Everything started in a test ends with it, and must not have complained."""
    processes = []
    yield processes
    for process in processes:
        if process.process.poll() is None:
            process.signal(signal.SIGTERM)
            if process.stopped():
                process.signal(signal.SIGCONT)
        try:
            process.wait()
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.fail(f"{process.process.args} does not end at SIGTERM")
    for process in processes:
        assert process.complaints() == []


@pytest.fixture
def serve(env, started):
    """serve(flags...) starts a service and returns when it can be reached."""

    def start(*args, **options):
        options.setdefault("env", env)
        service = Service(args, options.pop("env"), **options)
        started.append(service)
        return service

    return start


@pytest.fixture
def service(serve):
    return serve()


@pytest.fixture(params=["unix", "tls"])
def either_service(request, serve, env, tmp_path):
    """A service that commands find by themselves: on the user's socket, or on TCP with a secret."""
    if request.param == "unix":
        return serve()
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text("0123456789abcdef0123456789abcdef")
    service = serve("--addr", "127.0.0.1:0", "--secret-file", path)
    env.update(MUSTER_ADDR=service.address, MUSTER_SECRET_FILE=str(path))
    return service


@pytest.fixture
def spawn(env, started):
    """spawn(arguments...) starts a command of the program and does not wait for it."""

    def start(*args, **options):
        process = Process([MUSTER, *args], options.pop("env", env), **options)
        started.append(process)
        return process

    return start


@pytest.fixture
def muster(env):
    """muster(arguments...) runs a command of the program to its end."""

    def run(*args, **options):
        options["env"] = leaks([MUSTER, *args], options.get("env", env))
        options.setdefault("text", True)
        done = subprocess.run(
            [str(MUSTER), *map(str, args)], capture_output=True, timeout=WAIT_S * 2, **options
        )
        said = done.stderr if options["text"] else done.stderr.decode(errors="replace")
        assert not any(word in said for word in COMPLAINTS), said
        return done

    return run


@pytest.fixture
def lateness():
    measure = Lateness()
    yield measure
    measure.end()


@pytest.fixture
def pass_time(serve, muster):
    """pass_time(ms): by the clock of a service that has nothing to do with the test's job."""
    serve("--job", "clock")

    def wait(ms):
        done = muster("key", "get", "never", "--wait", f"{ms}ms", "-j", "clock")
        assert done.returncode == 124

    return wait
