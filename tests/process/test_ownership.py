# SPDX-License-Identifier: Apache-2.0
"""Files, folders and sockets: what belongs to another run stays, and what belongs to another user is
neither followed nor believed.

behaviour: run / The first cause
"""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import BUILD, MUSTER, WAIT_S, Process, Service
from running import Run, until, wait_gone

RIVALS = 10  # processes that begin together
OTHER = 65534  # another user

two_users = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")


def journal_of(env, job):
    return pathlib.Path(env["MUSTER_RUNTIME_DIR"]) / f"{job}.journal"


# ---- a run's journal ----


def refused_run(muster, job, *flags):
    """What a second run of a name says."""
    done = muster("run", "-n", 2, "-j", job.job, *flags, "--", "true")
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


def kill_service(job):
    """The run, which would start it again, is stopped before."""
    gone = os.pidfd_open(job.service())
    job.run.signal(signal.SIGSTOP)
    signal.pidfd_send_signal(gone, signal.SIGKILL)
    wait_gone(gone)


def test_a_second_run_of_a_name_leaves_the_journal_of_the_first(spawn, muster, env):
    """A second `muster run` gets the name of a job that runs, also while that one's service is
    being started again. It is refused with 125 and the process of the first one; the first
    one's journal stays, and it goes on from it."""
    job = Run(spawn, muster, 2)
    job.entered()
    line = refused_run(muster, job)
    assert line == (f"muster run: cannot keep a journal in {journal_of(env, job.job)}: process "
                    f"{job.run.pid} runs a job of this name already; choose another one (-j)")
    os.kill(job.service(), signal.SIGKILL)
    goes_on(job)
    assert not journal_of(env, job.job).exists()


def test_a_second_run_of_a_name_takes_no_secret_for_its_own(spawn, muster, env, tmp_path):
    """A second `muster run` gets the name of a job that runs. The first one's secret stays, and
    goes with the first run. [Descriptors and signals]"""
    env["MUSTER_STATE_DIR"] = str(tmp_path / "state")
    several = ("--nnodes", 2, "--listen", "127.0.0.1:0")
    job = Run(spawn, muster, 2, *several)
    job.log.wait_for("--secret-file")  # it waits for the other node
    assert len(os.listdir(env["MUSTER_STATE_DIR"])) == 1
    assert "runs a job of this name already" in refused_run(muster, job, *several)
    job.run.signal(signal.SIGTERM)
    job.run.wait()
    assert os.listdir(env["MUSTER_STATE_DIR"]) == []


def test_a_second_run_of_a_name_while_the_service_is_away(spawn, muster, env):
    """A second `muster run` gets the name of a job whose service is about to be started again, so
    that its socket answers to no client. It is refused with 125: the journal belongs to the
    first run all the same."""
    job = Run(spawn, muster, 2)
    job.entered()
    kill_service(job)
    assert "runs a job of this name already" in refused_run(muster, job)
    assert list(journal_of(env, job.job).glob("*.journal"))
    job.run.signal(signal.SIGCONT)
    goes_on(job)
    assert not journal_of(env, job.job).exists()


def test_a_journal_that_a_service_keeps_is_not_removed(serve, muster, env):
    """A `muster serve` keeps its journal where that of the run would be. The run is refused with
    125 and that service's process; the journal stays, and nothing is left beside it."""
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
    """A run and its service were killed, so that the journal stayed. The next run of the name
    removes what they left, and begins anew."""
    job = Run(spawn, muster, 2)
    job.entered()
    kill_service(job)
    job.run.kill()
    assert list(journal_of(env, job.job).glob("*.journal"))
    done = muster("run", "-j", job.job, "--", "true")
    assert done.returncode == 0, done.stderr
    assert not journal_of(env, job.job).exists()


def test_runs_of_one_name_that_begin_together(env):
    """Several runs of one name begin at the same moment. Each runs to its end or is refused; no
    state is lost, nothing is left."""
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
    """The journal's folder belongs to another user, or others may write to it. The service is
    refused with a line that says what to do; no file in it is touched, no link followed.
    [service / Its journal]"""
    folder, victim = with_traps(tmp_path, 0o755)
    os.chown(folder, OTHER, OTHER)
    assert refused(folder, env) == (
        f"muster serve: cannot keep a journal in {folder}: it belongs to another user (uid {OTHER}, "
        f"and this is 0); name a folder that is not there yet, or is yours")
    assert victim.read_text() == "precious"
    assert not (folder / "lock").exists()


