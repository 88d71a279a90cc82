# SPDX-License-Identifier: Apache-2.0
"""What ranks write is seen as they write it: lines that are not at their end, progress bars, prompts;
on a real terminal and through a pipe.

behaviour: run / Output as it comes
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import time

import pytest

from conftest import MUSTER, WAIT_S
from terminal import needs_terminal, terminal  # noqa: F401

BAR = pathlib.Path(__file__).parent / "bar_rank.py"
STEPS = 30
SEEN_S = 0.5
needs_tqdm = pytest.mark.skipif(importlib.util.find_spec("tqdm") is None,
                                reason="tqdm is not installed (tools/deps --test)")


def written(tmp_path, rank):
    """(stdout, stderr) of the same program without muster, into files."""
    paths = [tmp_path / f"{rank}.out", tmp_path / f"{rank}.err"]
    env = {**os.environ, "RANK": str(rank), "PYTHONUNBUFFERED": "1"}
    with open(paths[0], "wb") as out, open(paths[1], "wb") as error:
        subprocess.run([sys.executable, BAR, tmp_path / "go", str(STEPS)], stdout=out, stderr=error,
                       env=env, timeout=WAIT_S, check=True)
    return [path.read_bytes() for path in paths]


def test_a_part_of_a_line_is_seen_through_a_pipe(env, tmp_path):
    """The output goes into a pipe. A line that is not at its end is seen while the rank runs on,
    once under the label; a line of another rank breaks it, and nothing is lost."""
    script = ('printf "loading $RANK "; while [ ! -e "$1-$RANK" ]; do sleep 0.01; done; echo done')
    run = subprocess.Popen([MUSTER, "run", "-n", "2", "--", "sh", "-c", script, "sh", tmp_path / "go"],
                           env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = b""
    while b"loading 0 " not in text or b"loading 1 " not in text:
        text += os.read(run.stdout.fileno(), 4096)
    first, second = text.split(b"\n")  # the rank that is seen last has the end of the output
    assert sorted([first, second]) == [b"[0]: loading 0 ", b"[1]: loading 1 "]
    (tmp_path / f"go-{second[1:2].decode()}").touch()
    while not text.endswith(b"done\n"):
        text += os.read(run.stdout.fileno(), 4096)
    (tmp_path / f"go-{first[1:2].decode()}").touch()
    text += run.stdout.read()
    run.stdout.close()
    assert run.wait(WAIT_S) == 0
    assert text == first + b"\n" + second + b"done\n" + first[:5] + b"done\n"


def test_python_does_not_buffer(muster, env):
    """A rank in Python prints and is killed. What it printed is there: PYTHONUNBUFFERED is set to
    1, unless the user has set it."""
    env.pop("PYTHONUNBUFFERED", None)
    script = (sys.executable, "-c", "import os; print('seen'); os.kill(os.getpid(), 9)")
    assert muster("run", "--max-restarts", 0, "--", *script).stdout == "[0]: seen\n"
    show = ("--", "sh", "-c", "echo $PYTHONUNBUFFERED")
    assert muster("run", *show).stdout == "[0]: 1\n"


def test_the_users_choice_of_pythons_buffer_stays(muster, env):
    """A rank in Python prints and is killed. What it printed is there: PYTHONUNBUFFERED is set to
    1, unless the user has set it."""
    env["PYTHONUNBUFFERED"] = ""
    done = muster("run", "--", "sh", "-c", "echo ${PYTHONUNBUFFERED-unset}.", env=env)
    assert done.stdout == "[0]: .\n"


@needs_terminal
@needs_tqdm
def test_bars_and_unfinished_lines_of_four_ranks_are_seen(terminal, tmp_path, lateness):  # noqa: F811
    """Four ranks draw a tqdm bar and print a line without newline and flush, on a terminal. All
    eight are seen within half a second, each in a row of its own under its label; lines that end
    go above them. With `--tee` the files have byte for byte what was written."""
    screen = terminal("run", "-n", 4, "-j", "bars", "--log-dir", tmp_path / "logs", "--tee", "--",
                      sys.executable, BAR, tmp_path / "go", STEPS)
    took = []
    screen.sees(*[f"bar of {rank}:   0%" for rank in range(4)])
    for step in range(1, STEPS):
        began = time.monotonic()
        (tmp_path / f"go-{step}").touch()
        bars = [f"[{rank}]: bar of {rank}:" for rank in range(4)]
        prints = [f"[{rank}]: print of {rank}: step {step}" for rank in range(4)]
        steps = [f" {step}/{STEPS}"] * 4
        while True:
            lines, when = screen.sees(*bars, *([] if step % 5 == 0 else prints))
            if [line for line, at in zip(lines, steps) if line.endswith(at)] == lines[:4]:
                break
            assert when - began < WAIT_S, lines
        took.append(when - began)
        rows = screen.screen()
        assert [len([row for row in rows if bar in row]) for bar in bars] == [1] * 4, rows
    assert min(took) < SEEN_S + lateness.spare_s(), took
    (tmp_path / f"go-{STEPS}").touch()
    assert screen.ended() == 0, screen.everything()
    lines = screen.everything()
    for rank in range(4):
        assert [line for line in lines if line.startswith(f"[{rank}]: rank")] == [
            f"[{rank}]: rank {rank} has saved step {step}" for step in range(5, STEPS + 1, 5)]
        logs = tmp_path / "logs/bars" / str(rank) / "0"
        files = [(logs / "stdout.log").read_bytes(), (logs / "stderr.log").read_bytes()]
        assert files == written(tmp_path, rank)
