# SPDX-License-Identifier: Apache-2.0
"""`muster run --report`: how a run ended, as a JSON file.

behaviour: run / The report
"""

import datetime
import json
import os
import re
import signal
import socket

import pytest

from conftest import ROOT
from nodes import missing
from running import RANK, Run
from test_journal import small_disk  # noqa: F401
from test_nodes import SHORT_LEASE, Nodes, all_well, cluster  # noqa: F401
from test_run_logs import fill_up
from test_tiers import ONE_ATTEMPT

WHY_NOT = missing()
several_nodes = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
FIRST_CAUSE = {"message", "kind", "code", "index", "rank", "node", "host", "pid", "generation",
               "time", "error", "stderr", "log"}


def report_in(path):
    return json.loads(path.read_text())


@pytest.fixture
def run(spawn, muster, env):
    def start(size, *flags, variables=None, **options):
        return Run(spawn, muster, size, *flags, env={**env, **(variables or {})}, **options)

    return start


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.json"


def first_cause(path, **wanted):
    """It has all fields, these with these values."""
    cause = report_in(path)["first_cause"]
    assert set(cause) == FIRST_CAUSE
    assert {name: cause[name] for name in wanted} == wanted
    return cause


def when(text):
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def test_of_a_run_that_ended_well(run, path):
    """The run ends well. The report has no first cause, but times, generations and restarts.
    Nothing else is left in the folder."""
    job = run(2, "--report", path)
    job.all_well(job.entered())
    report = report_in(path)
    took = (when(report["ended"]) - when(report["began"])).total_seconds()
    assert abs(took - report["seconds"]) < 1
    assert [one["what"] for one in report["incidents"]] == ["started"]
    for name in ("began", "ended", "seconds", "incidents"):
        del report[name]
    assert report == {
        "version": 1, "job": job.job, "ending": "well", "exit_code": 0, "first_cause": None,
        "node": 0, "host": socket.gethostname(), "size": 2, "generations": 1, "restarts": 0,
        "max_restarts": 3, "preemption": None,
    }
    assert os.listdir(path.parent) == [path.name]


def test_it_counts_restarts_and_generations(run, path):
    """A rank is killed and replaced, and the run ends well. The report counts it, and has the
    incidents as `muster why` has them."""
    job = run(2, "--report", path)
    os.kill(job.entered()[1]["pid"], signal.SIGKILL)
    ranks = job.entered(2)
    job.all_well(ranks)
    report = report_in(path)
    assert (report["ending"], report["restarts"]) == ("well", 1)
    assert report["generations"] == ranks[0]["generation"]
    assert [one["what"] for one in report["incidents"]][:2] == ["started", "lost"]
    assert report["incidents"][1]["sentence"].endswith("was killed by signal 9 (Killed)")


def test_an_exit_is_the_first_cause(run, path, tmp_path):
    """A rank exits with a status. It is the first cause of the report, by kind, code and place,
    with the line that was printed, its last lines on stderr and its file."""
    job = run(2, "--max-restarts", 0, "--report", path, "--log-dir", tmp_path / "logs", "--tee")
    pid = job.entered()[1]["pid"]
    job.order(1, 1, "exit 5")
    assert job.run.wait() == 5
    report = report_in(path)
    assert (report["ending"], report["exit_code"]) == ("failed", 5)
    cause = first_cause(
        path, kind="exit", code=5, index=1, rank=1, node=0, host=socket.gethostname(), pid=pid,
        generation=1, stderr=["order: exit 5"], log=f"{tmp_path}/logs/{job.job}/1/0/stderr.log",
        message=job.last_line().removeprefix("muster run: "))
    assert when(report["began"]) <= when(cause["time"]) <= when(report["ended"])


def test_a_signal_is_the_first_cause(run, path):
    """A rank is killed by a signal. It is the first cause of the report."""
    job = run(2, "--max-restarts", 0, "--report", path)
    job.entered()
    job.order(0, 1, "kill 9")
    assert job.run.wait() == 137
    assert report_in(path)["exit_code"] == 137
    first_cause(path, kind="signal", code=9, index=0, log=None)


