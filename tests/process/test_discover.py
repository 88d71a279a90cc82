# SPDX-License-Identifier: Apache-2.0
"""Programs that their launcher starts, and that nobody tells where they are: the real Open MPI and
MPICH, and processes with the variables that others leave.

behaviour: discover / The service that ranks start
"""

import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import pytest

from conftest import BUILD, MUSTER, ROOT, WAIT_S, Process, pause, sanitized
from discovering import RANK, marked, pidfds, placed, sockets, told, wait_for_no_service
from running import until, wait_gone

LAUNCHERS = re.compile(
    "(MUSTER|OMPI|PMIX?|MPI|MV2|PALS|JSM|FLUX|SLURM|SLURMD|TPU|MEGASCALE|HOROVOD|TORCHELASTIC)_"
    "|(RANK|WORLD_SIZE|MASTER_ADDR|LOCAL_RANK|JOB_COMPLETION_INDEX|KUBERNETES_SERVICE_HOST)$"
)
# A launcher ends with the test's process, however that ends, and then ends what it started: its
# proxies and ranks are in sessions of their own, and would wait for ever.
WITH_US = ["setpriv", "--pdeathsig", "TERM"]
# What each launcher is called, how it starts a number of processes, and where it tells the rank.
MPI = {
    "openmpi": ([*WITH_US, "mpirun.openmpi", "--oversubscribe", "-n"], "OMPI_COMM_WORLD_RANK"),
    "mpich": ([*WITH_US, "mpiexec.mpich", "-n"], "PMI_RANK"),
}


