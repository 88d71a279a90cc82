# SPDX-License-Identifier: Apache-2.0
"""`muster run`: what ranks get, who is started again, how a run ends and what it says of it.

behaviour: run / What ranks get
"""

import errno
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys

import pytest

from conftest import MUSTER, WAIT_S
from nodes import joining
from running import RANK, Run, until, wait_gone

HANG_S = 1.8  # more than 0.8 of the lease, which only time can show


@pytest.fixture
def run(spawn, muster):
    def start(size, *flags, **options):
        return Run(spawn, muster, size, *flags, **options)

    return start


# ---- programs that know nothing of muster ----


def test_lines_are_labelled(muster):
    """Ranks write to stdout and stderr. Each line is labelled with the index, and an end without
    newline is not lost."""
    done = muster("run", "-n", 2, "--", "sh", "-c", "echo hi; echo oh >&2; printf part")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["[0]: hi", "[0]: part", "[1]: hi", "[1]: part"]
    assert "[0]: oh" in done.stderr.splitlines() and "[1]: oh" in done.stderr.splitlines()
    assert "the index of its process" in " ".join(muster("run", "--help").stdout.split())


def test_labels_can_be_left_out(muster):
    """`--no-label` leaves the labels out."""
    done = muster("run", "--no-label", "--", "echo", "hi")
    assert done.stdout == "hi\n"


def test_ranks_get_the_variables_of_torchrun(muster):
    """A script expects the variables of torchrun. RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, a
    free MASTER_PORT and their like are there beside `MUSTER_*`."""
    done = muster("run", "-n", 2, "--max-restarts", 5, "-j", "vars", "--", "env")
    ranks = [{}, {}]
    for line in done.stdout.splitlines():
        index, name, value = re.fullmatch(r"\[(\d)\]: ([^=]*)=(.*)", line).groups()
        ranks[int(index)][name] = value
    for index, rank in enumerate(ranks):
        expected = {
            "RANK": index,
            "LOCAL_RANK": index,
            "WORLD_SIZE": 2,
            "LOCAL_WORLD_SIZE": 2,
            "GROUP_RANK": 0,
            "GROUP_WORLD_SIZE": 1,
            "ROLE_NAME": "default",
            "ROLE_RANK": index,
            "ROLE_WORLD_SIZE": 2,
            "MASTER_ADDR": "127.0.0.1",
            "TORCH_NCCL_ASYNC_ERROR_HANDLING": 1,
            "TORCHELASTIC_USE_AGENT_STORE": False,
            "TORCHELASTIC_RUN_ID": "vars",
            "TORCHELASTIC_RESTART_COUNT": 0,
            "TORCHELASTIC_MAX_RESTARTS": 5,
            "MUSTER_JOB": "vars",
            "MUSTER_INDEX": index,
            "MUSTER_SIZE": 2,
        }
        assert {name: rank.get(name) for name in expected} == {
            name: str(value) for name, value in expected.items()
        }
        assert rank["MUSTER_ADDR"].startswith("unix:") and rank["MUSTER_ADDR"].endswith("vars.sock")
    assert ranks[0]["MASTER_PORT"] == ranks[1]["MASTER_PORT"]
    with socket.socket() as port:  # not to bind it: the end of a connection of another program may keep it
        assert port.connect_ex(("127.0.0.1", int(ranks[0]["MASTER_PORT"]))) == errno.ECONNREFUSED


def test_threads_are_limited_when_there_are_several_ranks(muster, env):
    """Several ranks run and OMP_NUM_THREADS is not set. It is set to 1, and one line says so."""
    env.pop("OMP_NUM_THREADS", None)
    show = ("--", "sh", "-c", "echo $OMP_NUM_THREADS")
    done = muster("run", "-n", 2, *show)
    assert sorted(done.stdout.splitlines()) == ["[0]: 1", "[1]: 1"]
    assert len([line for line in done.stderr.splitlines() if "OMP_NUM_THREADS=1" in line]) == 1
    assert muster("run", *show).stdout == "[0]: \n"
    env["OMP_NUM_THREADS"] = "3"
    done = muster("run", "-n", 2, *show)
    assert sorted(done.stdout.splitlines()) == ["[0]: 3", "[1]: 3"] and done.stderr == ""


def test_a_rank_leads_its_group(muster):
    """A rank starts. It leads a process group of its own."""
    done = muster("run", "--", "sh", "-c", "cut -d' ' -f1,5 /proc/$$/stat")
    pid, group = done.stdout.removeprefix("[0]: ").split()
    assert pid == group


