# SPDX-License-Identifier: Apache-2.0
"""The same program of JAX, with JAX's own service in its process 0 and in a `muster run`: what each call and
each loss comes to is as the table of docs/interop.md says.

behaviour: fronts / JAX: real processes
"""

import os
import re
import signal

import pytest

from conftest import Process, free_port
from interop import JOBS, ROOT, client

PAGE = ROOT / "docs" / "interop.md"
HEADING = "### The same calls with JAX's own service"
FATAL = re.compile(r"detected fatal errors.*?absl::Status: (.*?)(?=\n\s*\n|\Z)", re.DOTALL)
PATIENCE_S = 120
SEEN = set()  # rows of the table


class Own:
    """Processes with JAX's own service in process 0."""

    def __init__(self, started, env, size, words):
        place = {
            "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_port()}",
            "SLURM_JOB_ID": "own",
            "SLURM_STEP_NODELIST": "localhost",
            "SLURM_NTASKS": str(size),
        }
        for index in range(size):
            of_rank = {"SLURM_PROCID": str(index), "SLURM_LOCALID": str(index)}
            started.append(Process(words, {**env, **place, **of_rank}))
        self.processes = started[-size:]

    def wait_for(self, index, *words):
        self.processes[index].out.wait_for(*words, patience_s=PATIENCE_S)

    def freeze(self, index):
        self.processes[index].signal(signal.SIGSTOP)

    def out(self, index):
        return self.processes[index].out.lines

    def log(self, index):
        return self.processes[index].log.lines

    def end(self, frozen):
        for index, process in enumerate(self.processes):
            if index == frozen:
                process.process.kill()
            process.process.wait(PATIENCE_S)
            process.wait()


class Muster:
    """The same processes in a `muster run`."""

    def __init__(self, spawn, size, flags, words):
        self.run = spawn("run", "-n", size, *flags, "--", *words)

    def wait_for(self, index, *words):
        self.run.out.wait_for(f"[{index}]: ", *words, patience_s=PATIENCE_S)

    def freeze(self, index):
        pid = re.search(r"pid (\d+)", self.run.out.having(f"[{index}]: ", " pid ")[0])[1]
        os.kill(int(pid), signal.SIGSTOP)

    @staticmethod
    def of(lines, index):
        return [line.partition(": ")[2] for line in lines if line.startswith(f"[{index}]: ")]

    def out(self, index):
        return self.of(self.run.out.lines, index)

    def log(self, index):
        return self.of(self.run.log.lines, index)

    def end(self, frozen):
        self.run.process.wait(PATIENCE_S)
        self.run.wait()


@pytest.fixture
def both(spawn, started, env, tmp_path):
    """both(size, words...): the job with JAX's own service, then in a `muster run`. The word wait is until
    the file own or muster is there."""
    program = [client("jax") / "python", JOBS / "jax_job.py"]

    def start(size, *words, flags=()):
        for name in ("own", "muster"):
            given = [*program, *(f"wait={tmp_path}/{name}" if word == "wait" else word for word in words)]
            yield Own(started, env, size, given) if name == "own" else Muster(spawn, size, flags, given)

    return start


def outcomes(lines):
    """{call: its result, or its error's code and text}, of a process's lines."""
    found = {}
    for line in lines:
        match = re.fullmatch(r"\d+ outcome (.*?): (.*)", line)
        if match:
            found[match[1]] = match[2]
    return found


def plain(text):
    """An error without what gRPC and the client add to it, in one line."""
    text = re.split(r" Additional GRPC|\s+RPC: | \[type\.googleapis", text)[0]
    return " ".join(text.split()).replace("None", "done")


def details(text):
    return sorted(re.findall(r"type\.googleapis\.com/tensorflow\.\w+", text))


def fatal(log):
    """The error by which JAX ended the process."""
    match = FATAL.search("\n".join(log))
    assert match, "\n".join(log)
    return plain(match[1])


