# SPDX-License-Identifier: Apache-2.0
"""`muster run -n 1 ./a : -n 8 ./b`: several programs in one run, as for mpirun.

behaviour: run / Several programs
"""

import re
import shutil

import pytest
from conftest import MUSTER
from nodes import joining

HELLO = MUSTER.parent / "hello"


def said(run, *words):
    """What each process printed, by its label."""
    done = run("run", *words)
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def test_indices_count_on_from_program_to_program(muster):
    """Three programs run as one job. Each has its own `-n`, one by default; indices and ranks count on,
    and the size is that of all."""
    show = 'echo "$0 $MUSTER_INDEX $RANK $LOCAL_RANK $WORLD_SIZE"'
    assert said(muster, "-n", 2, "--", "sh", "-c", show, "first", ":", "sh", "-c", show, "second", ":",
                "-n2", "--", "sh", "-c", show, "third") == [
        "[0]: first 0 0 0 5", "[1]: first 1 1 1 5", "[2]: second 2 2 2 5", "[3]: third 3 3 3 5",
        "[4]: third 4 4 4 5"]


def test_ranks_of_several_programs_are_one_generation(muster, tmp_path):
    """Two programs open clients as ranks. They are one generation of three, and meet at a barrier."""
    other = tmp_path / "other"
    shutil.copy(HELLO, other)
    lines = said(muster, "-n", 1, HELLO, ":", "-n", 2, other)
    assert lines == [f"[{rank}]: generation 1: rank {rank} of 3" for rank in range(3)]


def test_a_process_is_started_again_with_its_own_program(muster, tmp_path):
    """The process of the second program fails, and the run may restart it. It runs its own program
    again."""
    mark, back = tmp_path / "mark", tmp_path / "back"
    again = (f"'{HELLO}' >/dev/null; test -e '{mark}' || {{ touch '{mark}'; exit 3; }}; "
             f"echo back; touch '{back}'")
    # The first one stays: a newcomer is stopped when all others are done.
    stays = f"'{HELLO}' >/dev/null; until test -e '{back}'; do sleep 0.05; done"
    done = muster("run", "--no-label", "-n", 1, "--", "sh", "-c", stays, ":", "sh", "-c", again)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "back\n"
    assert re.search(r"#1\b.* ended with status 3; starting it again", done.stderr)


def test_spares_run_the_last_program(muster):
    """A run of two programs has a spare. It runs the second one."""
    lines = said(muster, "--spares", 1, "-n", 1, "echo", "first", ":", "echo", "second")
    assert lines == ["[0]: first", "[1]: second", "[2]: second"]


def test_the_line_for_the_other_nodes_has_all_programs(spawn):
    """A run of two programs has a second node. The line to type there has both, each with its `-n`."""
    run = spawn("run", "--nnodes", 2, "--listen", "127.0.0.1:0", "-n", 1, "true", ":",
                "-n", 2, "sh", "-c", "exit 0")
    line = run.log.wait_for("2 nodes: on the other 1: muster run --join")
    assert line.endswith(" -n 1 -- true : -n 2 -- sh -c 'exit 0'")


def test_another_node_may_run_another_program(spawn):
    """Node 0 runs two programs, and the other node a third one at all its places. They are one run, and
    indices count on over the nodes."""
    show = "echo $0 $MUSTER_INDEX"
    first = spawn("run", "--no-label", "--nnodes", 2, "--listen", "127.0.0.1:0",
                  "-n", 1, "sh", "-c", show, "a", ":", "-n", 2, "sh", "-c", show, "b")
    words = joining(first)
    other = spawn("run", "--no-label", *words[:words.index("-n")], "-n", 3, "--", "sh", "-c", show, "c")
    assert (first.wait(), other.wait()) == (0, 0)
    assert sorted(first.out.lines + other.out.lines) == ["a 0", "b 1", "b 2", "c 3", "c 4", "c 5"]


def test_a_colon_at_the_end_is_an_argument(muster):
    """The last word of a run is a colon. It is an argument of the program, as in `sh -c :`."""
    assert said(muster, "echo", "a", ":") == ["[0]: a :"]


@pytest.mark.parametrize("words, line", [
    (["true", ":", "-n", "2"], "the program after ':' is missing, as in : -n 4 -- PROGRAM"),
    ([":", "true"], "the program before ':' is missing, as in -n 1 -- PROGRAM : ..."),
    (["true", ":", "--max-restarts", "3", "true"],
     "--max-restarts after ':': only -n and -m may differ between programs; put it before the first one"),
    (["true", ":", "-x", "A=1", "true"],
     "-x after ':': only -n and -m may differ between programs; put it before the first one"),
    (["true", ":", "-r", "3", "true"],
     "--redirects after ':': only -n and -m may differ between programs; put it before the first one"),
    (["true", ":", "--rdzv-endpoint=a:1", "true"],
     "--rdzv-endpoint after ':': only -n and -m may differ between programs; put it before the first one"),
    (["true", ":", "--help"], "--help stands before the first program"),
    (["true", ":", "-n", "none", "true"], "setting nproc: 'none' is no number from 1 to 65536"),
])
def test_what_is_wrong_about_a_program_is_said(muster, words, line):
    """A program of a run is missing, or has another flag than `-n` and `-m`. One line says what is wrong, and
    nothing runs."""
    done = muster("run", *words)
    assert (done.returncode, done.stderr) == (2, f"muster run: {line}\n")


def test_a_program_that_is_not_found_is_named(muster):
    """The second program of a run does not exist. The run names it, starts nothing and exits with
    127."""
    done = muster("run", "-n", 1, "--", "echo", "hi", ":", "-n", 2, "no-such-program")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == "muster run: 'no-such-program' is not found in PATH\n"