@pytest.mark.parametrize(
    "program, code, words",
    [
        ("no-such-program", 127, "'no-such-program' is not found in PATH"),
        ("./no/such", 127, "'./no/such' is not found"),
        ("/etc/passwd", 126, "'/etc/passwd' is not executable"),
        ("/tmp", 126, "'/tmp' is not executable"),
    ],
)
def test_a_program_that_cannot_be_started_is_one_line(muster, program, code, words):
    """The program is not there, or is not executable. The run prints one line and ends with 127,
    or 126. [Exit codes]"""
    done = muster("run", "-n", 2, "--", program)
    assert done.returncode == code
    assert done.stderr == f"muster run: {words}\n"


def test_a_file_of_no_known_format_is_one_line(muster, tmp_path):
    """The program is a file of no known format. The run prints one line and ends with 126.
    [Exit codes]"""
    program = tmp_path / "noise"
    program.write_bytes(b"\x01\x02")
    program.chmod(0o755)
    done = muster("run", "--", program)
    assert done.returncode == 126
    assert done.stderr.count("\n") == 1 and "Exec format error" in done.stderr


def test_no_program_is_wrong_usage(muster):
    """No program is given, or numbers do not fit. That is wrong usage: 2. [Exit codes]"""
    done = muster("run", "-n", 2)
    assert done.returncode == 2 and "the program is missing" in done.stderr
    done = muster("run", "-n", 2, "--min-size", 3, "--", "true")
    assert done.returncode == 2 and "--min-size 3" in done.stderr


def test_a_program_that_exits_at_once_is_one_line(muster):
    """The program exits at once. One line says which rank, with which status, after how long,
    that it had opened no client, and its last line on stderr. Its status is the exit code.
    [Exit codes]"""
    done = muster("run", "--", "sh", "-c", "echo no such model >&2; exit 3")
    assert done.returncode == 3
    rank, cause = done.stderr.splitlines()
    assert rank == "[0]: no such model"
    assert re.fullmatch(
        rf"muster run: first cause: #0 \(pid \d+\) on {socket.gethostname()} ended with status 3 at "
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}, \d+ ms after its start, before it opened a muster "
        r'client; its last line on stderr: "no such model"; with --max-restarts N all ranks of a program '
        "without muster are restarted",
        cause,
    )


def test_the_ranks_that_were_stopped_are_not_the_cause(muster):
    """A rank fails and the others are stopped because of it. The last line names the one that
    failed, not those that were stopped, and its status is the exit code. [The first cause]"""
    script = "case $RANK in 1) echo mine >&2; exit 7;; *) trap 'exit 9' TERM; while :; do :; done; esac"
    done = muster("run", "-n", 3, "--", "sh", "-c", script)
    assert done.returncode == 7
    assert "first cause: #1 " in done.stderr.splitlines()[-1]
    assert '"mine"' in done.stderr.splitlines()[-1]


def test_a_signal_is_128_and_its_number(muster):
    """A rank is killed by a signal and not replaced. The exit code is 128 and the signal's
    number. [Exit codes]"""
    done = muster("run", "--", "sh", "-c", "kill -SEGV $$")
    assert done.returncode == 128 + signal.SIGSEGV
    assert "was killed by signal 11 (Segmentation fault)" in done.stderr.splitlines()[-1]


def test_75_is_no_failure_and_is_passed_on(muster):
    """A rank ends with 75: saved, run me again. That is no failure, and is passed on.
    [Exit codes]"""
    done = muster("run", "-n", 2, "--", "sh", "-c", "exit $((75 * RANK))")
    assert done.returncode == 75
    assert "first cause" not in done.stderr


def test_a_rank_may_leave_core_dumps_only_if_asked(muster):
    """`--core` keeps core dumps; else the kernel skips them, so that a crash is reported at once."""
    limit = ("--", "sh", "-c", "cut -c1-60 /proc/self/limits | grep core")
    assert re.search(r"Max core file size +1 ", muster("run", *limit).stdout)
    done = muster("run", "--core", *limit)
    assert not re.search(r"Max core file size +1 ", done.stdout)


def test_a_run_within_a_rank_is_a_job_of_its_own(muster):
    """A rank starts `muster run` itself. That is a job of its own."""
    inner = (MUSTER, "run", "-n", 2, "--no-label", "--", "sh", "-c", "echo inner $RANK $MUSTER_SIZE")
    outer = ("run", "--size", 3, "--min-size", 1, "--join-wait", "1h", "--grow", "off")
    done = muster(*outer, "-n", 1, "--min-size", 3, "--", *inner)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0]: inner 0 2", "[0]: inner 1 2"]


