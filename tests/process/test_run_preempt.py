# SPDX-License-Identifier: Apache-2.0
"""`muster run` and preemption: SIGTERM as a notice, 75 once all have saved, who had not, requeue.

behaviour: run / Notices of preemption
"""

import json
import os
import re
import signal
import subprocess
import time

import pytest

from conftest import MUSTER, WAIT_S, free_port
from running import until
from saving import LOOP, Loop, loop  # noqa: F401
from wire import OK, Wire

GRACE_S = 8
# Before the end of it, and after: the agent is to ask within the first, and waits 3 s for an answer.
BEFORE_S, AFTER_S = 1.2, 0.3
SAYS_FIRST = "20s"  # then what has not ended by itself is killed
PAGE = 2000  # more keys than the service lists at once


def test_sigterm_is_a_notice_and_the_job_goes_on_later(loop):  # noqa: F811
    """`muster run` gets SIGTERM, and a rank takes notices. The ranks are not signalled: all save
    one step, and the run ends with 75. Run again, all begin at that step."""
    first = loop(3).trains()
    first.run.signal(signal.SIGTERM)
    assert first.run.wait() == 75, first.log.lines
    step = first.saved_by_all()
    assert first.log.having("Terminated: a notice for the ranks, which save and end within 30.0 s")
    said = f"muster run: preempted: step {step} is saved by all 3 ranks; this goes on from there: "
    assert first.last_line().startswith(said + f"{MUSTER} run -n 3 -j {first.job} -- "), first.last_line()
    assert not first.log.having("stopping within")
    second = loop(3, LOOP_STEPS=step + 20)
    assert second.run.wait() == 0, second.log.lines
    assert second.began_at() == {0: step, 1: step, 2: step}


def test_what_a_preempted_run_says_to_type_goes_on(loop, env, muster, tmp_path):  # noqa: F811
    """A job has been preempted, and all have saved. The last line says which step, by how many,
    and the command that goes on from there, as a shell takes it; on several nodes, or where
    the run is asked for again, without the command."""
    first = loop(2, "--log-dir", tmp_path / "it's a folder", "--tee").trains()
    assert muster("preempt", "-j", first.job, "--in", "60s").returncode == 0
    assert first.run.wait() == 75, first.log.lines
    step = first.saved_by_all()
    own = {**env, "LOOP_DIR": str(first.dir), "LOOP_STEPS": str(step + 20)}
    command = first.last_line().split("this goes on from there: ")[1]
    done = subprocess.run(["sh", "-c", command], env=own, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"begins at=(\d+)", done.stdout)) == [str(step)] * 2
    assert "preempted: step" not in done.stderr


def test_sigterm_again_and_again_is_the_same_notice(loop):  # noqa: F811
    """SIGTERM comes again and again. It is the same notice."""
    job = loop(2, LOOP_SLOW=1).trains()
    for _ in range(5):
        job.run.signal(signal.SIGTERM)
    job.out.wait_for("]: saves ", count=2)
    for _ in range(5):
        job.run.signal(signal.SIGTERM)
    (job.dir / "go").touch()
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()
    assert len(job.log.having("Terminated: a notice")) == 1


def test_sigint_ends_a_run_as_ever(loop):  # noqa: F811
    """`muster run` gets SIGINT; or no rank takes notices; or signals are no source. The run ends
    as ever."""
    job = loop(2).trains()
    job.run.signal(signal.SIGINT)
    assert job.run.wait() == 130
    assert job.saved() == {}
    assert job.log.having("Interrupt: stopping within")


def test_without_a_handle_sigterm_ends_a_run_as_ever(loop):  # noqa: F811
    """`muster run` gets SIGINT; or no rank takes notices; or signals are no source. The run ends
    as ever."""
    job = loop(2, LOOP_DEAF=1).trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 143
    assert job.log.having("Terminated: stopping within")
    assert job.last_line() == "muster run: stopped by signal 15 (Terminated)"


def test_signals_are_no_source_if_they_are_not_named(loop):  # noqa: F811
    """`muster run` gets SIGINT; or no rank takes notices; or signals are no source. The run ends
    as ever."""
    job = loop(2, "--preempt-sources", "none").trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 143
    assert job.log.having("Terminated: stopping within")


