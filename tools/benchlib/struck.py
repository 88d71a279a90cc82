# SPDX-License-Identifier: Apache-2.0
"""A training of PyTorch that is struck, under muster, under the in-process Wrapper of
nvidia-resiliency-ext (NVRx) and under torchrun: from the fault to the function's next entry on all
ranks that go on, and to the end of the first step there."""
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

from . import pytorch
from .figures import Bar, Measure, Pair
from .programs import Failed
from .run import Skipped, tell

SCRIPT = pathlib.Path(__file__).with_name("torch_rank.py")
# How often rank 1 is struck under each: a rank that NVRx has lost it does not get back.
FAULTS = {"exception": ("an exception", {"muster": 20, "nvrx": 2, "torchrun": 2}),
          "kill": ("SIGKILL", {"muster": 4, "nvrx": 1, "torchrun": 2}),
          "hang": ("it sleeps, soft timeout 2 s", {"muster": 3, "nvrx": 1, "torchrun": 1}),
          "gil": ("stuck with the interpreter's lock, hard timeout 4 s",
                  {"muster": 2, "nvrx": 1, "torchrun": 1}),
          "stop": ("SIGSTOP, hard timeout 4 s", {"muster": 2, "nvrx": 1, "torchrun": 1})}
NAMES = {"nvrx": "NVRx", "torchrun": "torchrun"}
WHAT = {"entered": "in the function again", "stepped": "first step done"}
BARS_US = {"entered": 30_000, "stepped": 80_000}
LOST = ("kill", "gil", "stop")  # the process that was struck does not go on
PATIENCE_S = 40  # without a stamp: then it does not come any more
LIMIT_S = 60  # after a fault, also where stamps come: NVRx goes on for ever with half-imported modules
START_S = 60  # more, until the first fault
AFTER_S = 2  # for what comes after the last one


class Story:
    """The stamps of a run."""

    def __init__(self, path):
        self.lines = []
        if path.exists():
            for line in path.read_text(encoding="ascii").splitlines():
                ns, pid, what = line.split()
                self.lines.append((int(ns), int(pid), what))
        self.lines.sort()

    def faults(self):
        return [ns for ns, _, what in self.lines if what == "fault"]

    def after(self, number, what):
        """When each process said so first, between this fault and the next one, in order."""
        begins, *rest = self.faults()[number:]
        ends = rest[0] if rest else self.lines[-1][0] + 1
        first = {}
        for ns, pid, said in self.lines:
            if said == what and begins < ns < ends:
                first.setdefault(pid, ns)
        return [(ns - begins) / 1000 for ns in sorted(first.values())]