# Prints the time slice that the scheduler gives it.
SLICE = """
import ctypes
import struct
import sys
attributes = ctypes.create_string_buffer(48)
numbers = {"x86_64": 315, "aarch64": 275}
import platform
call = ctypes.CDLL(None).syscall
assert call(numbers[platform.machine()], 0, attributes, 48, 0) == 0
print(struct.unpack_from("=Q", attributes, 24)[0])
"""


def test_a_rank_keeps_the_time_slice_it_would_have_without(muster):
    """A rank asks for its time slice. It is what it would be without muster.
    [Descriptors and signals]"""
    alone = subprocess.run([sys.executable, "-c", SLICE], capture_output=True, text=True)
    done = muster("run", "--no-label", "--", sys.executable, "-c", SLICE)
    assert done.stdout == alone.stdout and done.returncode == 0


def test_a_rank_inherits_its_page_and_no_other_descriptor(muster):
    """A rank looks at its descriptors. It inherits its progress page and nothing else.
    [Descriptors and signals]"""
    code = ("import os, stat\n"
            "for fd in sorted(map(int, os.listdir('/proc/self/fd'))):\n"
            "    try: print(fd, os.readlink(f'/proc/self/fd/{fd}').split(':')[0])\n"
            "    except OSError: pass\n"
            "print(os.environ['MUSTER_PAGE_FD'])\n")
    done = muster("run", "--no-label", "--", sys.executable, "-c", code)
    *descriptors, page = done.stdout.splitlines()
    assert descriptors == ["0 /dev/null", "1 pipe", "2 pipe", f"{page} /memfd"]


def test_closed_standard_descriptors_are_not_taken_for_others(env, tmp_path):
    """`muster run` is started with stdin, stdout or stderr closed. No other file is taken for
    them; the program runs. [Descriptors and signals]"""
    for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        script = f'exec "$0" run -- sh -c "echo ran > {tmp_path}/ran; exit 3" {closed}'
        done = subprocess.run(["sh", "-c", script, MUSTER], env=env, timeout=WAIT_S)
        assert done.returncode == 3, closed
        assert (tmp_path / "ran").read_text() == "ran\n"


def test_an_unknown_variable_is_warned_of_once(muster, env):
    """A `MUSTER_` variable that no program reads is set. One warning names it, also under `muster
    run`. [program / Variables, limits and very many jobs]"""
    env["MUSTER_LEESE"] = "1"
    inner = f"{MUSTER} key put k v --addr $MUSTER_ADDR && exit 4"
    done = muster("run", "--", "sh", "-c", inner)
    assert done.returncode == 4
    warnings = [line for line in done.stderr.splitlines() if "no effect" in line]
    assert warnings == ["muster: warning: unknown variables, which have no effect: MUSTER_LEESE"]


def test_what_wakes_a_node_while_it_joins_is_heard(spawn, env, tmp_path):
    """A source of notices speaks while a node still joins. It counts, and nothing of the session
    is looked at before it is open. [nodes / Refused nodes]"""
    first = spawn("run", "--nnodes", "1:2", "--listen", "127.0.0.1:0", "--insecure", "-j", "two",
                  "--", "tail", "-f", "/dev/null")
    words = joining(first)
    tmp_path.chmod(0o700)
    other = spawn("run", *words,
                  env={**env, "MUSTER_RUNTIME_DIR": str(tmp_path), "SLURM_JOB_ID": "1"})
    other.log.wait_for("start it with srun")
    other.log.wait_for("this is node 1 of job 'two'")


# ---- signals and the end of everything ----


def test_signals_are_passed_on(spawn):
    """The launcher gets SIGUSR1 or SIGUSR2. The ranks get it. [Signals and the end]"""
    script = "trap 'echo usr1' USR1; trap 'echo usr2; exit 0' USR2; echo ready; while :; do sleep 0.01; done"
    process = spawn("run", "-n", 2, "--", "sh", "-c", script)
    process.out.wait_for("ready", count=2)
    process.signal(signal.SIGUSR1)
    process.out.wait_for("usr1", count=2)
    process.signal(signal.SIGUSR2)
    assert process.wait() == 0