def test_a_journal_folder_that_others_may_write_to_is_refused(env, tmp_path):
    """The journal's folder belongs to another user, or others may write to it. The service is
    refused with a line that says what to do; no file in it is touched, no link followed.
    [service / Its journal]"""
    folder, victim = with_traps(tmp_path, 0o777)
    assert refused(folder, env) == (
        f"muster serve: cannot keep a journal in {folder}: others may write to it (mode 0777); take "
        "that right away (chmod go-w), or name a folder in it that is not there yet")
    assert victim.read_text() == "precious"


def test_links_in_a_journals_folder_are_not_followed(env, tmp_path):
    """A file of the journal is a link, or a FIFO. It is neither followed nor waited for; the
    service is refused with its name. [service / Its journal]

    Left from when others could write to it."""
    folder, victim = with_traps(tmp_path, 0o700)
    line = refused(folder, env)
    assert line.startswith(f"muster serve: cannot recover the state from {folder}: {folder}/00000000")
    assert line.endswith(": it is no regular file, and no link is followed")
    assert victim.read_text() == "precious"


# ---- sockets ----


@pytest.fixture
def public():
    """A folder that every user may write to, and find a program in."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mst-", dir="/tmp"))
    folder.chmod(0o1777)
    shutil.copy(MUSTER, folder / "muster")
    yield folder
    shutil.rmtree(folder)


def as_other(args, **options):
    """A process of another user."""
    return subprocess.Popen([str(arg) for arg in args], user=OTHER, group=OTHER, extra_groups=[],
                            cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                            **options)


@contextlib.contextmanager
def posing(public, env):
    """A service of another user, whose socket lets everybody in."""
    runtime = public / "runtime"
    runtime.mkdir(mode=0o700)
    os.chown(runtime, OTHER, OTHER)
    where = f"unix:{public}/x.sock"
    service = as_other([public / "muster", "serve", "--addr", where],
                       env=env | {"MUSTER_RUNTIME_DIR": str(runtime)})
    assert service.stdout.readline() == f"muster: serving on {where}\n"
    (public / "x.sock").chmod(0o777)
    yield where
    service.terminate()
    assert service.wait(WAIT_S) == 0


@two_users
@pytest.mark.parametrize("words", [
    ("status",), ("status", "--json"), ("key", "put", "k", "secret"), ("key", "get", "k"),
    ("key", "ls"), ("key", "watch"), ("barrier", "b", "-n", "1"), ("round", "r", "-n", "1"), ("preempt",),
], ids=" ".join)
def test_no_command_speaks_to_another_users_service(public, env, muster, words):
    """Another user listens on the Unix socket that a client is given. The client sends that
    process nothing and says so at once: commands and programs alike, with a secret too.
    [security / Addresses]"""
    secret = public / "secret"
    secret.touch(mode=0o600)
    secret.write_text("0123456789abcdef0123456789abcdef")  # TLS is not spoken there: it helps nothing
    with posing(public, env) as where:
        done = muster(*words, "--addr", where, "--secret-file", secret)
        assert done.returncode == 1, done.stdout
        assert f"connecting to {where}: another user listens there" in done.stderr


@two_users
def test_no_program_speaks_to_another_users_service(public, env):
    """Another user listens on the Unix socket that a client is given. The client sends that
    process nothing and says so at once: commands and programs alike, with a secret too.
    [security / Addresses]"""
    with posing(public, env) as where:
        program = Process([BUILD / "tests/process/put_lines"], env | {"MUSTER_ADDR": where},
                          stdin=subprocess.PIPE)
        line = program.out.wait_for("another user listens there")
        assert line == f"open: not let in: connecting to {where}: another user listens there"
        assert program.wait() != 0


LOCKS = """import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@two_users
@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_another_users_lock_holds_up_no_start(public, env, started, mode):
    """Another user has locked the folder of the socket, as any user can that can read it. The
    service begins all the same. [service / Addresses]"""
    folder = public / "sockets"
    folder.mkdir()
    folder.chmod(mode)
    other = as_other(["/usr/bin/python3", "-c", LOCKS, folder])
    assert other.stdout.readline() == "locked\n"
    service = Service(["--addr", f"unix:{folder}/x.sock"], env)
    started.append(service)
    assert service.wire().put("k", "v").status == 0
    assert [file.name for file in folder.iterdir()] == ["x.sock"]
    other.communicate(timeout=WAIT_S)


