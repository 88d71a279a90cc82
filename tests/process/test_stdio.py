# SPDX-License-Identifier: Apache-2.0
"""What a rank prints while it is interrupted: a real pipe that is full, real signals, and every line
counted.

behaviour: restart / Being called out
"""

import io
import os
import select
import subprocess
import time

import pytest

from conftest import BUILD, WAIT_S, Lines, pause

PRINT = BUILD / "tests" / "process" / "print_rank"
RESTARTS = 8
LOOKS = 30  # each after a pause: more than one repetition of the signal, which comes every 50 ms
WRITE = {1, 64}  # on x86-64 and arm64


class Rank:
    """Its stderr is read as it comes, its stdout when a test wants that."""

    def __init__(self, index, env):
        self.process = subprocess.Popen(
            [PRINT, str(index), str(RESTARTS)], env=env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.told = Lines(io.TextIOWrapper(self.process.stderr))
        self.printed = b""

    def in_write(self):
        with open(f"/proc/{self.process.pid}/syscall") as file:
            call = file.read().split()[0]
        return call.isdigit() and int(call) in WRITE

    def await_full_pipe(self):
        """Until it is blocked in a write: nobody reads."""
        until = time.monotonic() + WAIT_S
        while not self.in_write():
            assert time.monotonic() < until, "it does not wait in a write"
            pause()

    def read_until(self, line):
        until = time.monotonic() + WAIT_S
        while not self.told.having(line):
            assert time.monotonic() < until, (line, self.told.lines)
            self.read_some()

    def read_some(self):
        if select.select([self.process.stdout], [], [], 0.02)[0]:
            self.printed += os.read(self.process.stdout.fileno(), 65536)

    def read_rest(self):
        while more := os.read(self.process.stdout.fileno(), 65536):
            self.printed += more

    def numbers(self):
        return [int(line) for line in self.printed.decode().splitlines()]


@pytest.fixture
def ranks(service, env):
    """Rank 0, which asks for restarts, and rank 1, which prints."""
    made = []

    def start(**variables):
        for index in range(2):
            made.append(Rank(index, {**env, "MUSTER_ADDR": service.address, "MUSTER_AGENT": "0",
                                     **variables}))
        return made

    yield start
    for rank in made:
        rank.process.kill()
        rank.process.wait()
        for stream in (rank.process.stdin, rank.process.stdout):
            stream.close()


def ask(rank):
    rank.process.stdin.write(b"\n")
    rank.process.stdin.flush()


def test_no_line_is_lost_where_a_rank_is_interrupted_in_a_full_pipe(ranks):
    """A rank prints through stdio into a pipe that nobody reads, and is interrupted there, again and
    again. It stays in its write, which the signal spares. Once the pipe is read it returns; of
    all lines that it printed none is lost, and none is doubled."""
    asks, prints = ranks()
    for restart in range(RESTARTS):
        prints.told.wait_for(f"entered {restart}")
        asks.told.wait_for(f"entered {restart}")
        prints.await_full_pipe()
        ask(asks)
        prints.told.wait_for(f"interrupted {restart}")
        for _ in range(LOOKS):
            pause()
            assert prints.in_write(), prints.told.lines
        prints.read_until(f"left {restart}")
    prints.read_rest()
    assert prints.process.wait(WAIT_S) == asks.process.wait(WAIT_S) == 0
    total = prints.told.wait_for("printed")
    assert prints.numbers() == list(range(int(total.split()[1])))
    assert len(prints.numbers()) > 1000 * RESTARTS


def test_a_write_that_nobody_reads_costs_lines_and_no_process(ranks):
    """Nobody reads the pipe for half of `hard_timeout`. The write is ended then, before the kill:
    the function returns, and what stdio had buffered is lost."""
    asks, prints = ranks(MUSTER_HARD_TIMEOUT="4s", MUSTER_SOFT_TIMEOUT="3s")
    prints.told.wait_for("entered 0")
    asks.told.wait_for("entered 0")
    prints.await_full_pipe()
    asked = time.monotonic()
    ask(asks)
    prints.told.wait_for("left 0")
    assert time.monotonic() - asked > 1.9
    prints.read_until("entered 1")
    assert prints.process.poll() is None
