# SPDX-License-Identifier: Apache-2.0
"""`muster exec`: a program that is no rank finds a running job.

behaviour: program / muster exec
"""

import os
import signal

import pytest

from conftest import MUSTER
from running import Run

SECRET = "0123456789abcdef0123456789abcdef"


def told(done):
    """The variables that `env` has printed."""
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.touch(mode=0o600)
    path.write_text(SECRET)
    return path


@pytest.fixture
def secured(serve, secret):
    return serve("--addr", "127.0.0.1:0", "--secret-file", secret)


def test_a_program_finds_a_running_job(spawn, muster):
    """A program is started by `muster exec -j JOB` beside a `muster run`. It finds the job's address
    and name, and reads and writes its keys; without -j it is the one job that runs here."""
    job = Run(spawn, muster, 2)
    ranks = job.entered()
    found = told(muster("exec", "-j", job.job, "--", "env"))
    assert found["MUSTER_JOB"] == job.job and found["MUSTER_ADDR"].startswith("unix:")
    assert not {"MUSTER_INDEX", "MUSTER_SIZE", "MUSTER_SECRET_FILE", "MUSTER_INSECURE"} & set(found)
    script = f'{MUSTER} key put from-exec "$1" && {MUSTER} key get from-exec'
    done = muster("exec", "sh", "-c", script, "sh", "a b")
    assert (done.returncode, done.stdout, done.stderr) == (0, "a b\n", "")
    job.all_well(ranks)


def test_its_exit_code_is_the_programs(service, spawn, muster):
    """The program of `muster exec` ends, or is killed. It has taken the place of `muster exec`: same
    process, same exit code, and a signal reaches it."""
    assert muster("exec", "sh", "-c", "exit 7").returncode == 7
    running = spawn("exec", "--", "sh", "-c", "echo $$; exec sleep 1000")
    running.out.wait_for(str(running.process.pid))
    running.signal(signal.SIGTERM)
    assert running.wait() == -signal.SIGTERM


def test_the_secrets_file_is_named_by_its_whole_path(secured, secret, muster):
    """The job has a secret in a file. The program gets its whole path, and reaches the service from
    another folder; the variables of another secret are taken out."""
    done = muster("exec", "--addr", secured.address, "--secret-file", secret.name, "--",
                  "sh", "-c", f"cd / && {MUSTER} key add n && env", cwd=secret.parent)
    found = told(done)
    assert done.stdout.startswith("1\n")
    assert found["MUSTER_SECRET_FILE"] == str(secret) and "MUSTER_SECRET_FD" not in found


def test_a_secret_by_descriptor_is_there_for_the_program_too(secured, muster):
    """The secret comes by a pipe, which can be read once. The program inherits a copy, and so do the
    commands that it starts."""
    reader, writer = os.pipe()
    os.write(writer, SECRET.encode())
    os.close(writer)
    done = muster("exec", "--addr", secured.address, "--secret-fd", reader, "--", "sh", "-c",
                  f"{MUSTER} key add n; {MUSTER} key add n", pass_fds=[reader])
    os.close(reader)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n2\n", "")


def test_a_rank_may_call_it(service, muster, env):
    """A rank of another job calls `muster exec`. The program has the address and the name of the job
    that is meant, and no place: not that of the rank, and not that which torchrun's variables say."""
    rank = {"MUSTER_INDEX": "3", "MUSTER_SIZE": "4", "MUSTER_PAGE_FD": "9", "MUSTER_NODE": "1",
            "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "x"}
    done = muster("exec", "--addr", service.address, "-j", "mine", "--", "env", env=env | rank)
    found = told(done)
    assert found["MUSTER_JOB"] == "mine" and found["MUSTER_ADDR"] == service.address
    assert not set(rank) & set(found)


@pytest.mark.parametrize("flag", ["-np", "--standalone", "-l", "-x"])
def test_flags_of_launchers_are_for_run(muster, flag):
    """A flag of torchrun or mpirun, which `muster run` accepts, is typed behind `muster exec` or
    `muster completion`, which start no ranks. One line says that it is unknown."""
    for command in ("exec", "completion"):
        done = muster(command, flag, "2", "--", "true")
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith(f"muster {command}: unknown flag {flag}")


@pytest.mark.parametrize("args, code, line", [
    ((), 2, "the program is missing; usage: muster exec -j JOB -- PROGRAM ARGUMENTS"),
    (("no-such-program",), 127, "'no-such-program' cannot be started: No such file or directory"),
    (("/dev/null",), 126, "'/dev/null' cannot be started: Permission denied"),
    (("true",), 125, "no job runs here (muster run and muster serve start one; --addr names a "
                     "service elsewhere)"),
    (("--addr", "127.0.0.1:1", "true"), 125, "open: "),
])
def test_what_cannot_be_started(muster, args, code, line):
    """`muster exec` has no program, or one that is not there or not executable, or no job, or its
    service cannot be reached. The program is not started; the exit code is 2, 127, 126 or 125, with
    one line."""
    done = muster("exec", *args)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(f"muster exec: {line}") and done.stderr.count("\n") == 1
