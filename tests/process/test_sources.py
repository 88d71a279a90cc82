# SPDX-License-Identifier: Apache-2.0
"""Sources of notices, in `muster run` and in the helper of a node that something else started.

behaviour: sources / Files, commands, ends that are known
"""

import re
import signal
import time

import pytest

from clusters import lives
from conftest import BUILD, MUSTER, Process
from running import until
from saving import LOOP, PATIENT, Loop

OLD_S = 1.5  # how old a rank is, which only time can make it


@pytest.fixture
def loop(spawn, muster, env, tmp_path):
    directory = tmp_path / "saved"
    directory.mkdir()

    def start(size, *flags, **settings):
        return Loop(spawn, muster, env, directory, size, "--preempt-period", "100ms", *flags,
                    **settings)

    return start


def put(path, text):
    beside = path.with_suffix(".new")
    beside.write_text(text)
    beside.rename(path)


def test_an_unknown_source_is_an_error_that_lists_the_names(muster):
    """A source's name is unknown, or lacks what it needs. Wrong usage, in one line that lists the
    names."""
    done = muster("run", "--preempt-sources", "signals,wether", "--", "true")
    assert done.returncode == 2
    assert "there is no source of notices 'wether'; there are: signals, file=PATH, " in done.stderr
    for name in ("command=CMD", "deadline=TIME", "slurm", "google", "amazon", "azure"):
        assert name in done.stderr
    assert done.stderr.count("\n") <= 2


def test_a_source_that_cannot_run_here_is_one_line(muster):
    """A source cannot run here. One line and 125, before anything is started."""
    done = muster("run", "--preempt-sources", "slurm", "--", "true")
    assert done.returncode == 125
    assert done.stderr == (
        "muster run: the source of notices 'slurm': this is no Slurm job, SLURM_JOB_ID is not set\n")


def test_a_file_is_a_notice_for_the_node(loop, tmp_path):
    """The file of a source appears. It is a notice for the node, with the deadline and the reason
    of its first line."""
    stop = tmp_path / "stop"
    job = loop(2, "--preempt-sources", f"signals,file={stop}").trains()
    put(stop, "60s the rack is drained\nand more\n")
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()
    line = job.log.wait_for("a notice of 'file' for this node: the rack is drained; ")
    assert line.endswith(" s are left")


def test_a_file_that_goes_takes_the_notice_back(loop, tmp_path):
    """The file of a source is removed before anything was agreed, with a deadline hours away. The
    notice is taken back; the next one counts."""
    stop = tmp_path / "stop"
    job = loop(2, "--preempt-sources", f"file={stop}").trains()
    put(stop, "10h some day\n")
    notice = until(lambda: job.preemption()["notices"])[0]
    assert notice["source"] == "file" and notice["reason"] == "some day"
    assert notice["level"] == "certain" and not notice["assumed"]
    stop.unlink()
    until(lambda: job.preemption()["notices"] == [])
    job.log.wait_for("the notice of 'file' is withdrawn: some day")
    assert job.preemption()["state"] == "none"
    put(stop, "30s now")
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def test_a_worse_notice_takes_the_place_of_another(loop, tmp_path):
    """Several sources know something. The worst is reported, and takes the place of another; when
    it is withdrawn the other is reported again."""
    stop = tmp_path / "stop"
    job = loop(1, "--preempt-sources", f"deadline=20h,file={stop}", "--preempt-margin", "24h").trains()
    assert until(lambda: job.preemption()["notices"])[0]["index"] is None
    put(stop, "10h the node")
    notices = until(lambda: [n for n in job.preemption()["notices"] if n["source"] == "file"])
    assert [notice["index"] for notice in notices] == [0]
    stop.unlink()
    until(lambda: [n["source"] for n in job.preemption()["notices"]] == ["deadline"])


def test_a_command_is_a_notice(loop, tmp_path):
    """The command of a source says when, and why. That is a notice."""
    flag = tmp_path / "flag"
    command = f"test -e {flag} || exit 1; echo 60s says the site"
    job = loop(2, "--preempt-sources", f"command={command}").trains()
    flag.touch()
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()
    job.log.wait_for("a notice of 'command' for this node: says the site")


def test_a_command_ends_with_the_run(loop, tmp_path):
    """The run ends while a source's command is under way. The command is killed, with its process
    group: what it started, and what that started in turn, all of it deaf to polite signals."""
    started = tmp_path / "started"
    child = f"sleep 1000 & echo $$ $! >{started}.new; mv {started}.new {started}; wait"
    script = tmp_path / "script"
    script.write_text(f"trap '' TERM INT HUP\nsh -c '{child}' &\nwait\n")
    job = loop(1, "--preempt-sources", f"command=sh {script}").trains()
    until(started.exists)
    pids = [int(pid) for pid in started.read_text().split()]
    assert len(pids) == 2 and all(lives(pid) for pid in pids)
    job.run.signal(signal.SIGINT)
    assert job.run.wait() == 130
    until(lambda: not [pid for pid in pids if lives(pid)])


def test_a_command_that_fails_is_told_once(loop, tmp_path):
    """The command of a source fails, crashes, is not there, says nothing or too much. The state
    is not known: that is said once, and what was known stays; only exit 1 takes it back."""
    looks = tmp_path / "looks"
    job = loop(1, "--preempt-sources", f"command=echo >>{looks}; exit 3")
    until(lambda: looks.exists() and len(looks.read_text()) > 3)  # the first ones have been taken in
    job.run.signal(signal.SIGINT)
    assert job.run.wait() == 130
    line = "muster run: the source of notices 'command' does not know: the command ended with status 3"
    assert [said for said in job.log.lines if "does not know" in said] == [line]


