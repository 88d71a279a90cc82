# SPDX-License-Identifier: Apache-2.0
"""`muster run` with programs that know nothing of muster: when a rank fails, all are restarted, as with
torchrun.

behaviour: run / Programs without muster
"""

import json
import os
import pathlib
import re
import socket
import sys

import pytest

from nodes import joining, missing
from running import RANK, Run, until
from test_nodes import SHORT_LEASE, Nodes, cluster  # noqa: F401
from unmodified import PROGRAMS, attempts_of, ports_of

HINT = "; with --max-restarts N all ranks of a program without muster are restarted"
FAREWELL_S = 10
SAYS = "echo attempt $TORCHELASTIC_RESTART_COUNT rank $RANK: A=1"
# What torch's `@record` writes for an exception.
RECORDS = """
import json, os, sys
message = {"message": "ValueError: the loss is nan\\nat step 7", "extraInfo": {"py_callstack": "Traceback"}}
with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
    json.dump({"message": message}, file)
sys.exit("much noise")
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_without_muster_begins_again_as_a_whole(muster, program):
    """`--max-restarts 3` is given, and a script or a C program without muster fails on one rank, twice.
    Each time all ranks are ended and restarted: three attempts, and the run ends with 0. The variables
    are those of torchrun; TORCHELASTIC_RESTART_COUNT counts, and MASTER_PORT is another free one each
    time."""
    done = muster("run", "-n", 3, "--max-restarts", 3, "-j", "plain", "--", *PROGRAMS[program], 2)
    assert done.returncode == 0, done.stderr
    attempts = attempts_of(done.stdout.splitlines())
    assert len(attempts) == 3 and sorted(attempts[2]) == [0, 1, 2]
    printed_all = [(count, 1, ranks[1]) for count, ranks in enumerate(attempts)]
    printed_all += [(2, index, rank) for index, rank in attempts[2].items()]
    for count, index, rank in printed_all:
        assert (rank["TORCHELASTIC_RESTART_COUNT"], rank["TORCHELASTIC_MAX_RESTARTS"]) == (str(count), "3")
        assert (rank["RANK"], rank["LOCAL_RANK"], rank["WORLD_SIZE"]) == (str(index), str(index), "3")
        assert (rank["GROUP_WORLD_SIZE"], rank["ROLE_NAME"]) == ("1", "default")
        assert rank["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "1"
        assert rank["TORCHELASTIC_RUN_ID"] == "plain"
    assert len(set(ports_of(attempts))) == 3
    said = [line for line in done.stderr.splitlines() if "restarting" in line]
    code = 1 if program == "python" else 3
    assert [re.sub(r"pid \d+", "pid", line) for line in said] == [
        f"muster run: #1 (pid) ended with status {code}; restarting all 3 ranks ({count} of 3)"
        for count in (1, 2)
    ]


def test_ranks_that_were_done_begin_again_too(muster, tmp_path):
    """One rank ends well, then another fails. The first one is restarted with it."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = (f"{SAYS}; test $TORCHELASTIC_RESTART_COUNT = 1 && exit 0; "
              f"test $RANK = 0 && exec true 3>{fifo}; read x < {fifo}; exit 1")
    done = muster("run", "-n", 2, "--max-restarts", 1, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert sorted(attempts_of(done.stdout.splitlines())[1]) == [0, 1]


def test_without_the_flag_the_last_line_says_how(muster, env, tmp_path):
    """`--max-restarts` is not given, and a rank of a program without muster fails. Nothing is restarted;
    the last line names the first cause and the flag that restarts all ranks."""
    report = tmp_path / "report.json"
    done = muster("run", "-n", 2, "--report", report, "--", *PROGRAMS["c"], 2)
    assert done.returncode == 3
    assert len(attempts_of(done.stdout.splitlines())) == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("muster run: first cause: #1 (pid ") and last.endswith(HINT)
    assert json.loads(report.read_text())["restarts"] == 0
    env["MUSTER_MAX_RESTARTS"] = "2"  # as good as the flag
    done = muster("run", "-n", 2, "--", *PROGRAMS["c"], 2)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("most", [0, 2])
def test_restarts_that_are_used_up_end_the_run(muster, most):
    """A program without muster fails at each attempt. After the last restart the run ends with the status
    of the failed rank, and the first cause is that of the last attempt."""
    done = muster("run", "-n", 2, "--max-restarts", most, "--", *PROGRAMS["c"], 99)
    assert done.returncode == 3
    assert len(attempts_of(done.stdout.splitlines())) == most + 1
    *_, end, cause = [line for line in done.stderr.splitlines() if line.startswith("muster run: ")]
    restarts = "restarts are" if most != 1 else "restart is"
    assert re.fullmatch(r"muster run: #1 \(pid \d+\) ended with status 3; the ranks are not restarted: "
                        rf"{most} of {most} {restarts} used", end)
    assert re.match(r"muster run: first cause: #1 \(pid \d+\) on \S+ ended with status 3 at ", cause)
    assert cause.endswith(f'its last line on stderr: "rank 1 of attempt {most} fails"')


def test_status_shows_ranks_without_muster(spawn, muster, tmp_path):
    """Ranks run that have opened no client. `muster status` shows each as `running, does not use muster`, with
    node and pid, and names none as missing; `--json` lists them in `without_muster`. One that ends is no
    longer shown. [program / muster status]"""
    flags = [tmp_path / "0", tmp_path / "1"]
    script = f"echo pid $$; until test -e {tmp_path}/$RANK; do sleep 0.05; done"
    run = spawn("run", "-n", 2, "-j", "plain", "--", "sh", "-c", script)
    pids = {int(line[1]): int(line.split()[-1])
            for line in (run.out.wait_for(f"[{index}]: pid") for index in (0, 1))}

    def listed(count):
        told = json.loads(muster("status", "-j", "plain", "--json").stdout)
        return told if len(told["without_muster"]) == count else None

    host = socket.gethostname()
    told = until(lambda: listed(2))
    assert told["without_muster"] == [{"index": index, "pid": pids[index], "host": host, "node": 0}
                                      for index in (0, 1)]
    assert told["missing"] == []
    said = muster("status", "-j", "plain").stdout.splitlines()
    assert said[0] == "job plain: 2 of 2 ranks run, without muster"
    for index in (0, 1):
        assert f"  #{index}             running, does not use muster; node {host}, pid {pids[index]}" in said
    flags[1].touch()
    assert until(lambda: listed(1))["without_muster"][0]["index"] == 0
    flags[0].touch()
    assert run.wait() == 0


def test_status_no_longer_shows_one_that_opens_its_client(spawn, muster, tmp_path):
    """A rank opens its client long after its start. It is shown as one without muster until then, and then as
    a member. [program / muster status]"""
    flag = tmp_path / "flag"
    script = f'echo it runs; until test -e {flag}; do sleep 0.05; done; exec "$0"'
    run = Run(spawn, muster, 1, rank=("sh", "-c", script, RANK))
    run.out.wait_for("it runs")

    def without():
        return json.loads(muster("status", "-j", run.job, "--json").stdout)["without_muster"]

    assert until(without)[0]["index"] == 0
    flag.touch()
    ranks = run.entered()
    assert until(lambda: without() == [])
    run.all_well(ranks)


@pytest.mark.parametrize("logs", [False, True])
def test_the_message_of_torchs_error_file_is_the_cause(muster, tmp_path, logs):
    """A worker leaves its exception in TORCHELASTIC_ERROR_FILE, as torch's `@record` does. The first line of
    its message is the cause that is named: when all are restarted, in the last line, and in the report.
    [The first cause]"""
    report = tmp_path / "report.json"
    flags = ("--log-dir", tmp_path / "logs") if logs else ()
    done = muster("run", "--max-restarts", 1, "--report", report, *flags, "--", sys.executable, "-c", RECORDS)
    assert done.returncode == 1
    said = done.stderr.splitlines()
    assert any(re.fullmatch(r"muster run: #0 \(pid \d+\) ended with status 1: ValueError: the loss is nan; "
                            r"restarting the rank \(1 of 1\)", line) for line in said), said
    assert re.match(rf"muster run: first cause: #0 \(pid \d+\) on {socket.gethostname()} failed: "
                    r"ValueError: the loss is nan; it ended with status 1 at ", said[-1])
    cause = json.loads(report.read_text())["first_cause"]
    assert cause["error"] == "ValueError: the loss is nan" and cause["stderr"] == ["much noise"]


def test_what_is_no_error_of_torch_changes_nothing(muster):
    """A rank writes something else into the error file, and much of it. The cause is its last line on stderr
    as ever. [The first cause]"""
    for junk in ("{", "[1]", '{"message": 7}', '{"message": {"text": "x"}}', "x" * 100_000):
        script = f"printf '%s' '{junk}' > $TORCHELASTIC_ERROR_FILE; echo why >&2; exit 3"
        done = muster("run", "--", "sh", "-c", script)
        assert 'its last line on stderr: "why"' in done.stderr.splitlines()[-1], junk[:9]


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_all_nodes_begin_again_together(cluster):  # noqa: F811
    """Programs without muster run on three nodes, and a rank of the first fails twice. All ranks of all
    nodes are restarted each time, with one count, and with another MASTER_PORT that all nodes know."""
    script = ('test $RANK = 1 || exec "$@"; for node in 1 2; do '
              'until "$0" key get muster/run-node/$node | grep -q " $TORCHELASTIC_RESTART_COUNT"; do '
              'sleep 0.1; done; done; exec "$@"')
    nodes = Nodes(cluster, ["sh", "-c", script, cluster.muster_path(), *PROGRAMS["c"], "2"],
                  "--max-restarts", 3)
    assert nodes.codes() == [0, 0, 0], nodes.told()
    attempts = attempts_of(line for process in nodes.on for line in process.out.lines)
    assert len(attempts) == 3 and sorted(attempts[2]) == list(range(6))
    assert {rank["GROUP_WORLD_SIZE"] for rank in attempts[2].values()} == {"3"}
    assert len(set(ports_of(attempts))) == 3
    for process in nodes.on:
        said = process.log.having("restarting all 6 ranks")
        assert [re.search(r"#1 \(pid \d+\) on host-0 ended with status 3; .* \((\d) of 3\)", line)[1]
                for line in said] == ["1", "2"]


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_node_that_comes_late_begins_with_the_others(cluster):  # noqa: F811
    """A rank of node 0 fails before the other nodes are there. All ranks start when they are: each at the second
    attempt, with one count and one MASTER_PORT."""
    over = pathlib.Path(cluster.directories[0]) / "over"
    script = (f'{SAYS}; echo "port $MASTER_PORT"; test $TORCHELASTIC_RESTART_COUNT = 1 || exit 1; '
              f"until test -e {over}; do sleep 0.1; done")
    nodes = Nodes(cluster, ["sh", "-c", script], "--max-restarts", 2, count=1, nnodes="3")
    nodes.on[0].log.wait_for("the ranks start when 2 more nodes are here: 3 are needed")
    for number in (1, 2):
        nodes.join(number)
    for process in nodes.on:
        process.out.wait_for("attempt 1 ", count=2)
    over.touch()
    assert nodes.codes() == [0, 0, 0], nodes.told()
    assert not any(line for process in nodes.on[1:] for line in process.out.having("attempt 0"))
    assert len({line.split()[-1] for process in nodes.on for line in process.out.having("port ")[-2:]}) == 1


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_lost_node_is_waited_for(cluster):  # noqa: F811
    """One of two nodes is lost, then a rank of the other fails. All begin again when a node has taken the lost one's
    place: until then nothing is started, and one line says so."""
    over = pathlib.Path(cluster.directories[0]) / "over"
    script = (f"{SAYS}; until test -e {over}-$TORCHELASTIC_RESTART_COUNT; do sleep 0.1; done; "
              "test $TORCHELASTIC_RESTART_COUNT = 1 || exit $(($RANK == 0))")
    nodes = Nodes(cluster, ["sh", "-c", script], "--max-restarts", 3, "--lease", SHORT_LEASE, count=2)
    nodes.on[1].out.wait_for("attempt 0 rank 3")
    nodes.on[1].kill()
    pathlib.Path(f"{over}-0").touch()
    nodes.on[0].log.wait_for("the ranks start when 1 more node is here: 2 are needed")
    assert nodes.on[0].out.having("attempt 1") == []
    other = nodes.join(1)
    other.out.wait_for("attempt 1 rank 3")
    nodes.on[0].out.wait_for("attempt 1 rank 0")
    pathlib.Path(f"{over}-1").touch()
    assert (nodes.on[0].wait(), other.wait()) == (0, 0), nodes.told()


def test_no_node_is_said_to_be_missing_that_only_takes_its_time(spawn):
    """A rank of node 1 fails, and the one of node 0 does not heed SIGTERM: it is killed when the grace
    time is over. Node 1 waits for node 0 until then, and does not say that a node is missing."""
    script = ('trap "" TERM; test "$TORCHELASTIC_RESTART_COUNT" = 1 && exit 0; '
              'test "$RANK" = 1 && exit 3; while :; do sleep 0.1; done')
    first = spawn("run", "--nnodes", 2, "--listen", "127.0.0.1:0", "--max-restarts", 1, "--grace", "1s",
                  "--", "sh", "-c", script)
    other = spawn("run", *joining(first))
    assert (first.wait(), other.wait()) == (0, 0)
    for node in (first, other):
        assert node.log.having("restarting all 2 ranks") and not node.log.having("the ranks start when")


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_nodes_that_were_done_begin_again_too(cluster):  # noqa: F811
    """The ranks of two nodes have ended well, and long after one of the third fails. All nodes begin again, each
    time, and the end is told alike on all.

    For the end a node that is done waits for 10 s: that time begins anew with each attempt."""
    script = (f'{SAYS}; test $RANK -lt 4 && exit 0; test $RANK = 5 && exec sleep 1000; for node in 0 1; do '
              f'until "$0" key get muster/run-node/$node | grep -q "^done $TORCHELASTIC_RESTART_COUNT"; do '
              f'sleep 0.1; done; done; test $TORCHELASTIC_RESTART_COUNT = 0 && sleep {FAREWELL_S + 1}; exit 1')
    nodes = Nodes(cluster, ["sh", "-c", script, cluster.muster_path()], "--max-restarts", 2)
    assert nodes.codes() == [1, 1, 1], nodes.told()
    attempts = attempts_of(line for process in nodes.on for line in process.out.lines)
    assert len(attempts) == 3
    last = [process.log.lines[-1] for process in nodes.on]
    assert len(set(last)) == 1 and "first cause: #4 (pid " in last[0], last
