# SPDX-License-Identifier: Apache-2.0
"""The standard input of `muster run` goes to one rank: what is piped into it, a file, what is typed.

behaviour: run / Input
"""

import subprocess
import sys

import pytest

from conftest import MUSTER, WAIT_S
from terminal import needs_terminal, terminal  # noqa: F401

READS = ("sh", "-c", "while read -r line; do echo got $line; done; echo end")


@pytest.mark.parametrize("flags, reader", [((), 0), (("--input", 1), 1), (("--input", "none"), None)])
def test_one_rank_reads_what_is_piped_in(muster, flags, reader):
    """Something is piped into the run. Rank 0 reads it, or the rank that `--input` names, or none;
    the others read nothing."""
    done = muster("run", "-n", 2, *flags, "--", *READS, input="a\nb\n")
    assert done.returncode == 0
    for rank in (0, 1):
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}]")]
        got = [f"[{rank}]: got a", f"[{rank}]: got b"] if rank == reader else []
        assert lines == [*got, f"[{rank}]: end"]


def test_the_variable_counts_as_the_flag(muster, env):
    """MUSTER_INPUT is set. It counts as the flag."""
    done = muster("run", "--", *READS, input="a\n", env={**env, "MUSTER_INPUT": "none"})
    assert done.stdout == "[0]: end\n"


def test_what_a_rank_leaves_is_there_for_the_next(env):
    """A rank reads one line of a pipe and fails. Its replacement reads the second line, and the
    caller's next command what is left: nothing is read ahead."""
    run = f"{MUSTER} run -j rest --max-restarts 0 -- sh -c 'read x; echo rank $x; exit 3'"
    done = subprocess.run(["sh", "-c", f"{run}; {run}; cat"], input="a\nb\nc\nd\n", env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=WAIT_S, check=True)
    assert done.stdout == "[0]: rank a\n[0]: rank b\nc\nd\n"


@pytest.mark.parametrize("index, words", [
    ("x", "--input x: the index of a rank or 'none' is expected"),
    ("", "--input : the index of a rank or 'none' is expected"),
    ("2", "--input 2: the indices of the job are 0 to 1"),
])
def test_an_index_that_makes_no_sense_is_refused(muster, index, words):
    """`--input` names no rank of the job. That is wrong usage: 2."""
    done = muster("run", "-n", 2, "--input", index, "--", "true")
    assert (done.returncode, done.stderr) == (2, f"muster run: {words}\n")


def test_a_secret_that_was_read_from_it_leaves_no_input(muster):
    """The secret is read from stdin (`--secret-fd 0`). No rank reads anything."""
    done = muster("run", "--secret-fd", 0, "--", *READS, input="0123456789abcdef" * 4 + "\nrest\n")
    assert done.stdout == "[0]: end\n", done.stderr


@needs_terminal
def test_what_is_typed_goes_to_rank_0(terminal):  # noqa: F811
    """Rank 0 of two prompts on a terminal, and the user answers. The rank gets the line; the prompt
    and the echo stay on the screen, and what comes next is below. Ctrl-D is the end of the input."""
    script = 'printf "$RANK name? "; while read -r x; do echo hello $x; done; echo end of $RANK'
    screen = terminal("run", "-n", "2", "--", "sh", "-c", script)
    screen.sees("[0]: 0 name?", "[1]: 1 name? end of 1")
    screen.types("me", "Enter")
    screen.sees("[0]: 0 name? me", "[0]: hello me")
    screen.types("you", "Enter")
    screen.sees("[0]: hello you")
    screen.types("C-d")
    screen.sees("[0]: end of 0")
    assert screen.ended() == 0
    lines = screen.everything()
    order = [lines.index(line) for line in
             ("[0]: 0 name? me", "[0]: hello me", "you", "[0]: hello you", "[0]: end of 0")]
    assert order == sorted(order), lines


@needs_terminal
def test_of_what_is_typed_for_the_shell_one_line_is_taken(terminal, tmp_path):  # noqa: F811
    """The user types lines that the rank does not read. One is taken from the terminal; the others
    are there for the shell when the run has ended."""
    script = ("import os, select, sys, time\n"
              "if os.environ['RANK'] == '1': sys.exit()\n"
              "print('got', os.read(0, 100)); select.select([0], [], []); print('more is there')\n"
              "while not os.path.exists(sys.argv[1]): time.sleep(0.01)")
    screen = terminal("run", "-n", "2", "--", sys.executable, "-c", script, tmp_path / "go",
                      script="{run}; read y; echo shell $y")
    screen.types("one", "Enter")
    screen.sees("[0]: got b'one")
    screen.types("two", "Enter", "three", "Enter")
    screen.sees("[0]: more is there", "three")
    (tmp_path / "go").touch()
    screen.sees("shell three")
    assert screen.ended() == 0


@needs_terminal
def test_a_run_in_the_background_does_not_read(terminal, tmp_path):  # noqa: F811
    """The run is in the background of the terminal, and its rank 0 reads. The run goes on and takes
    nothing that is typed; in the foreground it does."""
    script = "set -m; {run} & read y; echo shell $y; fg"
    screen = terminal("run", "-n", "2", "--", "sh", "-c", 'read x; echo got $x', script=script)
    screen.sees("[1]: got")
    screen.types("one", "Enter")
    screen.sees("shell one")
    screen.types("two", "Enter")
    screen.sees("[0]: got two")
    assert screen.ended() == 0
