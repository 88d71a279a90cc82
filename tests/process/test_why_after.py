# SPDX-License-Identifier: Apache-2.0
"""`muster why` when the job runs no more: the file that its run has left, a record, a page.

behaviour: program / muster why
"""

import json
import os
import re
import signal
import time

import pytest

from nodes import missing
from restarting import job  # noqa: F401
from running import RANK, Run, children_of, service_of, until, wait_gone
from test_nodes import SHORT_LEASE, Nodes, cluster  # noqa: F401

WHY_NOT = missing()
several_nodes = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
BYTES_MAX = 65536
AGREES_MS = 50


@pytest.fixture
def state(env, tmp_path):
    """The state folder of the user; runs leave files there."""
    env.update(MUSTER_KEEP_RUNS="50", MUSTER_STATE_DIR=str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def run(spawn, muster, env):
    def start(size, *flags, **options):
        return Run(spawn, muster, size, *flags, env={**env, **options})

    return start


@pytest.fixture
def why(muster):
    """why(arguments...) is what the command prints."""

    def ask(*arguments, **options):
        done = muster("why", *arguments, **options)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    return ask


def files(state):
    return sorted((state / "runs").glob("*.json"))


def kept(state):
    (path,) = files(state)
    return json.loads(path.read_text())


def whats(story):
    return [incident["what"] for incident in story["incidents"]]


def sentences(text):
    """The lines behind the first, without their moments and the advice."""
    return [line[15:] for line in text.splitlines()[1:] if not line.startswith("what to do: ")]


def known(state, count):
    """Until the file of the one run has so many incidents."""
    until(lambda: files(state) and len(kept(state)["incidents"]) >= count)


def restarted(run, *flags):
    """A run of which a rank was killed, whose others restarted without it and took in its
    replacement, and the pidfds of all that it has started."""
    a_run = run(2, "--min-size", "2", *flags)
    ranks = a_run.entered()
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    again = a_run.entered(2)
    held = [os.pidfd_open(pid) for pid in {rank["pid"] for rank in again.values()} | set(children_of(a_run.run.pid))]
    return a_run, held


def test_a_killed_run_leaves_what_was_known(run, why, state):
    """`muster run` itself is killed after a restart. Its service writes that down before it ends, and
    `muster why` without a name tells the story of that run, until that moment."""
    a_run, held = restarted(run)
    before = time.time()
    a_run.run.kill()
    wait_gone(*held)
    story = json.loads(why("--json"))
    assert whats(story) == ["started", "lost", "restarted"]
    assert (story["incidents"][1]["cause"], story["incidents"][1]["code"]) == ("signal", 9)
    assert story["job"] == a_run.job
    assert story["run"]["sentence"] == "muster run was killed"
    assert before - 1 <= story["run"]["orphaned_ms"] / 1000 <= time.time()
    text = why()
    assert text.startswith(f"job {a_run.job}, begun ")
    assert sentences(text) == [one["sentence"] for one in story["incidents"]] + ["muster run was killed"]
    assert oct((state / "runs").stat().st_mode & 0o777) == "0o700"


def test_a_run_and_its_service_are_killed(run, why, state):
    """`muster run` and its service are killed at once, as with a host. What was known at the last
    incident is told, and that no end is recorded."""
    a_run, held = restarted(run)
    known(state, 3)
    service = service_of(a_run.run.pid)
    os.kill(a_run.run.pid, signal.SIGSTOP)  # it starts no other service
    os.kill(service, signal.SIGKILL)
    a_run.run.kill()
    wait_gone(*held)
    story = json.loads(why(a_run.job, "--json"))
    assert whats(story) == ["started", "lost", "restarted"]
    assert story["run"]["sentence"].startswith("no end is recorded")
    assert "report" not in story["run"]


def test_a_run_that_failed_tells_its_end(spawn, muster, env, why, state):
    """A run fails. `muster why` tells how, in the words of its last line, for the last run, for its
    job and for its file; of two runs of one job for the newer."""
    for code in (3, 4):
        failed = spawn("run", "-n", 1, "-j", "train", "--max-restarts", "0", "--", "sh", "-c",
                       f"echo '<b>no</b>' >&2; exit {code}", env=env)
        assert failed.wait() == code
    first, second = files(state)
    assert second.stat().st_size <= BYTES_MAX
    end = f"the run failed with exit code 4: {failed.log.lines[-1].removeprefix('muster run: ')}"
    for arguments in ((), ("train",), ("-j", "train"), (second,)):
        assert sentences(why(*arguments)) == [end]
    assert "exit code 3" in why(first)
    report = json.loads(why("--json"))["run"]["report"]
    assert (report["ending"], report["exit_code"]) == ("failed", 4)
    assert report["first_cause"]["stderr"] == ["<b>no</b>"]


def test_a_running_job_comes_before_its_file(run, why, muster, state):
    """A job runs whose earlier run has left a file. `muster why` with its name asks its service, and
    with the path of the file tells that the run still goes on."""
    a_run = run(1)
    ranks = a_run.entered()
    known(state, 1)
    assert why(a_run.job).startswith(f"job {a_run.job}: restarted 0 times")
    assert "the run still goes on" in why(files(state)[0])
    a_run.all_well(ranks)
    assert "the run ended well" in why(a_run.job)


def test_the_last_runs_are_kept(run, env, state):
    """Three runs end, of which two are to be kept. The files of the last two are there. A run that is
    to keep none leaves all as it is, and a user without a home is told nothing."""
    seen = []
    for keep in (2, 2, 2, 0):
        a_run = run(1, "--keep-runs", keep)
        a_run.all_well(a_run.entered())
        seen.append(files(state))
    assert [len(one) for one in seen] == [1, 2, 2, 2]
    assert seen[0][0] not in seen[2] and seen[1][1] in seen[2]
    assert seen[3] == seen[2]
    for name in ("MUSTER_STATE_DIR", "XDG_STATE_HOME", "HOME"):
        env.pop(name, None)
    a_run = run(1)
    a_run.all_well(a_run.entered())
    assert not a_run.log.having("keep", "run")


def test_a_folder_that_cannot_be_written_costs_nothing(run, muster, state):
    """The state folder is a file. The run runs and ends well, and leaves no file."""
    state.write_text("")
    a_run = run(1)
    a_run.all_well(a_run.entered())
    done = muster("why")
    assert done.returncode == 1
    assert done.stderr == ("muster why: no job runs here, and no run has left a file (muster run --keep-runs); name "
                           "a job, a file or the folder of a record\n")


def test_the_next_service_goes_on_with_the_file(run, why, state):
    """The service of a run is killed, and the next one writes on: the file has what happened before
    and after."""
    a_run = run(2, "--min-size", "2")
    ranks = a_run.entered()
    known(state, 1)
    service = service_of(a_run.run.pid)
    os.kill(service, signal.SIGKILL)
    known(state, 2)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    a_run.all_well(a_run.entered(2))
    story = json.loads(why("--json"))
    assert whats(story) == ["started", "service-restarted", "lost", "restarted"]
    assert story["run"]["report"]["ending"] == "well"


def test_all_beginning_anew_is_told(spawn, env, why, state, tmp_path):
    """A program without muster fails once, and all its processes are started anew. The story says so,
    with the reason, in the file and in the sum; a program beside that has the job's name is no file of a
    run."""
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    once = f"test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 3; }}"
    done = spawn("run", "-n", 1, "-j", "plain", "--max-restarts", "2", "--", "sh", "-c", once, env=env)
    assert done.wait() == 0
    story = json.loads(why("plain", "--json", cwd=tmp_path))
    assert (whats(story), story["group_restarts"]) == (["all-restarted"], 1)
    assert re.fullmatch(r"all processes are to begin anew \(1\): #0 \(pid \d+\) ended with status 3.*",
                        story["incidents"][0]["sentence"])
    assert ", all to begin anew 1 time, " in why("plain")


@several_nodes
def test_a_lost_node_is_told_after_the_end(cluster):
    """A node of two is switched off, the others go on, and then `muster run` of the first node is
    killed. The file on that node tells of the lost node and its ranks."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, "--min-size", "2", count=2, MUSTER_KEEP_RUNS="5")
    nodes.entered(4)
    cluster.cable(1, "down")
    for pid in cluster.pids(1):
        os.kill(pid, signal.SIGKILL)
    nodes.on[0].out.wait_for("entered generation=2", count=2)
    ends = [os.pidfd_open(pid) for pid in cluster.pids(0)]
    nodes.on[0].process.kill()  # its output goes on: it is the service's too
    wait_gone(*ends)
    done = cluster.muster(0, "why", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    lost = [one["sentence"] for one in told["incidents"] if one["what"] == "node-lost"]
    assert lost[0] == "node 1 (host-1) was lost with 2 ranks"
    assert "restarted" in whats(told)
    assert told["run"]["sentence"] == "muster run was killed"


def test_its_seconds_are_those_of_a_clock_outside(job, muster, why, state, lateness):
    """Ranks are killed, and each restart is measured from outside: it took no longer than from the
    kill to the first rank in the next generation, and no shorter than from the first rank that was
    told to the last. The story and its sum agree with that, and to 50 ms where the two bounds do."""
    name = "why-seconds"
    job.run(3, "--job", name, "--min-size", "3")
    ranks = job.entered(3, generation=1)
    narrow = []
    for generation in range(2, 12):
        mark = job.mark()
        killed_at = time.monotonic()
        os.kill(ranks[1].pid, signal.SIGKILL)
        ranks = job.entered(3, mark, generation=generation)
        heard = [event.at for event in job.events[mark:] if event.what == "told"]
        story = json.loads(why("-j", name, "--json"))
        took = story["incidents"][-1]["interrupt_ms"] + story["incidents"][-1]["gather_ms"]
        least = 1000 * (max(heard) - min(heard)) - 2
        most = 1000 * (min(event.at for event in ranks) - killed_at) + 2
        assert least <= took <= most
        assert story["restart_ms"] == sum(one["interrupt_ms"] + one["gather_ms"] for one in story["incidents"])
        narrow.append(abs(most - took))
        if narrow[-1] <= AGREES_MS:
            break
    assert min(narrow) <= AGREES_MS + 1000 * lateness.spare_s(), narrow
    job.order(ranks, "ok")
    job.finish(3)
    job.ended()


def test_a_record_tells_the_same(run, why, state, tmp_path):
    """A run is recorded. `muster why` with the folder tells what the service remembered."""
    folder = tmp_path / "record"
    a_run = run(2, "--min-size", "2", "--record", folder)
    os.kill(a_run.entered()[1]["pid"], signal.SIGKILL)
    again = a_run.entered(2)
    live = sentences(why(a_run.job))
    a_run.all_well(again)
    assert sentences(why(folder))[: len(live)] == live
    assert sentences(why(next(folder.iterdir())))[: len(live)] == live
    story = json.loads(why(folder, "--json"))
    assert (story["job"], story["restarts"], story["run"]) == (a_run.job, 1, None)


@pytest.mark.parametrize("what, says", [
    ("./no-such", "muster why: ./no-such: No such file or directory\n"),
    ("no-such", "muster why: no job 'no-such' runs here, no run of it has left a file, and no file or folder has "
                "that name\n"),
    ("brief.json", "muster why: brief.json: neither the file of a run nor a record\n"),
    ("empty", "muster why: empty: the folder has no record\n"),
])
def test_what_tells_no_story_is_named(muster, state, tmp_path, what, says):
    """`muster why` is given a path or a name that tells no story. One line says what was looked for."""
    (tmp_path / "brief.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    done = muster("why", what, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", says)
