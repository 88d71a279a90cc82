# SPDX-License-Identifier: Apache-2.0
"""Programs without muster under `muster run` and under the real torchrun. PyTorch is installed by pip into the
virtual environment that TEST_TORCH names: several GB, so only where that is asked for.

behaviour: run / Programs without muster
"""

import os
import re
import subprocess

import pytest

from conftest import ROOT
from pytorch import VERSION, torch  # noqa: F401
from unmodified import PROGRAMS, attempts_of, ports_of

PAGE = ROOT / "docs" / "coming-from.md"
HEAD = "<!-- made by tests/process/test_torchrun.py; TEST_TORCH_WRITE=1 writes it -->\n"
END = "<!-- end -->\n"
# Of muster itself and for JAX, which torchrun does not serve, and of the shell.
OURS = re.compile("MUSTER_.*|(JAX_COORDINATOR|SLURM)_.*|_|PWD|SHLVL|OLDPWD")

# A program of torch that knows nothing of muster: in two attempts rank 1 fails after a collective.
GLOO = """
import os
import signal
import torch
import torch.distributed
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    torch.distributed.init_process_group("gloo")
    sum = torch.tensor([torch.distributed.get_rank() + 1])
    torch.distributed.all_reduce(sum)
    count, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], torch.distributed.get_rank()
    print(f"attempt {count} rank {rank}: sum={sum.item()}", flush=True)
    if int(count) < 2:
        if rank == 1:
            raise ValueError(f"the loss of attempt {count} is nan")
        while True:
            signal.pause()
    torch.distributed.destroy_process_group()

main()
"""


class Launched:
    """What a launcher made of a program: its exit code, its attempts and the variables that it set."""

    def __init__(self, done, base):
        self.code = done.returncode
        self.attempts = attempts_of(done.stdout.splitlines())
        last = self.attempts[-1][1]
        self.set = {name: value for name, value in last.items()
                    if base.get(name) != value and not OURS.fullmatch(name)}
        self.job = last["TORCHELASTIC_RUN_ID"]
        self.ports = ports_of(self.attempts)

    def shown(self, name):
        """The value of a variable on rank 1 of the last attempt, without what differs from run to run."""
        value = self.set.get(name, "not set")
        if name == "MASTER_PORT":
            return "a port, " + ("another one at each attempt" if len(set(self.ports)) == len(self.ports)
                                 else "the same at each attempt")
        return "a file" if name == "TORCHELASTIC_ERROR_FILE" else value.replace(self.job, "the run's name")

    def counts(self):
        return ", ".join(ranks[1]["TORCHELASTIC_RESTART_COUNT"] for ranks in self.attempts)


def table_of(torchrun, ours):
    """Rows of the page: what the same program sees of both launchers."""
    rows = [("exit code", torchrun.code, ours.code),
            ("attempts", len(torchrun.attempts), len(ours.attempts)),
            ("`TORCHELASTIC_RESTART_COUNT` of the attempts", torchrun.counts(), ours.counts())]
    rows += [(f"`{name}`", torchrun.shown(name), ours.shown(name))
             for name in sorted(torchrun.set | ours.set) if name != "TORCHELASTIC_RESTART_COUNT"]
    return (f"| | torchrun of PyTorch {VERSION} | `muster run` |\n|---|---|---|\n"
            + "".join(f"| {what} | {theirs} | {own} |\n" for what, theirs, own in rows))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_sees_the_same_as_under_torchrun(torch, muster, env, program):
    """A script and a C program without muster fail twice and then succeed, under the real torchrun and under
    `muster run`. Exit code, number of attempts, restart counts and variables are those of the table in
    docs/coming-from.md: the same, but for where the ranks meet."""
    words = list(map(str, PROGRAMS[program]))
    env.pop("OMP_NUM_THREADS", None)
    flags = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
    # Both start the script with the same interpreter.
    theirs = Launched(subprocess.run([torch / "torchrun", *flags, "--no-python", *words, "2"], env=env, text=True,
                                     capture_output=True, timeout=200, check=False), env)
    ours = Launched(muster("run", "-n", 2, "--max-restarts", 3, "-j", "same", "--", *words, 2), env)
    table = table_of(theirs, ours)
    head, rest = PAGE.read_text(encoding="utf-8").split(HEAD)
    written, tail = rest.split(END, 1)
    if os.environ.get("TEST_TORCH_WRITE") and table != written:
        PAGE.write_text(head + HEAD + table + END + tail, encoding="utf-8")
        written = table
    assert table == written
    assert (ours.code, len(ours.attempts), ours.counts()) == (theirs.code, len(theirs.attempts), theirs.counts())
    assert sorted(ours.set) == sorted(theirs.set)


def test_a_program_of_torch_meets_again_after_each_restart(torch, muster, tmp_path):
    """A program of PyTorch makes a group of its ranks at MASTER_ADDR and MASTER_PORT, and one rank raises in two
    attempts. Each attempt makes its group anew and computes with it; the exception, which `@record` left,
    is named as the reason of each restart."""
    script = tmp_path / "gloo.py"
    script.write_text(GLOO)
    done = muster("run", "-n", 2, "--max-restarts", 3, "--", torch / "python3", script)
    assert done.returncode == 0, done.stderr
    attempts = attempts_of(done.stdout.splitlines())
    assert [{rank["sum"] for rank in ranks.values()} for ranks in attempts] == [{"3"}] * 3
    assert sorted(attempts[2]) == [0, 1]
    for count in (0, 1):
        assert re.search(rf"muster run: #1 \(pid \d+\) ended with status 1: ValueError: the loss of attempt {count} "
                         rf"is nan; restarting all 2 ranks \({count + 1} of 3\)", done.stderr), done.stderr