class Job:
    """A job under one of the three, with its own file of stamps."""

    def __init__(self, run, product, fault, ranks, count):
        self.run, self.product, self.fault, self.ranks, self.count = run, product, fault, ranks, count
        self.going_on = ranks - (fault in LOST and product != "torchrun")
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "stamps"
        self.log = pathlib.Path(self.folder.name) / "log"
        self.processes = []

    def start(self):
        venv = self.run.arguments.python / "bin"
        words = [venv / "python3", "-W", "ignore", SCRIPT, self.product, self.fault, self.count,
                 self.ranks, self.path]
        env = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": str(self.run.bin.parent / "python"),
                "MUSTER_RUNTIME_DIR": self.folder.name}
        if self.product == "muster":
            self.spawn([self.run.bin / "muster", "run", "-n", self.ranks, "--max-restarts", 100,
                        "--", *words], env)
        elif self.product == "torchrun":
            # In the agent's own store a later attempt finds addresses of an earlier one, and never
            # begins.
            env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
            self.spawn([venv / "torchrun", "--standalone", "--nproc-per-node", self.ranks,
                        "--max-restarts", 10, *words[3:]], env)
        else:
            port = pytorch.free_ports(2)
            for rank in range(self.ranks):
                self.spawn(words, env | {"RANK": str(rank), "LOCAL_RANK": str(rank),
                                         "WORLD_SIZE": str(self.ranks),
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)})

    def spawn(self, words, env):
        with open(self.log, "ab") as log:
            self.processes.append(subprocess.Popen(
                list(map(str, words)), env=env, stdout=log, stderr=log, start_new_session=True))

    def wait(self):
        """Until all faults are over, the job has ended, or nothing comes any more."""
        began = time.monotonic() + START_S
        seen, since, faults, struck = 0, began, 0, began
        while any(process.poll() is None for process in self.processes):
            time.sleep(0.1)
            story = Story(self.path)
            if len(story.lines) != seen:
                seen, since = len(story.lines), time.monotonic()
            if len(story.faults()) != faults:
                faults, struck = len(story.faults()), time.monotonic()
            if time.monotonic() - struck > LIMIT_S:
                return
            done = (len(story.faults()) == self.count
                    and len(story.after(self.count - 1, "stepped")) >= self.going_on)
            if time.monotonic() - since > (AFTER_S if done else PATIENCE_S):
                return

    def figures(self):
        """For each fault: what was reached on all ranks that go on, after how long."""
        self.start()
        self.wait()
        story = Story(self.path)
        if not story.faults():
            raise Failed(f"{self.product}: no rank was struck: {self.last_words()}")
        found = []
        for number in range(len(story.faults())):
            reached = {what: story.after(number, what)[:self.going_on] for what in WHAT}
            found.append({what: times[-1] if times else None for what, times in reached.items()}
                         | {"ranks": len(reached["entered"])})
        return found

    def last_words(self):
        lines = self.log.read_text(encoding="utf-8", errors="replace").split("\n")
        return " | ".join(line for line in lines[-6:] if line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """All of it, also what is stopped."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1 if self.product == "nvrx" else 10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pid in {pid for _, pid, _ in Story(self.path).lines}:
            if str(self.path) in command_of(pid):
                os.kill(pid, signal.SIGKILL)
        self.folder.cleanup()


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def restarts(run, fault, ranks):
    """A measure for each thing that is reached beside each of the other two."""
    why = pytorch.install(run.arguments.python, pytorch.BENCH)
    if why is not None:
        raise Skipped(f"no PyTorch: {why}")
    text, counts = FAULTS[fault]
    run.pinned_ping_pong()
    figures = {}
    for product, count in counts.items():
        if run.arguments.strikes:
            count = min(count, run.arguments.strikes)
        with Job(run, product, fault, ranks, count) as job:
            figures[product] = job.figures()
        tell(f"{product}: " + "; ".join(told(one, job.going_on) for one in figures[product]))
    return [measure(what, text, fault, ranks, figures["muster"], product, figures[product])
            for what in WHAT for product in NAMES]


def told(one, wanted):
    if one["entered"] is None:
        return f"never, waited {PATIENCE_S} s"
    stepped = "never" if one["stepped"] is None else f"{one['stepped'] / 1000:.1f} ms"
    return f"{one['entered'] / 1000:.1f} ms, step {stepped}, {one['ranks']} of {wanted} ranks"


def measure(what, text, fault, ranks, ours, product, theirs):
    """A pair is a fault under muster beside the middle one of the other's."""
    beside = [one[what] for one in theirs if one[what] is not None]
    name = NAMES[product] if beside else f"{NAMES[product]}: never within"
    anchor = statistics.median(beside) if beside else PATIENCE_S * 1e6
    bar = None
    if fault in ("exception", "kill") and product == "nvrx":
        limit = BARS_US[what]
        bar = Bar(f"p50 <= {limit / 1000:g} ms" + (", <= 1/100" if what == "entered" else ""),
                  lambda pair: pair.subject <= limit and (what != "entered" or pair.ratio <= 0.01))
    one = Measure(f"PyTorch DDP, {text} -> {WHAT[what]}, {ranks} ranks", name, bar)
    one.pairs = [Pair(each[what], anchor) for each in ours if each[what] is not None]
    if len(one.pairs) < len(ours):
        raise Failed(f"{one.name}: {len(ours) - len(one.pairs)} of {len(ours)} never came")
    return one