def test_another_signal_may_be_the_notice(loop):  # noqa: F811
    """`--preempt-signals` names other signals. Those are notices, and not passed on."""
    job = loop(2, "--preempt-signals", "USR1,SIGHUP").trains()
    job.run.signal(signal.SIGUSR1)
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def test_what_is_no_signal_is_refused_before_anything_runs(muster, env):
    """A signal is named by its number: that one is the notice. What is no signal is refused
    before anything runs."""
    for text in ("FOO", "TERM, USR1", "KILL", "0"):
        done = muster("run", "--preempt-signals", text, "--", "true")
        assert done.returncode == 2
        assert "is no signal that can be a notice (TERM, USR1, INT, or a number)" in done.stderr
    env["MUSTER_PREEMPT_SIGNALS"] = "TREM"
    assert "'TREM' is no signal" in muster("run", "--", "true").stderr


def test_a_signal_may_be_named_by_its_number(loop):  # noqa: F811
    """A signal is named by its number: that one is the notice. What is no signal is refused
    before anything runs."""
    job = loop(2, "--preempt-signals", int(signal.SIGUSR2)).trains()
    job.run.signal(signal.SIGUSR2)
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def test_the_time_ends_while_it_is_asked_who_has_saved(loop):  # noqa: F811
    """The time of the notice ends while the service is still asked which ranks have saved. Its
    answer counts."""
    job = loop(2, "--preempt-grace", f"{GRACE_S}s", LOOP_LINGER=1).trains()
    service = job.service()
    ranks = [pid for pid, line in job.children().items() if line.startswith(str(LOOP))]
    assert len(ranks) == 2
    job.run.signal(signal.SIGTERM)
    job.log.wait_for("Terminated: a notice")
    end_s = time.monotonic() + GRACE_S
    job.out.wait_for("]: lingers", count=2)
    for pid in (job.run.pid, service):
        os.kill(pid, signal.SIGSTOP)
        until(lambda frozen=pid: state_of(frozen) == "T")
    (job.dir / "end").touch()
    for pid in ranks:
        until(lambda ended=pid: state_of(ended) == "Z")
    assert time.monotonic() < end_s
    until(lambda: time.monotonic() > end_s - BEFORE_S)
    job.run.signal(signal.SIGCONT)
    until(lambda: time.monotonic() > end_s + AFTER_S and not {*job.children()} & {*ranks})
    os.kill(service, signal.SIGCONT)
    assert job.run.wait() == 75, job.log.lines
    assert not job.log.having("the time of the notice is over")


def test_what_ranks_end_with_after_the_save_does_not_matter(loop):  # noqa: F811
    """Ranks end with 0 after the save by all. The run ends with 75."""
    job = loop(2, LOOP_END=0).trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def test_who_had_not_saved_is_the_last_line(loop, tmp_path):  # noqa: F811
    """A rank does not save in time. The ranks are ended; the last line says which step was
    agreed, how many had saved it, and which had not."""
    report = tmp_path / "report.json"
    job = loop(3, "--preempt-grace", "20s", "--report", report, LOOP_STUCK=2).trains()
    job.run.signal(signal.SIGTERM)
    now = job.agreed()
    until(lambda: job.preemption()["saved"] == 2)
    assert job.preemption()["missing"] == [2]
    lines = job.muster("status", "-j", job.job).stdout.splitlines()
    assert any(line.startswith("notice for #0, #1, #2: signal 15 (Terminated) to muster run (signals, ")
               for line in lines), lines
    assert (f"agreed: all save step {now['agreed_step']}; saved by 2 of 3; not yet by rank 2 (#2, "
            f"node {os.uname().nodename})") in lines
    assert job.run.wait() not in (0, 75)
    step = now["agreed_step"]
    assert job.last_line() == (
        f"muster run: not saved: step {step} was agreed, and saved by 2 of 3; "
        f"not by rank 2 (#2) on {os.uname().nodename}"
    )
    told = json.loads(report.read_text())["preemption"]
    assert told == {
        "agreed_step": step, "saved": False, "saved_by": 2, "of": 3, "signal": 15, "requeue": None,
        "missing": [{"index": 2, "rank": 2, "host": os.uname().nodename}],
    }


def test_the_report_tells_the_save(loop, tmp_path):  # noqa: F811
    """`--report` has the agreed step, whether and by how many it was saved, and the missing
    ranks."""
    report = tmp_path / "report.json"
    job = loop(2, "--report", report).trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75
    told = json.loads(report.read_text())
    assert (told["ending"], told["exit_code"], told["first_cause"]) == ("again", 75, None)
    assert told["preemption"] == {
        "agreed_step": job.saved_by_all(), "saved": True, "saved_by": 2, "of": 2, "missing": [],
        "signal": 15, "requeue": None,
    }


