# SPDX-License-Identifier: Apache-2.0
"""examples/mpi/train.c under a launcher: preempted, and started again."""

import os
import re
import signal

import pytest

from conftest import BUILD, Process
from running import until
from saving import PATIENT

SIZE = 3
FOREVER = 1000000000
MORE = 20  # steps of the second run
# Launchers mix the ranks' lines, so each process has a file of its own.
APART = ["sh", "-c", 'exec "$0" "$@" >"$SAID.$$"']


def program(mpi):
    """The example, built for this MPI."""
    path = BUILD / "bin" / f"mpi_train_{mpi}"
    if not path.exists():
        pytest.skip(f"no {path.name}: its MPI is not installed, or this build has a sanitizer")
    return path


class Training(Process):
    """A launcher of the example. Its ranks save in files `NAME.RANK` of the directory."""

    def __init__(self, launcher, mpi, env, directory, steps, name):
        self.saves = directory / name
        self.words = f"{name}-{steps}"
        super().__init__([*launcher, *APART, program(mpi), steps, self.saves],
                         {**env, **PATIENT, "SAID": str(directory / self.words)})

    def having(self, pattern):
        """What matches of the lines that the ranks have said."""
        said = "".join(path.read_text() for path in self.saves.parent.glob(self.words + ".*"))
        return re.findall(f"^{pattern}$", said, re.M)

    def trains(self):
        until(lambda: self.having("step 10: .*"))
        return self

    def pid_of(self, rank):
        (pid,) = self.having(rf"rank {rank} of {SIZE}, process (\d+), begins at step \d+")
        return int(pid)

    def saved(self):
        """The one step that all have saved, and said so."""
        steps = [int(self.saves.with_name(f"{self.saves.name}.{rank}").read_text().split()[0])
                 for rank in range(SIZE)]
        assert len(set(steps)) == 1 and steps[0] > 10, steps
        said = self.having(r"rank (\d) has saved step (\d+): preempted")
        assert sorted(said) == [(str(rank), str(steps[0])) for rank in range(SIZE)], self.log.lines
        return steps[0]


class Launcher:
    """begin() is the example's first life, which would take for ever."""

    def __init__(self, command, mpi, env, directory, started):
        self.options = [*command], mpi, env, directory
        self.started = started

    def start(self, steps, name="saved"):
        self.started.append(Training(*self.options, steps, name))
        return self.started[-1]

    def begin(self):
        return self.start(FOREVER).trains()

    def goes_on(self, step):
        """Started again, it begins with that step, and comes to what comes out undisturbed; as though
        one rank had been ended before it could commit what all had written."""
        committed = self.started[-1].saves.with_name("saved.1")
        committed.rename(committed.with_name("saved.1.new"))
        run = self.start(step + MORE)
        assert run.wait() == 0, run.log.lines
        begins = run.having(r"rank (\d) of \d, process \d+, begins at step (\d+)")
        assert sorted(begins) == [(str(rank), str(step)) for rank in range(SIZE)]
        undisturbed = self.start(step + MORE, "other")
        assert undisturbed.wait() == 0
        result = f"after {step + MORE} steps pi is (.*)"
        assert len(run.having(result)) == 1
        assert run.having(result) == undisturbed.having(result)


def saves_and_goes_on(launcher):
    """One rank is told to go. What the launcher of its job ends with."""
    run = launcher.begin()
    os.kill(run.pid_of(1), signal.SIGTERM)
    code = run.wait()
    launcher.goes_on(run.saved())
    return code