def test_a_rank_told_to_stop_may_end_well(spawn):
    """`muster run` gets SIGTERM, SIGINT, SIGHUP or SIGQUIT. The ranks get it and have the grace
    time; if they end well, so does the run. [Signals and the end]"""
    script = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    process = spawn("run", "-n", 2, "--", "sh", "-c", script)
    process.out.wait_for("ready", count=2)
    process.signal(signal.SIGTERM)
    assert process.wait() == 0
    assert len(process.out.having("saved")) == 2


def pids_said(process, count):
    process.out.wait_for("pid ", count=count)
    return [int(line.split()[-1]) for line in process.out.having("pid ")]


def test_the_end_leaves_nothing_behind(spawn):
    """Ranks do not end in the grace time. They are killed with all they started; nothing is left
    behind. [Signals and the end]"""
    script = "trap '' TERM; sh -c 'echo pid $$; while :; do sleep 1; done' & echo pid $$; wait"
    process = spawn("run", "-n", 2, "--grace", "200ms", "--", "sh", "-c", script)
    pids = pids_said(process, 4)
    pidfds = [os.pidfd_open(pid) for pid in pids]
    process.signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    wait_gone(*pidfds)
    assert process.log.lines[-1] == "muster run: stopped by signal 15 (Terminated)"


def test_the_second_signal_kills_at_once(spawn):
    """A signal to end comes a second time. The ranks are killed at once. [Signals and the end]"""
    script = "trap '' TERM INT; echo pid $$; while :; do sleep 0.01; done"
    process = spawn("run", "-n", 2, "--grace", "1h", "--", "sh", "-c", script)
    pids_said(process, 2)
    process.signal(signal.SIGTERM)
    process.log.wait_for("once more kills at once")
    process.signal(signal.SIGINT)
    assert process.wait() == 128 + signal.SIGTERM


def test_the_second_signal_kills_whatever_the_run_was_ending_by(spawn, tmp_path):
    """A second signal comes while the run ends, whatever it ends by. Everything is killed at
    once, and the first cause stays. [Descriptors and signals]"""
    fails = '[ $RANK = 1 ] && { until [ -e "$0" ]; do sleep 0.01; done; exit 7; };'
    stays = "trap 'echo told' TERM; trap '' INT; touch \"$0\"; while :; do sleep 0.01; done"
    process = spawn("run", "-n", 2, "--grace", "1h", "--", "sh", "-c", fails + stays, tmp_path / "up")
    process.out.wait_for("told")
    process.signal(signal.SIGINT)
    process.log.wait_for("once more kills at once")
    process.signal(signal.SIGINT)
    assert process.wait() == 7
    assert "first cause: #1 " in process.log.lines[-1]


def test_a_reader_that_is_held_up_does_not_hold_up_the_end(env):
    """No process reads what the run says on stderr, as with a pager at its first page. It ends
    all the same. [Descriptors and signals]"""
    script = "echo pid $$; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx >&2; done"
    reader, writer = os.pipe()
    run = subprocess.Popen([MUSTER, "run", "--no-label", "--", "sh", "-c", script], env=env,
                           stdout=subprocess.PIPE, stderr=writer)
    pidfd = os.pidfd_open(int(run.stdout.readline().split()[1]))
    room = select.poll()
    room.register(writer, select.POLLOUT)
    while room.poll(0):
        pass
    os.close(writer)
    run.terminate()
    wait_gone(pidfd)
    with os.fdopen(reader, "rb") as stderr:
        lines = stderr.read().splitlines()
    assert run.wait(WAIT_S) == 128 + signal.SIGTERM
    assert lines[-1] == b"muster run: stopped by signal 15 (Terminated)"


def test_ctrl_c_at_a_terminal(env):
    """Ctrl-C is typed at the terminal. All end, the exit code is 130, and a line says so.
    [Signals and the end]"""
    pid, terminal = pty.fork()
    if pid == 0:
        script = "echo pid $$; while :; do sleep 0.01; done"
        os.execve(MUSTER, ["muster", "run", "-n", "2", "--", "sh", "-c", script], env)
    text = b""
    while len(pids := [int(word) for word in re.findall(rb"pid (\d+)\r", text)]) < 2:
        text += os.read(terminal, 4096)  # a line may come in pieces
    pidfds = [os.pidfd_open(one) for one in pids]
    os.write(terminal, b"\x03")
    try:
        while chunk := os.read(terminal, 4096):
            text += chunk
    except OSError:
        pass  # the terminal's other side is closed
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130, text
    os.close(terminal)
    wait_gone(*pidfds)
    assert b"stopped by signal 2 (Interrupt)" in text