def test_the_report_tells_what_was_saved_and_not_what_was_agreed_after_it(loop, tmp_path):  # noqa: F811
    """A second notice comes when all have saved, and is agreed upon while the ranks leave. The
    report has the step that was saved, not the one that was agreed upon after it."""
    report = tmp_path / "report.json"
    job = loop(2, "--report", report, LOOP_LINGER=1).trains()
    job.run.signal(signal.SIGTERM)
    job.out.wait_for("]: lingers", count=2)
    step = job.saved_by_all()
    agreed = job.muster("key", "get", "-j", job.job, "muster/preempt/agreed/1.0")
    assert f"step={step}" in agreed.stdout, agreed
    later = agreed.stdout.strip().replace(f"step={step}", f"step={step + 1}")
    done = job.muster("key", "put", "-j", job.job, "muster/preempt/agreed/1.1", later)
    assert done.returncode == 0, done.stderr
    (job.dir / "end").touch()
    assert job.run.wait() == 75, job.log.lines
    told = json.loads(report.read_text())["preemption"]
    assert (told["saved"], told["agreed_step"]) == (True, step)


def test_strange_keys_keep_no_run_from_its_end(loop, env):  # noqa: F811
    """A client has written thousands of keys with names that are none where agreements are kept.
    The run asks no further than to the first page that ends with one, and ends."""
    job = loop(2).trains()
    wire = Wire(f"unix:{env['MUSTER_RUNTIME_DIR']}/{job.job}.sock")
    assert wire.open(job=job.job).status == OK
    for i in range(PAGE):
        name = f"muster/preempt/agreed/{i:0200}"
        assert wire.put(name, "step=1 covered=1").status == OK
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def test_a_lost_rank_is_not_waited_for(loop):  # noqa: F811
    """A rank dies while the others wait for its save. They learn of it, and the step is not
    called saved."""
    job = loop(2, "--max-restarts", 0, "--grace", SAYS_FIRST, LOOP_SLOW=1).trains()
    job.run.signal(signal.SIGTERM)
    job.out.wait_for("[1]: saves ")
    pid = job.muster("status", "-j", job.job, "--json")
    (member,) = [m for m in json.loads(pid.stdout)["members"]
                 if m["role"] == "rank" and m["index"] == 1]
    os.kill(member["pid"], signal.SIGKILL)
    job.out.wait_for("[0]: saved ", "MUSTER_ELOST")
    assert job.run.wait() not in (0, 75)
    assert job.last_line().startswith("muster run: not saved: step ")


# ---- several nodes ----


def test_all_nodes_end_with_75(loop, spawn, muster, env, tmp_path):  # noqa: F811
    """The run has several nodes, and one has notice. All end with 75."""
    port = free_port()
    first = loop(1, "--nnodes", 2, "--listen", f"127.0.0.1:{port}", "--insecure", LOOP_END=0)
    second = Loop(spawn, muster, env, first.dir, 1, "--join", f"127.0.0.1:{port}", "--insecure",
                  LOOP_END=0)
    first.trains(), second.trains()
    second.run.signal(signal.SIGTERM)
    assert second.run.wait() == 75, second.log.lines
    assert first.run.wait() == 75, first.log.lines
    first.saved_by_all(2)


def test_the_noticed_leave_and_the_others_go_on(loop):  # noqa: F811
    """The noticed ranks leave, by choice (`MUSTER_PREEMPT_LEAVE=noticed`). The others go on in
    their processes, and their end is that of the run."""
    job = loop(3, "--min-size", 1, LOOP_RUN=1, LOOP_MORE=20, MUSTER_PREEMPT_LEAVE="noticed").trains()
    done = job.muster("preempt", "-j", job.job, 2, "--in", "60s")
    assert done.returncode == 0, done.stderr
    job.out.wait_for("[2]: saved ", "MUSTER_EPREEMPTED")
    job.out.wait_for("]: begins at=", "generation=2", count=2)
    (job.dir / "done").touch()
    assert job.run.wait() == 0, job.log.lines
    assert len(job.out.having("]: done")) == 2
    assert len(set(job.saved().values())) == 1