def test_each_source_that_does_not_know_is_told(loop):
    """Ten sources do not know, at the same moment, before the run has looked for the first time.
    Each is reported."""
    commands = [f"command=exit {code}" for code in range(2, 12)]
    job = loop(1, "--preempt-sources", ",".join(commands))
    job.log.wait_for("does not know", count=len(commands))
    job.run.signal(signal.SIGINT)
    assert job.run.wait() == 130
    told = [line.rpartition(" ")[2] for line in job.log.having("does not know")]
    assert sorted(map(int, told)) == list(range(2, 12))


def test_a_deadline_is_a_notice_for_the_whole_job(loop):
    """An end is known: `deadline=TIME`, or Slurm's time limit. It is a notice for the whole job,
    a margin before the end."""
    job = loop(2, "--preempt-sources", "deadline=100s", "--preempt-margin", "2m")
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()
    job.log.wait_for("a notice of 'deadline' for the whole job: the end that was given; ")


def test_the_time_limit_of_slurm_is_a_notice(loop, env):
    """An end is known: `deadline=TIME`, or Slurm's time limit. It is a notice for the whole job,
    a margin before the end."""
    env.update(SLURM_JOB_ID="4711", SLURM_STEP_ID="0",
               SLURM_JOB_END_TIME=str(int(time.time()) + 200))
    job = loop(2, "--nnodes", 1)
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()
    job.log.wait_for("a notice of 'slurm' for the whole job: the time limit of the Slurm job; ")
    assert not job.log.having("start it with srun")


def test_the_trap_of_the_batch_script_is_one_line(loop, env):
    """`muster run` is in a batch script of Slurm and not under srun. One line says that no early
    signal comes there."""
    env.update(SLURM_JOB_ID="4711")
    job = loop(1, "--nnodes", 1, LOOP_STEPS=5)
    assert job.run.wait() == 0
    (line,) = job.log.having("start it with srun")
    assert line == ("muster run: in a Slurm job, but not started by srun: Slurm signals only what srun "
                    "has started when it preempts, so no notice will come here; start it with srun")


def test_a_deadline_counts_from_the_beginning_of_the_rank(service, env, started, tmp_path):
    """`deadline` is a duration, and the helper of a rank is started late, or in the place of
    another. It counts from when the rank itself was started."""
    saved = tmp_path / "saved"
    saved.mkdir()
    own = {**env, "MUSTER_ADDR": service.address, "MUSTER_INDEX": "0", "MUSTER_SIZE": "1",
           "MUSTER_PROGRAM": str(MUSTER), "LOOP_DIR": str(saved), "LOOP_RUN": "1",
           "MUSTER_PREEMPT_SOURCES": "deadline=100s", "MUSTER_PREEMPT_MARGIN": "2m"}
    rank = Process(["sh", "-c", 'read go; exec "$0"', LOOP], own, stdin=-1)
    started.append(rank)
    time.sleep(OLD_S)
    rank.process.stdin.write("go\n")
    rank.process.stdin.flush()
    told = rank.log.wait_for("muster agent (#0): a notice of 'deadline' for the whole job")
    assert float(re.search(r"; ([\d.]+) s are left", told)[1]) <= 100 - OLD_S, told
    assert rank.wait() == 75


def test_a_helper_says_that_no_rank_listens(service, env, started, tmp_path):
    """A source of a helper gives a notice and no rank has opened preempt. The helper's line says
    that nothing is saved. [program / muster preempt]"""
    stop = tmp_path / "stop"
    put(stop, "10h the rack is drained")
    own = {**env, "MUSTER_ADDR": service.address, "MUSTER_INDEX": "0", "MUSTER_SIZE": "1", "MUSTER_JOB": "train",
           "MUSTER_PROGRAM": str(MUSTER), "MUSTER_PREEMPT_SOURCES": f"file={stop}"}
    rank = Process([BUILD / "tests" / "process" / "ranks" / "agent", "block"], own)
    started.append(rank)
    line = rank.log.wait_for("a notice of 'file'")
    assert line.endswith(" s are left; no rank of job 'train' listens for notices yet (muster_preempt_open): "
                         "until one does, nothing is saved")


def test_the_helper_of_the_first_rank_asks_for_its_node(service, env, started, muster, tmp_path):
    """Something else than `muster run` has started the ranks. The helper of the first one on a
    machine asks the sources, and reports for all of that machine, once; when that rank has
    gone, the helper of the next one asks, and reports it again."""
    stop, saved = tmp_path / "stop", tmp_path / "saved"
    saved.mkdir()
    ranks = []
    for index in range(3):
        own = {**env, **PATIENT, "MUSTER_ADDR": service.address, "MUSTER_INDEX": str(index), "MUSTER_SIZE": "3",
               "MUSTER_PROGRAM": str(MUSTER), "LOOP_DIR": str(saved), "LOOP_RUN": "1",
               "LOOP_SLOW": "1",
               "MUSTER_PREEMPT_SOURCES": f"file={stop}", "MUSTER_PREEMPT_PERIOD": "100ms"}
        ranks.append(Process([LOOP], own))
        started.append(ranks[-1])
    for rank in ranks:
        rank.out.wait_for("step ")
    put(stop, "60s the rack is drained")
    ranks[1].out.wait_for("saves ")
    line = ranks[0].log.wait_for("a notice of 'file'")
    assert line.startswith("muster agent (#0): a notice of 'file' for this node")
    told = [line for rank in ranks for line in rank.log.having("a notice of 'file'")]
    assert told == [line]
    (saved / "go").touch()
    assert [rank.wait() for rank in ranks] == [75, 75, 75]
    assert len({(saved / str(index)).read_text() for index in range(3)}) == 1