def test_ranks_and_service_die_with_the_launcher(run):
    """The launcher itself is killed. Its ranks and its service die with it. [Signals and the end]"""
    job = run(2)
    ranks = job.entered()
    children = job.children()
    assert {rank["pid"] for rank in ranks.values()} < children.keys()
    assert job.service() in children
    pidfds = [os.pidfd_open(pid) for pid in children]
    job.run.kill()
    wait_gone(*pidfds)


def test_ranks_behind_a_shell_die_with_the_launcher(run):
    """`muster run` itself is SIGKILLed while its ranks run behind a shell. The ranks die with it.
    [Descriptors and signals]"""
    job = run(2, rank=("sh", "-c", '"$0"; exit $?', RANK))
    pids = {rank["pid"] for rank in job.entered().values()}
    assert not pids & job.children().keys()
    pidfds = [os.pidfd_open(pid) for pid in pids]
    job.run.kill()
    wait_gone(*pidfds)


def test_what_a_rank_left_running_ends_with_it(spawn):
    """A rank leaves processes running. They end with it. [Signals and the end]"""
    process = spawn("run", "--", "sh", "-c", "(while :; do sleep 1; done) & echo pid $!; read none")
    (pid,) = pids_said(process, 1)
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    assert process.wait() == 1
    wait_gone(pidfd)


def test_the_socket_is_the_users_alone_and_goes_with_the_run(run, env):
    """The job's socket lies in the runtime directory with mode 0700, and goes with the run."""
    job = run(1, "--lease", "20s")
    ranks = job.entered()
    path = f"{env['MUSTER_RUNTIME_DIR']}/{job.job}.sock"
    assert stat.S_ISSOCK(os.stat(path).st_mode)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    job.all_well(ranks)
    assert not os.path.exists(path)


def test_a_job_of_that_name_is_not_started_twice(run, muster):
    """A job of that name runs already. The second one is refused with 125."""
    job = run(1)
    ranks = job.entered()
    done = muster("run", "-j", job.job, "--", "true")
    assert done.returncode == 125
    assert job.job in done.stderr
    job.all_well(ranks)


# ---- ranks that are members ----


def test_a_killed_rank_is_started_again_and_the_others_stay(run):
    """A rank is killed. It is started again, with a line that says why; the others keep their
    processes and their ranks. [Deaths and respawn]"""
    job = run(3)
    before = job.entered()
    os.kill(before[1]["pid"], signal.SIGKILL)
    after = job.entered(2)
    assert {index for index in after if after[index]["pid"] != before[index]["pid"]} == {1}
    assert [after[index]["rank"] for index in range(3)] == [0, 1, 2]
    job.log.wait_for("#1", "was killed by signal 9 (Killed); starting it again (1 of 3)")
    job.all_well(after)
    assert "first cause" not in job.last_line()


def test_a_new_process_gets_another_port_and_is_told_of_restarts(run):
    """A rank is started again. It gets another MASTER_PORT and the number of restarts."""
    show = "echo port $MUSTER_INDEX $MASTER_PORT $TORCHELASTIC_RESTART_COUNT; exec \"$0\""
    job = run(2, rank=("sh", "-c", show, RANK))
    before = job.entered()
    os.kill(before[0]["pid"], signal.SIGKILL)
    after = job.entered(2)
    old, new = [line.split()[2:] for line in job.out.having("port 0 ")]
    assert old[0] == "0" and new[2] == "1" and old[1] != new[1]
    job.all_well(after)


def test_the_first_cause_is_told_in_full(run):
    """A rank dies and the restarts are used up. The last line says rank, index, process, node,
    signal, time, generation and its last line on stderr. [The first cause]"""
    job = run(3, "--max-restarts", 0)
    pids = job.entered()
    job.order(1, 1, "crash segv")
    assert job.run.wait() == 128 + signal.SIGSEGV
    assert re.fullmatch(
        rf"muster run: first cause: rank 1 \(#1, pid {pids[1]['pid']}\) on {socket.gethostname()} "
        r"was killed by signal 11 \(Segmentation fault\) at "
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}, in generation 1; "
        r'its last line on stderr: "order: crash segv"',
        job.last_line(),
    )
    assert job.log.having("(#1, pid ", "killed by signal 11 (Segmentation fault); it is not started "
                          "again: 0 of 0 restarts are used")