@pytest.fixture
def env(env):
    """No launcher but the test's own."""
    clean = {k: v for k, v in env.items() if not LAUNCHERS.match(k)}
    clean["MUSTER_RUNTIME_DIR"] = env["MUSTER_RUNTIME_DIR"]
    if os.geteuid() == 0:
        clean["OMPI_ALLOW_RUN_AS_ROOT"] = clean["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    yield clean
    end_all(clean["MUSTER_RUNTIME_DIR"])


def end_all(directory):
    for pid in marked(directory):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def installed(name):
    launcher = MPI[name][0][len(WITH_US)]
    if not shutil.which(launcher):
        pytest.skip(f"{launcher} is not installed")
    return MPI[name]


def launch(name, env, *program, size=4, **options):
    command, variable = installed(name)
    done = subprocess.run(
        [*command, str(size), *map(str, program), variable],
        env=env,
        capture_output=True,
        text=True,
        timeout=WAIT_S * 2,
        stdin=subprocess.DEVNULL,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.parametrize("name", MPI)
def test_ranks_of_mpi_join_by_themselves(name, env):
    """Open MPI or MPICH starts a program with several ranks on one machine. Each joins by itself;
    the first to come starts one service for all, and one line on stderr says so.
    [Finding a place]"""
    done = launch(name, env, RANK)
    assert placed(done.stdout) == {rank: 4 for rank in range(4)}
    (line,) = told(done.stderr)
    assert "the 4 ranks that" in line and "one service for all at unix:" in line
    wait_for_no_service(env)


@pytest.mark.parametrize("name", MPI)
def test_the_index_is_the_rank_of_mpi(name, env, tmp_path):
    """A program asks MPI for its rank. It is muster's index. [Finding a place]"""
    compiler = f"mpicc.{name}"
    if not shutil.which(compiler) or sanitized():
        pytest.skip(f"no {compiler} for a plain build")
    library = BUILD / "src"
    subprocess.run(
        [compiler, "-DWITH_MPI", f"-I{ROOT / 'include'}", "-o", tmp_path / "rank",
         ROOT / "tests" / "process" / "discover_rank.c", f"-L{library}", "-lmuster",
         f"-Wl,-rpath,{library}"],
        check=True,
    )  # fmt: skip
    done = launch(name, env, tmp_path / "rank")
    assert placed(done.stdout) == {rank: 4 for rank in range(4)}


@pytest.mark.parametrize("name", MPI)
def test_nothing_of_a_launcher_outlives_who_started_it(name, env):
    """The process that started a launcher is killed. The kernel notifies the tests' launchers,
    which kill what they started. [Finding a place]"""
    command, variable = installed(name)
    words = [*command, "2", RANK, variable, "hold"]
    starter = Process([sys.executable, "-c", f"import subprocess; subprocess.run({list(map(str, words))})"], env)
    starter.out.wait_for("rank 1 of 2")
    starter.out.wait_for("rank 0 of 2")
    left = pidfds(marked(env["MUSTER_RUNTIME_DIR"]))
    starter.process.kill()
    wait_gone(*left)


def test_two_jobs_of_a_launcher_that_names_none_stay_apart(env, muster):
    """Two jobs of a launcher that gives no job name run at once. They stay apart: the launcher's
    process names them, also through a shell in between. [Finding a place]"""
    installed("mpich")
    both = [
        Process([*MPI["mpich"][0], size, "sh", "-c", f"{RANK} PMI_RANK hold; exit $?"], env)
        for size in (2, 3)
    ]
    for one, size in zip(both, (2, 3)):
        for rank in range(size):
            one.out.wait_for(f"rank {rank} of {size} ")
    assert len(sockets(env)) == 2
    for path in sockets(env):
        assert muster("key", "put", "go", "1", "-j", path.stem).returncode == 0
    assert [one.wait() for one in both] == [0, 0], [one.log.lines for one in both]
    wait_for_no_service(env)


def test_ranks_that_leave_and_come_again_find_a_service_each_time(env):
    """All ranks leave and come again at once, often. Each time all find one service."""
    command, variable = installed("mpich")
    done = subprocess.run(
        [*command, "4", RANK, variable, "25"], env=env, capture_output=True, text=True,
        timeout=WAIT_S * 2,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("round 24 ") == 4
    wait_for_no_service(env)


@pytest.mark.parametrize("name", MPI)
def test_an_address_is_joined_under_the_name_of_the_launchers_job(name, env, serve):
    """`MUSTER_ADDR` is set. The rank joins there, with the index, size and job's name of its
    launcher. [Finding a place]"""
    service = serve("--addr", "127.0.0.1:0")
    done = launch(name, {**env, "MUSTER_ADDR": service.address}, RANK)
    assert placed(done.stdout) == {rank: 4 for rank in range(4)}
    assert told(done.stderr) == []
    if name == "openmpi":
        service.log.wait_for("openmpi-", "member-ready #3")
    else:
        service.log.wait_for("default", "member-ready #3")


def by_hand(env, started, rank, size, *args, **more):
    """A rank as MPICH would start it."""
    variables = {"PMI_RANK": rank, "PMI_SIZE": size, "MPI_LOCALRANKID": rank,
                 "MPI_LOCALNRANKS": size}  # fmt: skip
    process = Process(
        [RANK, "PMI_RANK", *args],
        {**env, **{k: str(v) for k, v in variables.items()}, **more},
    )
    started.append(process)
    return process


def test_who_started_the_service_may_die(env, started, muster):
    """The rank that started the service is killed. The service belongs to no rank: it goes on for
    the others, and ends when the last session is over."""
    quick = {"MUSTER_LEASE": "6s"}
    ranks = [by_hand(env, started, rank, 2, "hold", **quick) for rank in range(2)]
    for rank, process in enumerate(ranks):
        process.out.wait_for(f"rank {rank} of 2")
    starter = until(lambda: next((one for one in ranks if told("\n".join(one.log.lines))), None))
    other = ranks[1 - ranks.index(starter)]
    starter.kill()
    (path,) = sockets(env)
    done = muster("key", "put", "go", "1", "-j", path.stem)
    assert done.returncode == 0, done.stderr
    assert other.wait() == 0, other.log.lines
    wait_for_no_service(env)


def process_at(path):
    """The one that listens there, which is nobody's child."""
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(str(path))
        return struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def test_a_killed_service_ends_its_ranks_with_a_line_that_says_so(env, started):
    """The service that the ranks started is killed. The state is gone and no process starts it
    again: every call ends at once, however long its timeout, with a line that says so and
    names its log."""
    ranks = [by_hand(env, started, rank, 2, "hold", MUSTER_LEASE="60s") for rank in range(2)]
    for rank, process in enumerate(ranks):
        process.out.wait_for(f"rank {rank} of 2")
    (path,) = sockets(env)
    began = time.monotonic()
    os.kill(process_at(path), signal.SIGKILL)
    for process in ranks:
        assert process.wait() == 1
        log = path.with_suffix(".log")
        assert process.log.lines[-1] == (
            f"wait: wait for 'go': the service at unix:{path}, which the first rank of this machine "
            f"had started, has ended, and its state is lost; its log is {log}")
        assert "member-ready #1" in log.read_text()
    assert time.monotonic() - began < WAIT_S


def test_a_killed_service_of_one_ends_its_program(env, started):
    """The service of a program on its own is killed. The state is gone: every call ends at once
    with a line that says so and names its log."""
    rank = Process([RANK, "X", "hold"], {**env, "MUSTER_LEASE": "60s"})
    started.append(rank)
    rank.out.wait_for("rank 0 of 1")
    os.kill(process_at(sockets(env)[0]), signal.SIGKILL)
    assert rank.wait() == 1
    assert "which this process had started, has ended" in rank.log.lines[-1]


def test_all_ranks_of_a_large_job_start_at_once(env, started):
    """Sixty-four ranks start at once, and one is killed while the service starts. There is one
    service, and all are in one generation."""
    start = lambda rank: by_hand(env, started, rank, 64, MUSTER_LEASE="6s")
    doomed = start(0)
    ranks = [start(rank) for rank in range(1, 63)]
    doomed.kill()
    ranks = [start(0), *ranks, start(63)]
    for rank, process in enumerate(ranks):
        assert process.wait() == 0, process.log.lines
        assert f"rank {rank} of 64 " in process.out.lines[0]
    wait_for_no_service(env)


def test_who_starts_the_service_and_hangs_is_waited_for_no_longer_than_asked(env, started):
    """The rank that starts the service hangs, or the service itself does. The others, or its
    starter, say so when the time they gave to open is over."""
    lock = os.open(env["MUSTER_RUNTIME_DIR"] + "/.start", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    rank = by_hand(env, started, 0, 2, DISCOVER_RANK_MS="300")
    assert rank.wait() == 1
    assert ".start' is locked by a process that makes no progress" in rank.log.lines[-1]
    os.close(lock)
    hangs = pathlib.Path(env["MUSTER_RUNTIME_DIR"], "hangs")
    hangs.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    hangs.chmod(0o700)
    rank = by_hand(env, started, 0, 2, DISCOVER_RANK_MS="2000", MUSTER_PROGRAM=str(hangs))
    assert rank.wait() == 1
    assert f"'{hangs}' did not begin to serve in time" in rank.log.lines[-1]


def test_a_service_that_nobody_reaches_ends(env, spawn):
    """No client comes to a service within a lease. The service ends."""
    service = spawn("serve", "--until-idle", env={**env, "MUSTER_LEASE": "50ms"})
    assert service.wait() == 0
    assert service.log.having("stopping", "nobody came")


def test_a_service_until_idle_outlives_a_connection(env, serve):
    """`muster serve --until-idle` loses its last connection. It waits until the session is over
    too: a lease."""
    service = serve("--until-idle", "--lease", "6s")
    wire = service.wire()
    wire.close()
    assert service.wait() == 0
    assert service.log.having("stopping", "the last session is over")


def test_the_service_cannot_be_started(env, started):
    """The service cannot be started. Each rank says what was tried and what to do."""
    rank = by_hand(env, started, 0, 2, MUSTER_PROGRAM="/nonexistent/muster")
    assert rank.wait() == 1
    (line,) = rank.log.lines
    assert "a service for the ranks of this machine cannot be started" in line
    assert "'/nonexistent/muster': No such file or directory" in line and "MUSTER_PROGRAM" in line
    rank = by_hand(env, started, 0, 2, MUSTER_PROGRAM="/bin/false")
    assert rank.wait() == 1
    assert "'/bin/false' ended at once" in rank.log.lines[-1]


def refused(env, **variables):
    done = subprocess.run(
        [RANK, "X"], env={**env, **variables}, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode == 1 and done.stdout == "", done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    return line


def test_several_nodes_and_no_address(env):
    """The ranks are on several nodes and no address is set. They are refused: one line says where
    this process is and how to start a service. [Finding a place]"""
    line = refused(
        env, SLURM_JOB_ID="7", SLURM_STEP_ID="0", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="2",
        SLURM_STEP_NODELIST="a[1-2]", SLURM_STEP_TASKS_PER_NODE="1(x2)", SLURM_NODEID="1",
        SLURM_LOCALID="0",
    )  # fmt: skip
    assert "this is rank 1 of 2 (Slurm), not all on this machine, and no MUSTER_ADDR" in line
    assert "srun --ntasks-per-node=1 muster run" in line and "muster serve" in line


def test_variables_that_are_a_trap_are_refused(env, serve):
    """Variables are half set, no numbers, out of range, or those of a launcher that does not give
    the size. The rank is refused with what is set, what is missing and what to do; an address
    does not help. [Not guessing]"""
    line = refused(env, SLURM_JOB_ID="7", SLURM_PROCID="0", SLURM_NTASKS="4", SLURM_NNODES="1")
    assert "open: SLURM_JOB_ID=7, but this process is no task of srun" in line
    line = refused(env, PMI_RANK="1")
    assert "PMI_RANK=1 is set, but PMI_SIZE is not" in line
    line = refused(env, PMI_RANK="4", PMI_SIZE="4")
    assert "PMI_RANK=4 is not below PMI_SIZE=4" in line
    line = refused(env, JOB_COMPLETION_INDEX="1", KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert "set MUSTER_SIZE to their number" in line
    # An address does not make a wrong rank right.
    line = refused(env, PMI_RANK="1", MUSTER_ADDR=serve().address)
    assert "PMI_SIZE is not" in line


def test_a_size_alone_is_no_place(env):
    """`MUSTER_SIZE` says there are others, and nothing says which one this is. The rank is
    refused, instead of waiting for them alone. [Not guessing]"""
    line = refused(env, MUSTER_SIZE="4")
    assert "set MUSTER_INDEX and MUSTER_ADDR" in line


def test_what_the_user_says_goes_before_the_launcher(env, serve):
    """The user sets index, size, job or address. That goes before the launcher's variables.
    [Finding a place]"""
    service = serve()
    done = subprocess.run(
        [RANK, "MUSTER_INDEX"],
        env={**env, "PMI_RANK": "1", "MUSTER_INDEX": "0", "MUSTER_SIZE": "1", "MUSTER_JOB": "mine",
             "MUSTER_ADDR": service.address},
        capture_output=True, text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert placed(done.stdout) == {0: 1}
    service.log.wait_for("mine", "member-ready #0")


def test_a_size_of_one_is_a_job_of_its_own(env):
    """The launcher started one process. It is a job of its own, as a program started by hand.
    [Finding a place]"""
    done = subprocess.run(
        [RANK, "PMI_RANK"], env={**env, "PMI_RANK": "0", "PMI_SIZE": "1"}, capture_output=True,
        text=True, timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "a job of one" in done.stderr
    assert placed(done.stdout) == {0: 1}


def test_inside_muster_run_its_own_place_counts(env, muster):
    """`muster run` starts the ranks, itself started by a launcher. A rank's place is the run's.
    [Finding a place]"""
    done = muster(
        "run", "-n", "2", "--no-label", "--", RANK, "MUSTER_INDEX",
        env={**env, "PMI_RANK": "0", "PMI_SIZE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert placed(done.stdout) == {0: 2, 1: 2}


def test_env_says_which_row_won(env, muster):
    """`muster env` runs under a launcher. It says which row won and why, the place, the runtime
    directory, and what of the kernel's help works here; `-v` adds every row. [muster env]"""
    place = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
    done = muster("env", env={**env, **place})
    assert done.returncode == 0, done.stderr
    assert re.search(r"^launcher +PMI \(MPICH, Intel MPI\)$", done.stdout, re.M)
    assert re.search(r"^place +rank 1 of 2, local rank 1 of 2, node 0 of 1$", done.stdout, re.M)
    assert env["MUSTER_RUNTIME_DIR"] in done.stdout
    done = muster("env", "-v", env={**env, **place})
    assert re.search(r"Open MPI +absent +no OMPI_COMM_WORLD_RANK", done.stdout)
    assert re.search(r"PMI .* taken +PMI_RANK=1: rank 1 of 2", done.stdout)


def test_env_at_an_address_knows_no_place(env, muster):
    """`MUSTER_ADDR` is set and no launcher's variable. `muster env` knows no place: the job there
    gives it; without `MUSTER_SIZE` the line says to set it. [muster env]"""
    at = {**env, "MUSTER_ADDR": "unix:/somewhere"}
    done = muster("env", env=at)
    assert done.returncode == 0, done.stderr
    assert "the job at MUSTER_ADDR gives it a place; set MUSTER_SIZE, or no rank can be the first" in done.stdout
    assert re.search(r"^place +rank unknown, local rank unknown, node unknown$", done.stdout, re.M)
    place = json.loads(muster("env", "--json", env={**at, "MUSTER_SIZE": "2"}).stdout)["place"]
    assert place["size"] == 2 and place["rank"] is None


def test_an_address_and_no_size_is_refused_at_once(env, serve):
    """`MUSTER_ADDR` is set, and neither the rank nor any other of the job says how many there
    are. It is refused at once, as `muster env` says, instead of waiting for ever: the line
    says to set `MUSTER_SIZE`. Once the job has begun it is not needed. [Not guessing]"""
    at = {**env, "MUSTER_ADDR": serve().address}
    done = subprocess.run([RANK, "MUSTER_INDEX"], env=at, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode != 0
    assert "no member has set how many ranks it starts with" in done.stderr and "set MUSTER_SIZE" in done.stderr
    done = subprocess.run([RANK, "MUSTER_INDEX"], env={**at, "MUSTER_SIZE": "1"}, capture_output=True,
                          text=True, timeout=WAIT_S)
    assert done.returncode == 0, done.stderr


def test_env_as_json(env, muster):
    """`muster env --json` says the same for programs; the kernel's features were tried, not
    looked up. [muster env]"""
    done = muster("env", "--json", env={**env, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "n"})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["launcher"] == "torchrun" and found["trap"] is None
    assert found["place"]["rank"] == 0 and found["place"]["size"] == 2
    assert found["place"]["local_rank"] is None and found["place"]["host"] == "n"
    assert len(found["rows"]) == 13
    assert found["runtime_dir"] == env["MUSTER_RUNTIME_DIR"]
    kernel = found["kernel"]
    assert set(kernel) == {
        "futex_waitv", "pidfd", "robust_notice", "robust_notice_us", "short_slice",
    }  # fmt: skip
    release = tuple(int(n) for n in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())
    assert kernel["robust_notice"] is True and 0 < kernel["robust_notice_us"] < 2000000
    assert kernel["futex_waitv"] is (release >= (5, 16))


def test_env_names_a_trap_and_fails(env, muster):
    """The variables are a trap. `muster env` names it and ends with 1. [muster env]"""
    done = muster("env", "--json", env={**env, "SLURM_JOB_ID": "1", "SLURM_NTASKS": "2"})
    assert done.returncode == 1
    assert json.loads(done.stdout)["trap"] == "batch"
    assert "is no task of srun" in done.stderr
    done = muster("env", "--agent", env={**env, "SLURM_JOB_ID": "1", "SLURM_NNODES": "1"})
    assert done.returncode == 0, done.stderr


def test_env_of_a_user_with_nothing(env):
    """A user without a home and without rights calls `muster env`; or the runtime directory is
    not safe. All is printed all the same; the latter is an error at the end. [muster env]"""
    def ask(**more):
        return subprocess.run([MUSTER, "env", "--json"], env={"LD_LIBRARY_PATH": env.get("LD_LIBRARY_PATH", ""), **more},
                              capture_output=True, text=True, timeout=WAIT_S, **nobody)

    nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        if nobody:
            os.chown(folder, 65534, 65534)
        done = ask(MUSTER_RUNTIME_DIR=folder)
        assert done.returncode == 0, done.stderr
        kernel = json.loads(done.stdout)["kernel"]
        assert kernel["pidfd"] is True and kernel["robust_notice"] is True
        os.chmod(folder, 0o755)
        done = ask(MUSTER_RUNTIME_DIR=folder)
    assert done.returncode == 1
    assert json.loads(done.stdout)["runtime_dir"] is None
    assert done.stderr == (f"muster env: the runtime directory '{folder}' is not safe: it must be a "
                           "directory of this user with mode 0700; set MUSTER_RUNTIME_DIR to such a "
                           "one\n")


def test_background_says_why_it_could_not(env, serve, muster):
    """`muster serve --background` cannot listen. The command says why, and fails."""
    first = serve("--addr", f"unix:{env['MUSTER_RUNTIME_DIR']}/x.sock")
    done = muster("serve", "--background", "--addr", first.address)
    assert done.returncode == 1
    assert f"process {first.pid} serves there already" in done.stderr


def test_a_background_service_holds_nothing_of_its_starter(env):
    """`muster serve --background` returns when the service can be reached. The service holds
    nothing of the terminal or the launcher, so their output ends with the command, and logs
    beside its socket until it ends by itself."""
    done = subprocess.run(
        [MUSTER, "serve", "--background", "-j", "quiet"], env=env, capture_output=True, text=True,
        timeout=WAIT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = sockets(env)
    assert path.stem == "quiet" and path.name in done.stdout
    found = subprocess.run(
        [MUSTER, "status", "-j", "quiet"], env=env, capture_output=True, text=True, timeout=WAIT_S
    )
    assert found.returncode in (0, 1)
    assert path.with_suffix(".log").exists()
    os.kill(process_at(path), signal.SIGTERM)
    wait_for_no_service(env)
    deadline = time.monotonic() + WAIT_S
    while path.with_suffix(".log").exists():  # who ends by itself has nothing to explain
        assert time.monotonic() < deadline
        pause()