def test_a_hang_is_the_first_cause(run, path):
    """A rank hangs. It is the first cause of the report."""
    job = run(2, "--max-restarts", 0, "--report", path, "--grace", "400ms", "--lease", "60s",
              variables={"MUSTER_SOFT_TIMEOUT": "2s", "MUSTER_HARD_TIMEOUT": "4s",
                         "MUSTER_GRACE": "400ms"})
    job.entered()
    job.order(1, 1, "kill 19")
    assert job.run.wait() != 0
    cause = first_cause(path, index=1)
    # By the record of the hang, or of its end, if the other's end is on record too by then.
    assert cause["kind"] in ("soft-timeout", "hard-timeout")
    assert "made no progress" in cause["message"]
    assert cause["time"] is not None


def test_a_silent_rank_is_the_first_cause(run, path):
    """A rank falls silent. It is the first cause of the report."""
    job = run(2, "--max-restarts", 0, "--report", path, "--lease", "4s")
    os.kill(job.entered()[1]["pid"], signal.SIGSTOP)
    assert job.run.wait() != 0
    assert "was silent for longer than the lease" in first_cause(
        path, kind="lease", code=None, index=1)["message"]


def test_what_a_rank_reports_is_the_first_cause(run, path):
    """A rank reports a fault that ends the run, or aborts it. That is the first cause of the
    report, with its code."""
    job = run(2, "--max-restarts", 0, "--report", path, variables=ONE_ATTEMPT)
    pid = job.entered()[1]["pid"]
    job.order(1, 1, "fail 7 no such file")
    assert job.run.wait() == 1
    assert report_in(path)["exit_code"] == 1
    cause = report_in(path)["first_cause"]
    if cause["kind"] == "gave-up":  # the service had heard of the ends by then
        assert "rank 1 (#1) failed: code 7: no such file" in cause["message"]
    else:
        first_cause(path, kind="fault", code=7, index=1, rank=1, pid=pid, generation=1)
        assert "failed: code 7: no such file" in cause["message"]


def test_an_abort_is_the_first_cause(run, path):
    """A rank reports a fault that ends the run, or aborts it. That is the first cause of the
    report, with its code."""
    job = run(2, "--report", path)
    job.entered()
    job.order(0, 1, "abort 4 the data is gone")
    assert job.run.wait() == 1
    assert "the data is gone" in first_cause(path, kind="aborted", index=0)["message"]


def test_75_is_again(muster, path):
    """The run is stopped, or asks to be run again. `ending` in the report says so."""
    assert muster("run", "--report", path, "--", "sh", "-c", "exit 75").returncode == 75
    report = report_in(path)
    assert (report["ending"], report["exit_code"], report["first_cause"]) == ("again", 75, None)


def test_a_run_that_was_stopped(run, path):
    """The run is stopped, or asks to be run again. `ending` in the report says so."""
    job = run(2, "--report", path)
    job.entered()
    job.run.signal(signal.SIGINT)
    assert job.run.wait() == 130
    assert (report_in(path)["ending"], report_in(path)["exit_code"]) == ("stopped", 130)
    first_cause(path, kind="stopped", code=2, index=None, pid=None, stderr=[],
                message="stopped by signal 2 (Interrupt)")


def test_the_last_lines_are_there_whatever_is_in_them(muster, path):
    """The last lines are many, or no text. The report has the newest 2 KiB, in whole lines, as
    valid JSON."""
    script = r'''i=0; while [ $i -lt 900 ]; do echo "line $i"; i=$((i + 1)); done >&2
                 printf 'a "quoted" \\ one\n\n\303\274 is \374\n\033[1mlast' >&2; exit 1'''
    done = muster("run", "--report", path, "--", "sh", "-c", script, text=False)
    assert done.returncode == 1
    lines = first_cause(path)["stderr"]
    assert lines[-4:] == ['a "quoted" \\ one', "", r"ü is \xfc", r"\x1b[1mlast"]
    assert 100 < len(lines) < 400 and re.fullmatch(r"line \d{3}", lines[0])