def test_a_failure_that_was_got_over_is_not_the_cause(run):
    """The job survived one failure and ends by another one. Only the later one is the cause.
    [The first cause]"""
    job = run(2, "--max-restarts", 1)
    os.kill(job.entered()[0]["pid"], signal.SIGKILL)
    generation = job.entered(2)[1]["generation"]
    job.order(1, generation, "exit 5")
    assert job.run.wait() == 5
    assert "first cause: rank 1 (#1, " in job.last_line()
    assert "ended with status 5" in job.last_line() and f"in generation {generation}" in job.last_line()


def test_the_run_goes_on_without_a_rank_if_enough_are_left(run):
    """A rank's restarts are used up and enough ranks are left. The run goes on without it.
    [Deaths and respawn]"""
    job = run(3, "--max-restarts", 0, "--min-size", 2)
    os.kill(job.entered()[0]["pid"], signal.SIGKILL)
    job.log.wait_for("going on without #0: 2 are left, 2 are enough")
    after = job.entered(2, size=2)
    assert {index: after[index]["rank"] for index in after} == {1: 0, 2: 1}
    job.all_well(after)


def test_a_stopped_rank_is_given_up_killed_and_replaced(run):
    """A rank hangs without dying: it was stopped. Its lease ends, it is killed, and a new process
    takes its place. [Deaths and respawn]"""
    job = run(2, "--lease", "5s")
    before = job.entered()
    os.kill(before[1]["pid"], signal.SIGSTOP)
    after = job.entered(2)
    assert after[0]["pid"] == before[0]["pid"] and after[1]["pid"] != before[1]["pid"]
    job.log.wait_for("(#1, pid ", "was silent for longer than the lease and was killed; starting")
    job.all_well(after)


def test_who_dies_before_it_gets_in_is_held_back(run, tmp_path):
    """A rank dies before it joins. It is started again after a pause that grows.
    [Deaths and respawn]"""
    flag = tmp_path / "crash"
    script = '[ -e "$1" ] && [ "$MUSTER_INDEX" = 1 ] && exit 4; exec "$0"'
    job = run(2, "--max-restarts", 9, rank=("sh", "-c", script, RANK, flag))
    before = job.entered()
    flag.touch()
    os.kill(before[1]["pid"], signal.SIGKILL)
    job.log.wait_for("#1 (pid ", "ended with status 4; starting it again in 1 s (2 of 9), as it ended "
                     "1 time in a row before it joined the others")
    job.log.wait_for("#1 (pid ", "in 2 s (3 of 9), as it ended 2 times in a row before")
    flag.unlink()
    job.log.wait_for("starting it again", count=2)
    after = job.entered(2)
    assert after[0]["pid"] == before[0]["pid"]
    job.all_well(after)


def test_a_joiner_that_waits_when_the_others_are_done_is_stopped(run):
    """The others are done while a newcomer still waits. It is stopped, and the run ends well.
    [Deaths and respawn]"""
    job = run(2, "--grow", "off")
    os.kill(job.entered()[1]["pid"], signal.SIGKILL)
    job.entered(2, size=1)
    job.order(0, 2, "ok")
    assert job.run.wait() == 0


def test_a_replacement_that_dies_when_the_others_are_done_is_no_failure(run, tmp_path):
    """A replacement dies when the others are done, before it joined. The run ends well: the work
    was done without it. [Deaths and respawn]"""
    left = tmp_path / "left"
    script = ('[ -e "$1" ] && [ "$MUSTER_INDEX" = 1 ] && '
              '{ tail -s 0.05 --pid="$(cat "$1")" -f /dev/null; exit 4; }; exec "$0"')
    job = run(2, "--max-restarts", 9, rank=("sh", "-c", script, RANK, left))
    before = job.entered()
    left.write_text(str(before[0]["pid"]))
    os.kill(before[1]["pid"], signal.SIGKILL)
    job.entered(2, size=1)
    job.order(0, 2, "ok")
    assert job.run.wait() == 0, "\n".join(job.log.lines)
    assert not job.log.having("first cause")


def test_the_death_of_the_service_costs_nobody(run, muster, env):
    """The service of the job is killed. It is started again at once under the same address and
    goes on from its journal; no rank notices. The journal is gone with the run.
    [The first cause]"""
    job = run(2)
    before = job.entered()
    said = muster("key", "put", "k", "v", "-j", job.job)
    assert said.returncode == 0, said.stderr
    service = job.service()
    os.kill(service, signal.SIGKILL)
    line = job.log.wait_for("the service of the job was killed by signal 9 (Killed)")
    assert line.endswith("it is started again and goes on from its journal")
    assert muster("key", "get", "k", "-j", job.job, "--addr",
                  f"unix:{env['MUSTER_RUNTIME_DIR']}/{job.job}.sock").stdout == "v\n"
    assert job.service() != service
    job.all_well(before)
    assert job.generations().keys() == {1}
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