def test_all_were_to_leave_and_one_is_killed_before_it_has(loop):  # noqa: F811
    """All were to leave after the save, and a rank is killed before they have. The others are
    called to the next generation, where the same notice is acted on once more: they save,
    leave, and the run ends with 75. [preemption / Postponed, taken back, and again]"""
    job = loop(3, LOOP_RUN=1, LOOP_LATE=1, MUSTER_PREEMPT_AGREE_TIMEOUT="5s").trains()
    done = job.muster("preempt", "-j", job.job, "--in", "60s")
    assert done.returncode == 0, done.stderr
    job.out.wait_for("]: saved ", "MUSTER_EPREEMPTED", count=3)
    job.out.wait_for("[1]: is late")
    members = json.loads(job.muster("status", "-j", job.job, "--json").stdout)["members"]
    (late,) = [one for one in members if one["role"] == "rank" and one["index"] == 1]
    os.kill(late["pid"], signal.SIGKILL)
    (job.dir / "go").touch()
    job.out.wait_for("]: begins at=", "generation=2")
    assert job.run.wait() == 75, job.log.lines
    job.saved_by_all()


def test_a_noticed_node_leaves_and_the_others_go_on(loop, spawn, muster, env, tmp_path):  # noqa: F811
    """All ranks of a node are noticed, not of node 0, which has the service. It ends with 75 at
    once, and says that the others go on; those do."""
    port = free_port()
    report = tmp_path / "report.json"
    flags = {"LOOP_RUN": 1, "LOOP_MORE": 20, "MUSTER_PREEMPT_LEAVE": "noticed"}
    first = loop(1, "--nnodes", "1:2", "--listen", f"127.0.0.1:{port}", "--insecure", **flags)
    second = Loop(spawn, muster, env, first.dir, 1, "--join", f"127.0.0.1:{port}", "--insecure",
                  "--report", report, **flags)
    first.trains(), second.trains()
    second.run.signal(signal.SIGTERM)
    assert second.run.wait() == 75, second.log.lines
    assert second.last_line().endswith(
        "ended without the others: it was preempted; all have saved, and the others go on")
    told = json.loads(report.read_text())
    assert (told["ending"], told["first_cause"], told["preemption"]["saved"]) == ("again", None, True)
    first.out.wait_for("]: begins at=", "generation=2")
    (first.dir / "done").touch()
    assert first.run.wait() == 0, first.log.lines


def test_node_0_that_is_noticed_alone_stays_for_its_service(loop, spawn, muster, env):  # noqa: F811
    """All ranks of node 0 are noticed. It says that it stays for its service until the others
    have ended, and ends with 75 then."""
    port = free_port()
    flags = {"LOOP_RUN": 1, "LOOP_MORE": 20, "MUSTER_PREEMPT_LEAVE": "noticed"}
    first = loop(1, "--nnodes", "1:2", "--listen", f"127.0.0.1:{port}", "--insecure", **flags)
    second = Loop(spawn, muster, env, first.dir, 1, "--join", f"127.0.0.1:{port}", "--insecure", **flags)
    first.trains(), second.trains()
    first.run.signal(signal.SIGTERM)
    first.log.wait_for("it has the service of the job, and stays until the other nodes have ended")
    (first.dir / "done").touch()
    assert second.run.wait() == 0, second.log.lines
    assert first.run.wait() == 75, first.log.lines
    assert len(first.log.having("stays until")) == 1


def test_who_went_on_after_the_noticed_left_and_died_is_a_failure(loop):  # noqa: F811
    """A rank that went on dies when no other is left. That is the run's failure, 137 after
    SIGKILL: 75 says that all is saved and nothing happened since."""
    job = loop(2, "--min-size", 1, LOOP_RUN=1, MUSTER_PREEMPT_LEAVE="noticed").trains()
    done = job.muster("preempt", "-j", job.job, 0, "--in", "60s")
    assert done.returncode == 0, done.stderr
    job.out.wait_for("[1]: begins at=", "generation=2")
    job.log.wait_for("left the job and ended with status 75; the others go on")
    members = json.loads(job.muster("status", "-j", job.job, "--json").stdout)["members"]
    (other,) = [one for one in members if one["role"] == "rank" and one["index"] == 1]
    os.kill(other["pid"], signal.SIGKILL)
    assert job.run.wait() == 137, job.log.lines
    # Its rank is what the run had heard last: it may have died before that came from the service.
    assert re.match(r"muster run: first cause: rank [01] \(#1, pid ", job.last_line())


def test_ranks_that_saved_different_steps_are_told_in_the_last_line(loop):  # noqa: F811
    """The ranks save different steps. The last line says that not all have saved the agreed one."""
    job = loop(2, "--max-restarts", 0, LOOP_OTHER=1).trains()
    job.run.signal(signal.SIGTERM)
    step = job.out.wait_for("[0]: saves ").split()[-1]
    assert job.run.wait() not in (0, 75)
    assert job.last_line() == (
        f"muster run: not saved: step {step} was agreed, and not all of the 2 have saved that one")


