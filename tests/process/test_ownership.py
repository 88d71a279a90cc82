# SPDX-License-Identifier: Apache-2.0
"""Files, folders and sockets: what belongs to another run stays, and what belongs to another user is
neither followed nor believed."""

import os
import pathlib
import signal
import subprocess

import pytest

from conftest import MUSTER, WAIT_S
from running import Run, until

RIVALS = 6  # runs of one name that begin together
OTHER = 65534  # another user

two_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


def journal_of(env, job):
    return pathlib.Path(env["MUSTER_RUNTIME_DIR"]) / f"{job}.journal"


# ---- a run's journal ----


def refused_run(muster, job):
    """What a second run of a name says."""
    done = muster("run", "-n", 2, "-j", job.job, "--", "true")
    assert done.returncode == 125
    (line,) = done.stderr.splitlines()
    return line


def goes_on(job):
    """From its journal, to a good end; then that is removed."""
    job.log.wait_for("it is started again")
    until(lambda: job.muster("status", "-j", job.job).returncode == 0)  # it recovers first
    job.all_well(job.entered())
    assert set(job.generations()) == {1}
    assert not job.log.having("cannot be brought back")


def test_a_second_run_of_a_name_leaves_the_journal_of_the_first(spawn, muster, env):
    """The first goes on from it when its service dies."""
    job = Run(spawn, muster, 2)
    job.entered()
    line = refused_run(muster, job)
    assert line == (f"muster run: cannot keep a journal in {journal_of(env, job.job)}: process "
                    f"{job.run.pid} runs a job of this name already; choose another one (-j)")
    os.kill(job.service(), signal.SIGKILL)
    goes_on(job)
    assert not journal_of(env, job.job).exists()


def test_a_second_run_of_a_name_while_the_service_is_away(spawn, muster, env):
    """The socket of a service that is about to be started again answers nobody: its journal belongs
    to the run all the same."""
    job = Run(spawn, muster, 2)
    job.entered()
    service = job.service()
    job.run.signal(signal.SIGSTOP)  # it does not start the service again
    os.kill(service, signal.SIGKILL)
    assert "runs a job of this name already" in refused_run(muster, job)
    assert list(journal_of(env, job.job).glob("*.journal"))
    job.run.signal(signal.SIGCONT)
    goes_on(job)
    assert not journal_of(env, job.job).exists()


def test_a_journal_that_a_service_keeps_is_not_removed(serve, muster, env):
    """Not by a run of the name beside whose socket it lies."""
    service = serve("--journal", journal_of(env, "dup"), "--addr",
                    f"unix:{env['MUSTER_RUNTIME_DIR']}/other.sock")
    assert service.wire().put("k", "v").status == 0
    done = muster("run", "-j", "dup", "--", "true")
    assert done.returncode == 125
    assert f"process {service.pid} keeps its own there already" in done.stderr
    service.kill()
    again = serve("--journal", journal_of(env, "dup"))
    assert again.wire().get("k").value == b"v"


def test_what_a_killed_run_left_is_no_obstacle(spawn, muster, env):
    """Its service was killed with it, so nobody removed the journal. The next run begins anew."""
    job = Run(spawn, muster, 2)
    job.entered()
    service = job.service()
    job.run.signal(signal.SIGSTOP)  # it does not start the service again
    os.kill(service, signal.SIGKILL)
    job.run.kill()
    assert list(journal_of(env, job.job).glob("*.journal"))
    done = muster("run", "-j", job.job, "--", "true")
    assert done.returncode == 0, done.stderr
    assert not journal_of(env, job.job).exists()


def test_runs_of_one_name_that_begin_together(env):
    """Each runs to its end, or is refused for another one's sake; none loses its service's state to
    another, and nothing is left."""
    runs = [subprocess.Popen([MUSTER, "run", "-n", "2", "-j", "same", "--", "true"], env=env,
                             stderr=subprocess.PIPE, text=True) for _ in range(RIVALS)]
    said = [(run.communicate(timeout=WAIT_S)[1], run.returncode) for run in runs]
    assert 0 in [code for _, code in said]
    for text, code in said:
        assert code in (0, 125), text
        assert code == 0 or "same" in text
        assert "cannot be brought back" not in text
    assert not list(pathlib.Path(env["MUSTER_RUNTIME_DIR"]).iterdir())


# ---- a journal's folder that is another user's ----


def refused(journal, env):
    """What a service says that does not begin there."""
    done = subprocess.run([MUSTER, "serve", "--journal", journal, "--addr", "127.0.0.1:0"], env=env,
                          capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def with_traps(tmp_path, mode):
    """A folder whose files lead to one that is ours, and that file."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "journal"
    folder.mkdir()
    for number in range(1, 4):
        for ending in ("journal", "snapshot", "snapshot.tmp"):
            (folder / f"{number:010}.{ending}").symlink_to(victim)
    folder.chmod(mode)
    return folder, victim


@two_users
def test_a_journal_folder_of_another_user_is_refused(env, tmp_path):
    folder, victim = with_traps(tmp_path, 0o755)
    os.chown(folder, OTHER, OTHER)
    assert refused(folder, env) == (
        f"muster serve: cannot keep a journal in {folder}: it belongs to another user (uid {OTHER}, "
        f"and this is 0); name a folder that is not there yet, or is yours")
    assert victim.read_text() == "precious"
    assert not (folder / "lock").exists()


def test_a_journal_folder_that_others_may_write_to_is_refused(env, tmp_path):
    folder, victim = with_traps(tmp_path, 0o777)
    assert refused(folder, env) == (
        f"muster serve: cannot keep a journal in {folder}: others may write to it (mode 0777); take "
        "that right away (chmod go-w), or name a folder in it that is not there yet")
    assert victim.read_text() == "precious"


def test_links_in_a_journals_folder_are_not_followed(env, tmp_path):
    """Left from when others could write to it."""
    folder, victim = with_traps(tmp_path, 0o700)
    line = refused(folder, env)
    assert line.startswith(f"muster serve: cannot recover the state from {folder}: {folder}/00000000")
    assert line.endswith(": this is no regular file, and no link is followed")
    assert victim.read_text() == "precious"