def test_a_service_that_cannot_be_started_again_ends_the_run(run, env):
    """The service of the job cannot be started again, or cannot bring its state back. The run
    ends with 125, and the service is named as the cause. [Descriptors and signals]"""
    job = run(1, "--lease", "10m")
    job.entered()
    service = job.service()
    shutil.rmtree(env["MUSTER_RUNTIME_DIR"])
    os.kill(service, signal.SIGKILL)
    assert job.run.wait() == 125
    assert job.log.having("muster serve: cannot keep a journal in")
    assert f"first cause: the service of job '{job.job}'" in job.last_line()
    assert "ended with status 1" in job.last_line()


def test_status_says_how_a_rank_died(run, muster):
    """A rank was killed. `muster status` says the signal, also when its replacement has taken the
    place: the service learns how it died before the replacement is started.
    [Descriptors and signals]"""
    job = run(2)
    os.kill(job.entered()[1]["pid"], signal.SIGKILL)
    after = job.entered(2)
    done = muster("status", "--json", "-j", job.job)
    assert done.returncode == 0, done.stderr
    (lost,) = [m for m in json.loads(done.stdout)["members"] if m["index"] == 1]
    assert (lost["cause"], lost["code"], lost["losses"]) == ("signal", 9, 1)
    job.all_well(after)


def test_status_says_that_a_rank_is_stopped(run, muster):
    """A signal stops a rank. `muster status` says so in its first line, and for how long, while its
    lease runs; it continues, and nothing is said any more. [program / muster status]"""
    job = run(3, "--lease", "60s")
    ranks = job.entered()
    one = ranks[1]["pid"]

    def verdict():
        return muster("status", "-j", job.job).stdout.splitlines()[0]

    os.kill(one, signal.SIGSTOP)
    until(lambda: re.fullmatch(
        rf"job {job.job}: rank 1 \(#1\) on \S+ is stopped by a signal for \d+\.\d s", verdict()), verdict)
    told = json.loads(muster("status", "--json", "-j", job.job).stdout)
    assert [(rank["index"], rank["pid"]) for rank in told["stopped"]] == [(1, one)]
    assert (told["verdict"]["kind"], told["verdict"]["index"]) == ("stopped", 1)
    os.kill(one, signal.SIGCONT)
    until(lambda: "stopped" not in verdict(), verdict)
    job.all_well(ranks)