# ---- requeue ----


@pytest.fixture
def scontrol(env, tmp_path):
    """A Slurm job whose scontrol writes down what it was asked."""
    bin_dir = tmp_path / "bin"
    bin_dir.mkdir()
    asked = tmp_path / "asked"
    script = bin_dir / "scontrol"
    script.write_text(f'#!/bin/sh\necho "$@" >>{asked}\n')
    script.chmod(0o755)
    env.update(PATH=f"{bin_dir}:{env['PATH']}", SLURM_JOB_ID="4711", MUSTER_NNODES="1")
    return asked


def test_requeue_is_asked_once_and_after_the_save(loop, scontrol, tmp_path):  # noqa: F811
    """`--requeue` in a Slurm job: `scontrol requeue` is called once, after the save by all; never
    without it."""
    report = tmp_path / "report.json"
    job = loop(2, "--requeue", "--report", report, LOOP_SLOW=1).trains()
    job.run.signal(signal.SIGTERM)
    job.out.wait_for("]: saves ", count=2)
    assert not scontrol.exists()
    (job.dir / "go").touch()
    assert job.run.wait() == 75, job.log.lines
    assert scontrol.read_text() == "requeue 4711\n"
    assert job.last_line() == "muster run: saved by all: scontrol requeue 4711"
    assert json.loads(report.read_text())["preemption"]["requeue"] == "scontrol"


def test_the_signal_once_more_while_it_is_asked(loop, scontrol, tmp_path):  # noqa: F811
    """The signal comes once more when all have ended, as from a `scontrol` that is asked to
    requeue. The run ends with 75, and writes its report."""
    report = tmp_path / "report.json"
    script = tmp_path / "bin" / "scontrol"
    script.write_text(f'#!/bin/sh\necho "$@" >>{scontrol}\nkill -TERM $PPID\n')
    job = loop(2, "--requeue", "--report", report).trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75, job.log.lines
    assert scontrol.read_text() == "requeue 4711\n"
    assert json.loads(report.read_text())["exit_code"] == 75


def test_no_requeue_without_the_save(loop, scontrol, tmp_path):  # noqa: F811
    """`--requeue` in a Slurm job: `scontrol requeue` is called once, after the save by all; never
    without it."""
    asks = tmp_path / "again"
    job = loop(2, "--requeue-file", asks, "--preempt-grace", "2s", LOOP_STUCK=1).trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() not in (0, 75)
    assert not scontrol.exists() and not asks.exists()


def test_requeue_by_a_file(loop, scontrol, tmp_path):  # noqa: F811
    """`--requeue-file`: the request is a file with one line, whole or not at all."""
    asks = tmp_path / "again"
    job = loop(2, "--requeue-file", asks).trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75, job.log.lines
    step = job.saved_by_all()
    assert asks.read_text() == f"requeue job={job.job} step={step} slurm_job_id=4711\n"
    assert not scontrol.exists()
    assert [name for name in os.listdir(tmp_path) if name.startswith("again")] == ["again"]


def test_a_scontrol_that_is_killed_is_told_as_it_was(loop, scontrol, tmp_path):  # noqa: F811
    """scontrol is killed. One line says how; the run still ends with 75."""
    script = tmp_path / "bin" / "scontrol"
    script.write_text("#!/bin/sh\nkill -KILL $$\n")
    job = loop(1, "--requeue").trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75, job.log.lines
    assert job.last_line() == ("muster run: scontrol requeue 4711 was killed by signal 9 (Killed): "
                               "the job is not run again by us")


def test_requeue_that_fails_is_one_line(loop, env, scontrol):  # noqa: F811
    """There is no scontrol, or no Slurm job. One line says so; the run still ends with 75."""
    job = loop(1, "--requeue", PATH="/nowhere").trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75
    assert "scontrol could not be started" in job.last_line()


def test_requeue_without_slurm_is_one_line(loop, env):  # noqa: F811
    """There is no scontrol, or no Slurm job. One line says so; the run still ends with 75."""
    env.pop("SLURM_JOB_ID", None)
    job = loop(1, "--requeue").trains()
    job.run.signal(signal.SIGTERM)
    assert job.run.wait() == 75
    assert "this is no Slurm job (SLURM_JOB_ID is not set)" in job.last_line()
