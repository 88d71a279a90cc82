# SPDX-License-Identifier: Apache-2.0
"""A service that may die: what it acknowledged is there when the next one has taken its place, and
nobody has to be started again. What damages or fills the disk under it is told in one line.

behaviour: service / Its journal
"""

import contextlib
import fcntl
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import termios
import time

import pytest

from conftest import BUILD, MUSTER, WAIT_S, Service, sanitized
from running import Run, status_at, trained, until, wait_gone
from test_demo import CHARLM, STEPS, checkpoint, digest, folder, result, train  # noqa: F401
from wire import Wire, field, frame

KILLS = int(os.environ.get("MUSTER_KILLS", "20"))  # of the service, in all; `make soak` does more
RECORDS = 200_000
ENOSPACE = -19
TMPFS = "size=6m,mode=700"
STARTS = 9  # without a snapshot
HEAD = 64  # bytes before the first frame of a file


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal"


def said(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(journal, ending):
    return sorted(journal.glob("*." + ending))


def refused(journal, env):
    """What a service says that cannot begin there."""
    done = subprocess.run([MUSTER, "serve", "--journal", journal, "--addr", "127.0.0.1:0"],
                          env=env, capture_output=True, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    assert "muster: serving" not in done.stdout
    return done.stderr.strip().splitlines()[-1]


# ---- the service is killed ----


class Ranks:
    """Those of a run, one of which can be kept from coming."""

    def __init__(self, job, http):
        self.http = http
        self.pids = {}
        for line in job.out.having("begun "):
            index, pid = re.search(r"index=(\d+) pid=(\d+)", line).groups()
            self.pids[int(index)] = int(pid)

    def waiting_for(self, index):
        """The round at which all others wait for this one, or None."""
        rounds = (status_at(self.http) or {"rounds": []})["rounds"]
        return next(({**one, "since_ms": None} for one in rounds if one["first_missing"] == index and
                     one["arrived"] == len(self.pids) - 1), None)

    def stop_one(self, dice, name):
        """Stops one of them so that all others wait for it at a round of this name."""
        while True:
            index = dice.choice(list(self.pids))
            os.kill(self.pids[index], signal.SIGSTOP)
            found = until(lambda: self.waiting_for(index))
            if found["name"] == name:
                return index, found
            os.kill(self.pids[index], signal.SIGCONT)


def started_again(run, count):
    """Whether its service was, so often; not when the run was at its end anyway."""
    with run.log.changed:
        run.log.changed.wait_for(
            lambda: run.log.ended or sum("it is started again" in line for line in run.log.lines)
            >= count, WAIT_S)
    return len(run.log.having("it is started again")) >= count


def test_the_service_dies_in_rounds_seals_and_writes(spawn, muster, env):
    """The service is SIGKILLed again and again while ranks write, meet and seal, at any moment
    and while a round or a seal is open. No rank is started again; an open round has what was
    contributed; what was acknowledged is there, once."""
    dice = random.Random(os.environ.get("MUSTER_SEED", 7))
    http = pathlib.Path(env["MUSTER_RUNTIME_DIR"]) / "http.sock"
    job = Run(spawn, muster, 3, "--max-restarts", "0", "--lease", "60s", "--http", f"unix:{http}",
              rank=(BUILD / "tests/process/ranks/journal",))
    job.out.wait_for("wrote", count=3)
    ranks = Ranks(job, http)
    for kill in range(1, KILLS // 2 + 1):
        where = (None, "count", None, "muster/seal")[kill % 4]
        if where:
            index, before = ranks.stop_one(dice, where)
        os.kill(job.service(), signal.SIGKILL)
        assert started_again(job.run, kill)
        if where:
            assert until(lambda: ranks.waiting_for(index)) == before
            os.kill(ranks.pids[index], signal.SIGCONT)
        job.out.wait_for("wrote", count=len(job.out.having("wrote")) + dice.randrange(1, 12))
    said(muster("key", "put", "stop", "1", "-j", job.job))
    assert job.run.wait() == 0, "\n".join(job.log.lines + job.out.having("wrong"))
    assert len(job.out.having("begun")) == 3
    assert len(job.out.having("verified")) == 3
    assert not job.log.having("member-lost")


def hear_more(run, count):
    """Waits for so many events more, or for the end."""
    with run.out.changed:
        wanted = len([line for line in run.out.lines if "#" in line]) + count
        run.out.changed.wait_for(
            lambda: run.out.ended or sum("#" in line for line in run.out.lines) >= wanted, WAIT_S)


def test_the_service_dies_under_the_demo_that_was_resumed(train, digest, checkpoint):  # noqa: F811
    """The service is killed in a training that was resumed. No rank notices, the checkpoint is
    loaded once, and the weights are the same. [examples / Training]"""
    run = train(checkpoint=checkpoint)
    run.out.wait_for(" running ")
    os.kill(service_of(run), signal.SIGKILL)
    assert started_again(run, 1)
    trained(run, STEPS)
    assert run.wait() == 0, "\n".join(run.log.lines)
    assert result(run)["digest"] == digest
    assert len(run.out.having(" started ")) == len(run.out.having(" loaded ")) == 4


def test_the_service_dies_under_the_demo(spawn, env, folder, digest):  # noqa: F811
    """The service is killed again and again under the training example. The weights are the same
    in every bit, and each rank is one process."""
    dice = random.Random(os.environ.get("MUSTER_SEED", 8))
    left = KILLS - KILLS // 2
    while left > 0:
        run = spawn("run", "-n", 4, "--max-restarts", "0", "--", CHARLM, "--steps", STEPS, folder,
                    env=env)
        run.out.wait_for(" started ")
        kills = 0
        while left > 0 and run.process.poll() is None and kills < 4:
            hear_more(run, dice.randrange(0, 3))
            pid = service_of(run)
            if pid:
                with contextlib.suppress(ProcessLookupError):  # the run is at its end
                    os.kill(pid, signal.SIGKILL)
                if started_again(run, kills + 1):
                    kills += 1
                    left -= 1
        trained(run, STEPS)
        assert run.wait() == 0, "\n".join(run.log.lines)
        assert result(run)["digest"] == digest
        assert len(run.out.having(" started ")) == 4


def service_of(run):
    try:
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as children:
            pids = [int(pid) for pid in children.read().split()]
        for pid in pids:
            if b"\0serve\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
    except OSError:
        pass
    return None


def dead_for(job, pass_time, ms):
    """Who would start it again stands still for so long."""
    service = job.service()
    job.run.signal(signal.SIGSTOP)
    os.kill(service, signal.SIGKILL)
    pass_time(ms)
    job.run.signal(signal.SIGCONT)
    job.log.wait_for("it is started again")
    deadline = time.monotonic() + WAIT_S
    while job.muster("status", "-j", job.job).returncode != 0:  # it recovers before it listens
        assert time.monotonic() < deadline, "\n".join(job.log.lines)


def test_a_service_that_is_dead_for_less_than_the_lease_is_not_missed(spawn, muster, pass_time):
    """The service is dead for less than 0.8 leases, and comes back with its journal. No rank
    notices. [restart / Being called out]"""
    job = Run(spawn, muster, 2, "--lease", "30s")
    ranks = job.entered()
    dead_for(job, pass_time, 1500)
    job.all_well(ranks)
    assert set(job.generations()) == {1}
    assert not job.log.having("member-lost")


def test_a_service_that_is_dead_for_longer_costs_one_interruption_and_no_rank(
        spawn, muster, pass_time):
    """The service is dead for longer than 0.8 leases, and comes back with its journal. That costs
    one interruption and no rank. [restart / Being called out]"""
    job = Run(spawn, muster, 2, "--lease", "4s")
    before = job.entered()
    dead_for(job, pass_time, 10000)
    after = job.entered(2)
    assert {i: rank["pid"] for i, rank in after.items()} == {
        i: rank["pid"] for i, rank in before.items()
    }
    job.all_well(after)
    assert set(job.generations()) == {1, after[0]["generation"]}
    assert not job.log.having("member-lost")


# ---- how long it takes ----


def puts(count, first):
    """`count` requests that each write one of a thousand keys, as one piece of bytes."""
    out = bytearray()
    for number in range(first, first + count):
        body = field(2, field(1, 2) + field(3, f"key-{number % 1000}") + field(4, f"value-{number}"))
        out += frame(field(1, number) + field(2, number) + field(16 + 6, body))
    return bytes(out)


def test_a_snapshot_is_made_beside_the_service(serve, journal):
    """A service has written 200,000 records. A child writes a snapshot while the service goes on;
    the old files go, and the next service begins with it."""
    service = serve("--journal", journal, "--lease", "10m")  # this wire does not renew
    wire = service.wire()
    done = 0
    made = lambda: files(journal, "snapshot") and files(journal, "snapshot")[0].name >= "0000000002"
    while not made() and done < RECORDS + 1000:
        wire.send(puts(50, done + 1))
        for _ in range(50):
            wire.receive()
        done += 50
    assert done >= RECORDS - 1000
    until(made)  # the child takes its time
    service.kill()
    again = serve("--journal", journal)
    assert "snapshot=2" in again.log.wait_for("journal-recovered")
    assert again.wire().get("key-1").value.startswith(b"value-")


def test_a_quiet_service_that_is_killed_again_and_again(serve, journal):
    """A quiet service is killed again and again; each start leaves a file. After the ninth the
    next one makes a snapshot, and the files go. Thousands that were left before are recovered."""
    for _ in range(STARTS):
        serve("--journal", journal).kill()
    assert len(files(journal, "journal")) == STARTS
    serve("--journal", journal)
    until(lambda: len(files(journal, "journal")) == 1)
    assert len(files(journal, "snapshot")) == 1


# ---- beginning and ending ----


def test_a_clean_stop_leaves_a_snapshot(serve, journal):
    """SIGTERM stops a service. It leaves a snapshot and nothing to replay."""
    service = serve("--journal", journal)
    assert service.wire().put("k", "v").status == 0
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    again = serve("--journal", journal)
    assert "records=0 snapshot=2 cut=0" in again.log.wait_for("journal-recovered")
    assert again.wire().get("k").value == b"v"
    assert (journal.stat().st_mode & 0o777) == 0o700


def test_one_service_at_a_time(serve, env, journal):
    """A second service is started on the same folder. It is refused with the pid of the first."""
    service = serve("--journal", journal)
    assert refused(journal, env) == (f"muster serve: cannot keep a journal in {journal}: "
                                     f"process {service.pid} keeps its own there already")


def test_a_session_outlives_its_service(serve, env, journal):
    """A client comes back to the next service and repeats a write. It has its session and its
    place, and the write has one effect."""
    where = f"unix:{env['MUSTER_RUNTIME_DIR']}/s.sock"
    service = serve("--journal", journal, "--addr", where)
    wire = service.wire()
    append = field(2, field(1, 5) + field(3, "list") + field(4, "once,"))
    assert wire.ask("write", append).status == 0
    service.kill()
    again = serve("--journal", journal, "--addr", where)
    back = Wire(where)
    assert back.open(token=wire.token).status == 0
    assert back.ask("write", append).status == 0  # under the id that it had
    assert again.wire().get("list").value == b"once,"


def test_the_age_of_a_key_goes_on(serve, journal):
    """The service is killed and begins again. The age of a key goes on where it was, without the
    time in which the service was away; it is never shown smaller than before: a tick that
    decides nothing is not recorded, so an age must not have counted it.
    [keys / How old a key is]

    Also where a reader saw the age just before the service was killed; over a snapshot too."""
    service, told = serve("--journal", journal), -1
    assert service.wire().put("k", "v").status == 0
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        wire, older = service.wire(), told + 20
        while told < older:  # only time makes it older
            now = wire.get("k").number
            assert now >= told
            told = now
        service.signal(end)
        service.wait()
        service = serve("--journal", journal)
        assert service.wire().get("k").number >= told


def test_sync_without_a_journal_is_a_mistake(muster):
    """`--sync` is given without `--journal`. That is wrong usage, and said."""
    done = muster("serve", "--sync")
    assert done.returncode == 2
    assert "--sync needs a folder to write to: --journal DIR" in done.stderr


# ---- damage ----


def written(serve, journal, count=5):
    """The files of a service that was killed behind some writes."""
    service = serve("--journal", journal)
    wire = service.wire()
    for number in range(count):
        assert wire.put(f"k{number}", "v" * 50).status == 0
    service.kill()
    (path,) = files(journal, "journal")
    return path


def end_of(data):
    return len(data.rstrip(b"\0"))


def test_a_torn_tail_is_cut(serve, journal):
    """The last frame of a journal is torn. It is cut, with one warning; everything before it is
    there."""
    path = written(serve, journal)
    data = path.read_bytes()
    path.write_bytes(data[: end_of(data) - 20])
    again = serve("--journal", journal)
    line = again.log.wait_for("journal-tail-cut")
    assert re.search(r"warn journal .*0000000001.journal ends in \d+ bytes that are no whole record, "
                     r"from offset \d+ on", line)
    assert len(again.log.having(" warn ")) == 1
    wire = again.wire()
    assert wire.get("k3").value == b"v" * 50
    assert wire.get("k4").status != 0


def test_a_corrupt_middle_is_refused(serve, env, journal):
    """A byte in the middle of a journal is damaged. The service does not start, and says which
    file and where."""
    path = written(serve, journal)
    data = bytearray(path.read_bytes())
    at = HEAD
    for _ in range(3):  # behind three frames
        at += (16 + struct.unpack_from("<I", data, at)[0] + 7) // 8 * 8
    data[at + 30] ^= 1
    path.write_bytes(data)
    line = refused(journal, env)
    assert f"0000000001.journal is damaged at offset {at}, and what follows it was already" in line
    assert str(journal) in line


def test_a_run_whose_service_cannot_begin_again_ends(spawn, muster, env):
    """The service of the job cannot be started again, or cannot bring its state back. The run
    ends with 125, and the service is named as the cause. [run / Descriptors and signals]"""
    job = Run(spawn, muster, 2)
    job.entered()
    journal = pathlib.Path(env["MUSTER_RUNTIME_DIR"]) / f"{job.job}.journal"
    (path,) = files(journal, "journal")
    service = job.service()
    os.kill(service, signal.SIGSTOP)
    with open(path, "r+b") as file:
        file.seek(HEAD + 60)
        file.write(b"\xff" * 8)
    os.kill(service, signal.SIGKILL)
    assert job.run.wait() == 125
    assert job.log.having("0000000001.journal is damaged at offset")
    assert f"first cause: the service of job '{job.job}'" in job.last_line()
    assert not journal.exists()


def test_a_killed_run_leaves_nothing(spawn, muster, env):
    """`muster run` is SIGKILLed. Its service removes the job's journal, its socket and a secret
    made for the run. If the service was killed too, the next run of the job does.
    [run / Descriptors and signals]"""
    job = Run(spawn, muster, 2)
    job.entered()
    service = job.service()
    gone = os.pidfd_open(service)
    job.run.process.kill()
    wait_gone(gone)
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []
    job = Run(spawn, muster, 2)
    job.entered()
    service = job.service()
    gone = os.pidfd_open(service)
    os.kill(service, signal.SIGSTOP)
    job.run.process.kill()
    os.kill(service, signal.SIGKILL)
    wait_gone(gone)
    assert f"{job.job}.journal" in os.listdir(env["MUSTER_RUNTIME_DIR"])
    again = Run(spawn, muster, 2)
    again.all_well(again.entered())
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


@pytest.mark.parametrize("before", [False, True])
def test_a_run_that_is_killed_at_its_end_leaves_nothing(spawn, muster, env, before):
    """A run has ended and told its service so, and is SIGKILLed before or after that has ended. Its
    service removes the job's journal and its socket. [run / Descriptors and signals]"""
    script = "trap 'exit 0' USR1; echo waits; while :; do sleep 0.01; done"
    job = Run(spawn, muster, 1, rank=("sh", "-c", script))
    job.out.wait_for("waits")
    service = job.service()
    gone = os.pidfd_open(service)
    os.kill(service, signal.SIGSTOP)
    with open(f"/proc/{service}/fd/0", "rb", buffering=0) as words:
        job.run.signal(signal.SIGUSR1)
        until(lambda: fcntl.ioctl(words, termios.FIONREAD, bytes(4)) != bytes(4))
        job.run.signal(signal.SIGKILL if before else signal.SIGSTOP)
        if before:
            job.run.wait()
    os.kill(service, signal.SIGCONT)
    wait_gone(gone)
    job.run.signal(signal.SIGKILL)
    job.run.wait()
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


@contextlib.contextmanager
def owner_of(journal):
    """This process is the owner of the journal."""
    with open(journal / "owner", "w", encoding="ascii") as owner:
        os.fchmod(owner.fileno(), 0o600)
        fcntl.lockf(owner, fcntl.LOCK_EX)
        yield


def test_a_service_that_is_asked_to_stop_keeps_a_journal_that_another_owns(serve, journal):
    """A service's parent asks it to stop, or ends. With `--end-removes journal` the service removes
    its journal, unless another process owns that: its parent, which goes on with it.
    [run / Descriptors and signals]"""
    end = ("--journal", journal, "--parent", "--end-removes", "journal")
    service = serve(*end, stdin=subprocess.PIPE)
    assert service.wire().put("k", "v").status == 0
    with owner_of(journal):
        service.process.stdin.write("\n")
        service.process.stdin.flush()
        assert service.wait() == 0
    assert files(journal, "snapshot")
    for word in ("", "\n"):
        service = serve(*end, stdin=subprocess.PIPE)
        service.process.stdin.write(word)
        service.process.stdin.close()
        assert service.wait() == 0
        assert not journal.exists()


@pytest.mark.parametrize("owned", [False, True])
def test_the_service_of_a_killed_run_removes_the_secret_unless_another_run_has_it(serve, journal, tmp_path, owned):
    """Another run of the job begins while the service of a killed run cleans up. It uses a secret
    that it finds only once the job is its own, by the lock of the journal's owner; then no
    other process removes it. [run / Descriptors and signals]"""
    secret = tmp_path / "secret"
    secret.write_bytes(os.urandom(32))
    secret.chmod(0o600)
    service = serve("--journal", journal, "--parent", "--end-removes", "secret", "--secret-file", secret,
                    stdin=subprocess.PIPE)
    with contextlib.ExitStack() as stack:
        if owned:
            stack.enter_context(owner_of(journal))
        service.process.stdin.close()
        assert service.wait() == 0
        assert (secret.exists(), journal.exists()) == (owned, owned)


def test_a_signal_to_all_processes_of_a_job_leaves_its_service(spawn, muster):
    """A scheduler, or a user, sends SIGTERM, SIGUSR1 or SIGUSR2 to the run's service, or to all
    processes. It is for the run to decide: its service goes on.
    [run / Descriptors and signals]"""
    job = Run(spawn, muster, 2)
    ranks = job.entered()
    service = job.service()
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(service, number)
    job.all_well(ranks)  # who asks the service to take what the ranks are told
    assert not job.log.having("service")


# ---- a full disk ----


@pytest.fixture
def small_disk(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    path = tmp_path / "small"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", TMPFS, "none", path], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no small disk: {done.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def fill(wire, count=400):
    """Writes until it is refused: that reply."""
    for number in range(count):
        reply = wire.put(f"k{number}", "v" * 50_000)
        if reply.status != 0:
            return number, reply
    return count, reply


def test_a_full_disk_refuses_and_recovers(serve, small_disk):
    """The disk is full. Writes are refused with the name of the disk, renewals and reads go on;
    when there is room again all goes on, also over a crash."""
    service = serve("--journal", small_disk / "journal")
    wire = service.wire()
    kept, reply = fill(wire)
    assert reply.status == ENOSPACE
    assert f"{small_disk}/journal/0000000001.journal: No space left on device".encode() in reply.value
    assert str(small_disk) in service.log.wait_for("journal-full")
    assert wire.renew().status == 0
    assert wire.get("k0").status == 0
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    service.log.wait_for("journal-has-room-again")
    assert wire.put("after", "v").status == 0
    service.kill()
    again = serve("--journal", small_disk / "journal").wire()
    assert again.get("after").value == b"v"
    assert again.get(f"k{kept - 1}").status == 0
    assert again.get(f"k{kept}").status != 0


def test_a_full_disk_may_be_passed_over(serve, small_disk):
    """The disk is full, with `--journal-full=continue`. One error line; all goes on without a
    journal, and the next service does not believe what is in it."""
    service = serve("--journal", small_disk / "journal", "--journal-full", "continue")
    wire = service.wire()
    kept, reply = fill(wire)
    assert (kept, reply.status) == (400, 0)
    assert "--journal-full=continue" in service.log.wait_for(" error ", "journal-ended")
    assert len(service.log.having(" error ")) == 1
    service.kill()
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    again = serve("--journal", small_disk / "journal")
    assert "the state is lost" in again.log.wait_for("journal-had-ended")
    assert again.wire().get("k0").status != 0


# ---- --sync ----


def counted(env, started, *flags):
    """A service, and the end of a pipe that tells what it syncs and sends."""
    ours, theirs = os.pipe()
    service = Service(flags, {**env, "LD_PRELOAD": str(BUILD / "tests/process/libcount_syncs.so"),
                              "COUNT_SYNCS_FD": str(theirs)}, pass_fds=[theirs])
    os.close(theirs)
    started.append(service)
    return service, ours


@pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be loaded first")
@pytest.mark.parametrize("there", [False, True])
def test_sync_keeps_the_name_of_the_folder(env, journal, started, there):
    """The journal's folder is new, with `--sync`, or was made just before the host died. Its name
    in the parent folder is durable too."""
    if there:
        journal.mkdir(mode=0o700)
    _, told = counted(env, started, "--journal", journal, "--sync")
    begun = os.read(told, 1 << 16).decode()
    assert f"[{journal.parent}]" in begun and f"[{journal}]" in begun


@pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be loaded first")
def test_sync_is_before_the_reply(env, journal, started):
    """With `--sync` the disk has kept a write before it is answered; a client that only reads or
    renews waits for no disk."""
    service, ours = counted(env, started, "--journal", journal, "--sync")
    wire = service.wire()
    os.read(ours, 1 << 16)
    for _ in range(3):
        assert wire.put("k", "v").status == 0
        assert os.read(ours, 16) == b"sr"
    assert wire.get("k").status == 0
    assert wire.renew().status == 0
    assert os.read(ours, 16) == b"rr"  # what promises nothing waits for no disk