@pytest.mark.parametrize("program, code, message", [
    ("no-such-program", 127, "'no-such-program' is not found in PATH"),
    ("/etc/passwd", 126, "'/etc/passwd' is not executable"),
])
def test_a_program_that_cannot_be_started(program, code, message, muster, path):
    """The program cannot be started. The report says so: the run did not begin."""
    assert muster("run", "-j", "none", "--report", path, "--", program).returncode == code
    report = report_in(path)
    assert (report["job"], report["ending"], report["exit_code"]) == ("none", "failed", code)
    first_cause(path, kind="launch", code=None, message=message)


def test_a_file_of_no_known_format(muster, path, tmp_path):
    """The program cannot be started. The report says so: the run did not begin."""
    broken = tmp_path / "broken"
    broken.write_bytes(b"\0\0\0\0")
    broken.chmod(0o755)
    assert muster("run", "--report", path, "--", broken).returncode == 126
    assert first_cause(path, kind="launch")["message"] == f"{broken}: Exec format error"


def test_another_runs_report_is_gone_as_soon_as_this_one_begins(run, path):
    """There is a report of another run. It goes when this one begins; a link is followed."""
    path.write_text("of another run")
    job = run(1, "--report", path)
    ranks = job.entered()
    assert not path.exists()
    job.all_well(ranks)
    assert report_in(path)["job"] == job.job


def test_a_link_is_followed(muster, path, tmp_path):
    """There is a report of another run. It goes when this one begins; a link is followed."""
    (tmp_path / "there").write_text("of another run")
    path.symlink_to(tmp_path / "there")
    assert muster("run", "--report", path, "--", "true").returncode == 0
    assert path.is_symlink() and report_in(tmp_path / "there")["ending"] == "well"


@pytest.mark.parametrize("where, why", [("/", "Is a directory"), ("/dev/null", "no plain file"),
                                        ("/proc/none/r.json", "No such file or directory")])
def test_a_file_that_cannot_be_written_is_refused_before_anything_starts(where, why, muster, tmp_path):
    """The report's file cannot be written, or is no plain one. The run prints one line and ends
    with 125, before anything starts; at the end it prints one line, and the exit code stays."""
    done = muster("run", "--report", where, "--", "touch", tmp_path / "started")
    assert done.returncode == 125
    assert done.stderr == (f"muster run: --report {where}: {why}; name a file in a folder in which "
                           "this user can write\n")
    assert not (tmp_path / "started").exists()


def test_a_disk_that_is_full_at_the_end_is_one_line(run, small_disk):  # noqa: F811
    """The report's file cannot be written, or is no plain one. The run prints one line and ends
    with 125, before anything starts; at the end it prints one line, and the exit code stays."""
    path = small_disk / "report.json"
    job = run(1, "--report", path)
    ranks = job.entered()
    fill_up(small_disk)
    job.all_well(ranks)
    assert job.last_line() == (
        f"muster run: the report {path} could not be written: No space left on device")
    assert os.listdir(small_disk) == ["filler"]


@several_nodes
def test_all_nodes_report_the_same_first_cause(cluster, tmp_path):  # noqa: F811
    """A run of several nodes fails. Every node's report has the same first cause."""
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    nodes = Nodes(cluster, [RANK], "--max-restarts", 0, "--report", paths[0], count=1, nnodes="3")
    for number in (1, 2):
        nodes.join(number, "--node-rank", number, "--report", paths[number], "--log-dir", tmp_path,
                   "--tee")
    ranks = nodes.entered(6)
    nodes.order(3, 1, 'exit 7 "\\')
    assert nodes.codes() == [7, 7, 7], nodes.told()
    for number, path in enumerate(paths):
        report = report_in(path)
        assert (report["node"], report["host"]) == (number, f"host-{number}")
        assert (report["ending"], report["exit_code"], report["size"]) == ("failed", 7, 6)
        first_cause(path, kind="exit", code=7, index=3, rank=3, node=1, host="host-1",
                    pid=ranks[3]["pid"], generation=1, stderr=['order: exit 7 "\\'],
                    log=f"{tmp_path}/over-all/3/0/stderr.log",
                    message=nodes.on[0].log.lines[-1].removeprefix("muster run: "))
    assert len({json.dumps(report_in(path)["first_cause"]) for path in paths}) == 1