def rows():
    """{name: (with JAX's own service, with muster run, why)}, of the page's table."""
    text = PAGE.read_text().partition(HEADING + "\n")[2].partition("\n#")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.split("|")] for line in lines]
    return {name: (own, muster, why) for _, name, own, muster, why, _ in cells[2:]}


def says(cell, seen):
    """Whether the text of the cell, in which … stands for anything, is what was seen."""
    return re.fullmatch(".*".join(map(re.escape, cell.strip("`").split("…"))), seen)


def add(row, own, muster):
    """The row of the table is what was seen, and says why where the two differ."""
    own, muster = plain(own), plain(muster)
    of_own, of_muster, why = rows()[row]
    assert says(of_own, own), (row, own)
    assert says(of_own if of_muster == "the same" else of_muster, muster), (row, muster)
    assert (of_muster == "the same") == (why == ""), row
    SEEN.add(row)


def lost(jobs, frozen=None):
    """What ends process 0 when process 1 is lost, in both."""
    for job in jobs:
        job.wait_for(0, " waits")
        if frozen is not None:
            job.wait_for(frozen, " waits")
            job.freeze(frozen)
        job.end(frozen)
        yield fatal(job.log(0))


def test_calls(both):
    """Two processes of JAX. Each call of one comes to the same with both services: its code, its details,
    and its text or why that differs."""
    seen = []
    for job in both(2, "alone", "after-shutdown"):
        job.end(None)
        seen.append(outcomes(job.out(0)))
    own, muster = seen
    assert own.keys() == muster.keys() and len(own) == 17
    for call, text in own.items():
        assert details(text) == details(muster[call]), call
        add(call, text, muster[call])


def test_a_second_registration(both):
    """A second client registers as process 1, which is there. Process 0 ends by an error with the same code."""
    add("register again", *lost(both(2, "again=1", "wait")))


def test_a_killed_process(both):
    """Process 1 is killed. Process 0 ends by an error with the same code: at once in a `muster run`, after the
    time for heartbeats with JAX's own service."""
    add("a process is killed", *lost(both(2, "heartbeat=20", "barrier=one", "die=1", "wait")))


def test_a_frozen_process(both):
    """Process 1 is frozen. Process 0 ends by the same error with both."""
    add("a process is frozen", *lost(both(2, "heartbeat=20", "wait"), frozen=1))


def test_recovery(both):
    """JAX's recovery is on, and process 2 of three is killed. The live processes are the same with both
    services, and so is a second client of process 0; a barrier of all fails at once in a `muster run`."""
    words = ["recoverable", "heartbeat=20", "barrier=one", "die=2", "outcome=lost", "live", "again=0"]
    seen = []
    for job in both(3, *words, flags=["--jax-recoverable"]):
        job.end(None)
        seen.append((outcomes(job.out(0)), next(line for line in job.out(0) if " live " in line)))
    (own, own_live), (muster, muster_live) = seen
    add("recovery: barrier with a lost process", own["lost"], muster["lost"])
    add("recovery: live processes", own_live[2:], muster_live[2:])
    add("recovery: register again", own["register again"], muster["register again"])


def test_recovery_of_process_0(both, tmp_path):
    """JAX's recovery is on, and process 0 of three is killed. With JAX's own service the others end; in a
    `muster run` they go on, and are the live processes."""
    (tmp_path / "muster").touch()
    words = ["recoverable", "barrier=one", "die=0", "wait", "live"]
    own, muster = both(3, *words, flags=["--jax-recoverable"])
    own.end(None)
    muster.end(None)
    live = next(line for line in muster.out(1) if " live " in line)
    add("recovery: process 0 is killed", fatal(own.log(1)), live[2:])


def test_no_row_is_left_over(request):
    """Each row of the table is what one of the tests above has seen."""
    if len(SEEN) == 0 or len(request.session.items) < 7:
        pytest.skip("the others were not run")
    assert rows().keys() == SEEN