@two_users
def test_another_users_lock_file_is_named(public, env, muster):
    """Another user has made the lock file beside the socket, as is possible in `/tmp`. The
    service is refused with that file's name. [service / Addresses]"""
    other = as_other(["/usr/bin/python3", "-c", "import sys; open(sys.argv[1], 'w')",
                      public / "x.sock.lock"])
    assert other.wait(WAIT_S) == 0
    done = muster("serve", "--addr", f"unix:{public}/x.sock")
    assert done.returncode == 1
    assert done.stderr.startswith(f"muster serve: cannot serve on unix:{public}/x.sock: "
                                  f"{public}/x.sock.lock: ")
    assert not (public / "x.sock").exists()


def test_of_services_that_find_a_dead_ones_socket_one_takes_its_place(env, serve):
    """Several services begin at once where a dead one left its socket. One takes its place; the
    others are refused and name it. [service / Addresses]"""
    dead = serve("--log-level", "error")
    dead.kill()
    rivals = [Process([MUSTER, "serve", "--log-level", "error"], env) for _ in range(RIVALS)]
    until(lambda: sum(one.process.poll() is None for one in rivals) == 1)
    (first,) = [one for one in rivals if one.process.poll() is None]
    first.out.wait_for("muster: serving on")
    for one in rivals:
        if one is not first:
            assert one.wait() == 1
            assert "serves there" in one.log.lines[-1]
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == ["default.sock"]
    first.signal(signal.SIGTERM)
    assert first.wait() == 0
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


@pytest.mark.parametrize("name", ["mine", "run-mine", "run/mine"])
def test_the_log_of_a_service_in_the_background_replaces_no_file_of_the_user(name, tmp_path, env,
                                                                             muster):
    """The log of a background service would lie beside a socket in a folder of the user's own,
    where a file of its name is already. The service is refused with that name; the file stays.
    [discover / The service that ranks start]"""
    (tmp_path / "run").mkdir(mode=0o700)
    folder = tmp_path / name
    folder.mkdir()
    log = folder / "train.log"
    log.write_text("loss 3.1")
    done = muster("serve", "--background", "--addr", f"unix:{folder}/train.sock",
                  env={**env, "MUSTER_RUNTIME_DIR": str(tmp_path / "run")})
    assert done.returncode == 1
    assert done.stderr == (f"muster serve: cannot log in {log}: File exists; move it away, or name "
                           "another socket\n")
    assert [file.name for file in folder.iterdir()] == ["train.log"]
    assert log.read_text() == "loss 3.1"


def test_the_draft_of_a_report_is_a_new_file(tmp_path, env):
    """Another file lies where the draft of the report, or of the request to run the job again, is
    to be, as in a folder of all users. It is removed, and the draft is a new file: nothing is
    written into the other file."""
    victim, report = tmp_path / "victim", tmp_path / "report.json"
    victim.write_text("precious")
    trap = 'ln "$1" "$2.$(hostname).$$" && exec "$3" run --report "$2" -- true'
    subprocess.run(["sh", "-c", trap, "sh", victim, report, MUSTER], env=env, check=True,
                   timeout=WAIT_S)
    assert victim.read_text() == "precious"
    assert report.read_text().startswith("{")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.json", "victim"]


# ---- the runtime directory ----


def made_file(path):
    path.touch()


def made_public(path):
    path.mkdir()
    path.chmod(0o755)


def made_by_another(path):
    path.mkdir(mode=0o700)
    os.chown(path, OTHER, OTHER)


def made_link(path):
    (path.parent / "real").mkdir(mode=0o700)
    path.symlink_to(path.parent / "real")


@pytest.mark.parametrize("make", [
    made_file, made_public, pytest.param(made_by_another, marks=two_users), made_link,
    lambda path: None], ids=["a file", "of mode 0755", "of another user", "a link", "no parent"])
def test_a_refused_runtime_directory_says_what_to_set(tmp_path, env, muster, make):
    """The runtime directory is a file, a link, another user's, or cannot be made. Every command
    that needs it is refused with a line that says to set `MUSTER_RUNTIME_DIR`.
    [service / Start and end]"""
    path = tmp_path / "runtime"
    make(path)
    if not os.path.lexists(path):
        path = tmp_path / "none" / "runtime"
    for words in (("serve",), ("run", "--", "true")):
        done = muster(*words, env=env | {"MUSTER_RUNTIME_DIR": str(path)})
        assert done.returncode in (1, 125)
        (line,) = done.stderr.splitlines()
        assert f"the runtime directory '{path}'" in line
        assert "set MUSTER_RUNTIME_DIR to" in line