@several_nodes
def test_a_fault_is_the_same_on_whichever_node(cluster, tmp_path):  # noqa: F811
    """A fault ends a run of several nodes. Every node's report has it; its times, last lines and
    file are at least in the report of the node it was on."""
    paths = [tmp_path / f"{number}.json" for number in range(3)]
    nodes = Nodes(cluster, [RANK], "--max-restarts", 0, "--report", paths[0], count=1, nnodes="3",
                  **ONE_ATTEMPT)
    for number in (1, 2):
        nodes.join(number, "--node-rank", number, "--report", paths[number], "--log-dir", tmp_path,
                   "--tee")
    ranks = nodes.entered(6)
    nodes.order(4, 1, "fail 7 cannot read shard 5")
    assert nodes.codes() == [1, 1, 1], nodes.told()
    log = f"{tmp_path}/over-all/4/0/stderr.log"
    nodes.on[2].log.wait_for(f"what #4 (pid {ranks[4]['pid']}) said on stderr: {log}")
    first_cause(paths[2], log=log)
    for path in paths:
        first_cause(path, kind="fault", code=7, index=4, rank=4, node=2, host="host-2",
                    pid=ranks[4]["pid"], generation=1)


@several_nodes
def test_nodes_may_share_a_file(cluster, path):  # noqa: F811
    """Nodes are given one file for all reports. It is whole: that of the node which ended last."""
    nodes = Nodes(cluster, [RANK], "--max-restarts", 0, "--report", path, others=("--report", path))
    nodes.entered(6)
    nodes.order(3, 1, "exit 7")
    assert nodes.codes() == [7, 7, 7], nodes.told()
    first_cause(path, kind="exit", code=7, index=3)
    assert os.listdir(path.parent) == [path.name]


@several_nodes
def test_a_node_that_was_given_up_says_so(cluster, tmp_path):  # noqa: F811
    """A node is lost to the others. Its report says that; the others go on."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, "--max-restarts", 0, count=2, nnodes="3")
    cut = nodes.join(2, "--node-rank", 2, "--report", tmp_path / "2.json")
    nodes.entered(6)
    nodes.on[0].log.wait_for("; 3 vote")  # two of two do not outlive a cable
    cluster.cable(2, "down")
    ranks = nodes.entered(4, generation=2)
    cluster.cable(2, "up")
    assert cut.wait() == 1
    report = report_in(tmp_path / "2.json")
    assert (report["ending"], report["exit_code"], report["generations"]) == ("failed", 1, 1)
    first_cause(tmp_path / "2.json", kind="node", node=2, host="host-2", index=None,
                message="node 2 (host-2) ended without the others: it was given up, and no restart "
                        "is left")
    nodes.on.remove(cut)
    all_well(nodes, ranks)


def test_the_page_has_every_field(run, path):
    """The page on operations lists every field of the report, and no other."""
    job = run(1, "--max-restarts", 0, "--report", path)
    job.entered()
    job.order(0, 1, "exit 1")
    assert job.run.wait() == 1
    page = (ROOT / "docs" / "operations.md").read_text()
    section = page.split("\n## The report of a run\n", 1)[1].split("\n## ", 1)[0]
    listed = re.findall(r"^\| `([\w.]+)` \|", section, re.M)
    report = report_in(path)
    fields = [name for name in report] + [f"first_cause.{name}" for name in report["first_cause"]]
    assert sorted(listed) == sorted(fields)