def test_status_says_why_it_restarted_when_the_replacement_is_there(run, muster, tmp_path):
    """A killed rank was replaced, and the others took the new process in by a growth a moment
    later. `muster status` still says why the job restarted: a growth has no reason of its own.
    [generations / Faults of a generation]"""
    page, held = tmp_path / "http.sock", tmp_path / "held"
    script = 'while [ -e "$0" ]; do sleep 0.01; done; exec "$1"'
    job = run(3, "--http", f"unix:{page}", rank=("sh", "-c", script, held, RANK))
    before = job.entered()
    held.touch()  # the replacement is not among the others before they go on
    os.kill(before[1]["pid"], signal.SIGKILL)
    job.entered(2, 2)
    held.unlink()
    after = job.entered(3)
    assert len(after) == 3 and {rank["generation"] for rank in after.values()} == {3}
    done = muster("status", "-j", job.job)
    assert re.search(r"^generation 1 ended after rank 1 \(#1, node .+\) was "
                     "killed by signal 9", done.stdout, re.M), done.stdout
    done = muster("status", "--json", "-j", job.job)
    with socket.socket(socket.AF_UNIX) as browser:
        browser.connect(str(page))
        browser.sendall(b"GET /status.json HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = b"".join(iter(lambda: browser.recv(65536), b"")).partition(b"\r\n\r\n")[2]
    for text in (done.stdout, answer):
        (fault,) = json.loads(text)["faults"]
        assert (fault["index"], fault["cause"], fault["code"], fault["generation"]) == (
            1, "signal", 9, 1)
    job.all_well(after)


def test_chaos_kills_a_rank(run, muster):
    """`chaos kill 1`: the process of #1 gets SIGKILL, or the signal of `--signal`, one line says
    which it was, and the job survives. [program / muster chaos]"""
    job = run(2)
    before = job.entered()
    done = muster("chaos", "kill", 1, "-j", job.job)
    assert done.returncode == 0
    assert done.stdout == (
        f"signal 9 (Killed) sent to #1 (rank 1, pid {before[1]['pid']}) of job '{job.job}'\n"
    )
    after = job.entered(2)
    assert after[1]["pid"] != before[1]["pid"]
    done = muster("chaos", "kill", 7, "-j", job.job)
    assert done.returncode == 1 and "no living #7" in done.stderr
    assert muster("chaos", "kill", "x", "-j", job.job).returncode == 2
    assert muster("chaos", "hug", 1, "-j", job.job).returncode == 2
    job.all_well(after)


def test_the_environment_says_what_flags_say(muster, env):
    """The environment has `MUSTER_<FLAG>`, or `PET_NNODES`, `PET_NPROC_PER_NODE`,
    `PET_MAX_RESTARTS` as trainers on Kubernetes set them for torchrun. They count as the flag,
    unless that is typed; a worker of torchrun does not read the latter."""
    ranks = lambda *flags, **said: muster(
        "run", "--no-label", *flags, "--", "sh", "-c", "echo $WORLD_SIZE",
        env={**env, "OMP_NUM_THREADS": "1", **said}).stdout.split()
    assert ranks(MUSTER_NPROC="3") == ["3"] * 3
    assert ranks(MUSTER_NPROC_PER_NODE="2", PET_NPROC_PER_NODE="3") == ["2"] * 2
    assert ranks(PET_NPROC_PER_NODE="2", PET_NNODES="1", PET_MAX_RESTARTS="0") == ["2"] * 2
    # What was typed goes before, under whichever name, and whatever the environment says.
    assert ranks("-n", "1", PET_NPROC_PER_NODE="auto", MUSTER_HTTP="junk") == []
    assert ranks("-n", "1", "--http=", PET_NPROC_PER_NODE="auto", MUSTER_HTTP="junk") == ["1"]
    assert ranks("--nproc_per_node=2", MUSTER_NPROC="3") == ["2"] * 2
    # In a worker of torchrun they speak of that run.
    assert ranks(PET_NPROC_PER_NODE="3", TORCHELASTIC_RUN_ID="x") == ["1"]


def test_a_rank_that_dies_while_the_service_hangs_is_started_again(run):
    """A rank dies while the service hangs for longer than the ranks wait. It is started again all
    the same, and the replacement waits for the service. [Deaths and respawn]"""
    started = run(2, "--lease", "2s")
    ranks = started.entered()
    service = started.service()
    os.kill(service, signal.SIGSTOP)
    select.poll().poll(HANG_S * 1000)
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    started.log.wait_for("#1", "starting it again (1 of 3)")
    os.kill(service, signal.SIGCONT)
    started.all_well(started.entered(generation=2))


def test_the_lines_of_a_run_are_objects(muster, tmp_path):
    """With `--log-format json` the lines of `muster run` and those of its service on stderr are objects. The output
    of the ranks is unchanged. [Output as it comes]"""
    fifo = tmp_path / "fifo"  # rank 1 fails when rank 0 has written its lines
    os.mkfifo(fifo)
    script = f"echo out; echo err >&2; test $RANK = 0 && exec true 3>{fifo}; read x <{fifo}; exit 1"
    done = muster("run", "--log-format", "json", "-n", "2", "--", "sh", "-c", script)
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == ["[0]: out", "[1]: out"]
    lines = done.stderr.splitlines()
    assert sorted(line for line in lines if not line.startswith("{")) == ["[0]: err", "[1]: err"]
    said = [json.loads(line) for line in lines if line.startswith("{")]
    assert all((line["level"], line["area"]) == ("info", "run") for line in said)
    assert any(line["text"].startswith("first cause: #1 ") for line in said)
    # Its service logs nothing but trouble: its command line shows in which form.
    siblings = "for one in $(cat /proc/$PPID/task/*/children); do tr '\\0' ' ' </proc/$one/cmdline; echo; done"
    done = muster("run", "--log-format", "json", "-n", "1", "--", "sh", "-c", siblings)
    (service,) = [line for line in done.stdout.splitlines() if "muster serve " in line]
    assert " --log-format=json " in service
    done = muster("run", "--log-format", "json", "-n", "1", "--http", "nowhere", "--", "true")
    assert done.returncode != 0
    (line,) = [json.loads(line) for line in done.stderr.splitlines() if '"level":"error"' in line]
    assert list(line) == ["time", "level", "area", "text"]
