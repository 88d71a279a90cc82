# SPDX-License-Identifier: Apache-2.0
"""A disk that is full or fails, as clients, ranks and whoever runs the service see it.

behaviour: service / Its journal
"""

import os
import pathlib
import signal
import subprocess

import pytest

from conftest import BUILD, Process, Service, sanitized
from running import Run, status_at, until
from test_http import Http
from test_journal import ENOSPACE, end_of, files, fill, journal, refused, small_disk  # noqa: F401
from wire import Closed, Wire, field

LEASE_S = 5
FULL = "No space left on device; make room there"
PUT_LINES = BUILD / "tests/process/put_lines"
SHIM = BUILD / "tests/process/libfail_disk.so"
SNAPSHOT_BYTES = 64 << 20  # of inputs, and one is due
MIB = 1 << 20

preloaded = pytest.mark.skipif(sanitized(), reason="a sanitizer wants to be loaded first")


def fill_up(path):
    """Takes what is left of the disk."""
    with open(path, "wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(b"f" * 4096)


def make_room(disk):
    subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)


class Client(Process):
    """One that writes what it is told to, and tells what became of it."""

    def __init__(self, env, **options):
        super().__init__([PUT_LINES], env, stdin=subprocess.PIPE, **options)
        self.out.wait_for("open")
        self.asked = 0

    def put(self, key, size=50_000):
        self.process.stdin.write(f"{key} {size}\n")
        self.process.stdin.flush()
        self.asked += 1
        return self.out.wait_for(" ", count=self.asked)

    def fill(self):
        """The key that was refused first, and how."""
        for number in range(400):
            said = self.put(f"k{number}")
            if said != f"k{number} kept":
                return f"k{number}", said
        raise AssertionError("the disk is never full")


# ---- full ----


def test_a_client_on_a_full_disk(serve, env, started, small_disk):  # noqa: F811
    """The disk is full under a program's write. The error of its call names the file and says
    what to do; its session is renewed; `/readyz` says it too; the same write succeeds once
    there is room."""
    service = serve("--journal", small_disk / "journal", "--lease", f"{LEASE_S}s", "--http",
                    "127.0.0.1:0")
    http = Http(service)
    client = Client({**env, "MUSTER_ADDR": service.address})
    started.append(client)
    key, said = client.fill()
    why = (f"the journal's disk is full: {small_disk}/journal/0000000001.journal: {FULL}")
    assert said == f"{key} put '{key}': the service cannot keep it: {why}"
    until(lambda: http.get("/readyz")[0] == 503)  # told at the end of the turn that refused
    assert http.get("/readyz")[0::2] == (503, f"journal: {why}\n")
    assert http.get("/livez")[0] == 200
    renewals = http.metrics().value("muster_heartbeat_interval_seconds_count")
    # Longer than a lease: it would be lost if it did not renew, or time decided anything.
    http.until(lambda now: now.value("muster_heartbeat_interval_seconds_count") >= renewals + 7)
    assert client.put(key) == said
    http.until(lambda now: now.value("muster_kv_operations_total", op="put",
                                     result="no_space") == 2)
    make_room(small_disk)
    service.log.wait_for("journal-has-room-again")
    assert client.put(key) == f"{key} kept"
    assert http.get("/readyz")[0::2] == (200, "ok")
    service.kill()
    again = serve("--journal", small_disk / "journal")
    assert again.wire().get(key).value == b"v" * 50_000
    client.process.stdin.close()


def test_a_death_on_a_full_disk_is_told_when_there_is_room(spawn, muster, env,
                                                           small_disk):  # noqa: F811
    """A rank dies while the disk is full. Nothing is decided before it can be kept; its agent
    reports it again until it is, and no lease is waited for."""
    http = small_disk / "http.sock"
    env = {**env, "MUSTER_RUNTIME_DIR": str(small_disk)}
    job = Run(spawn, muster, 2, "--lease", "60s", "--max-restarts", 0, "--min-size", 1, "--http",
              f"unix:{http}", env=env)
    ranks = job.entered()

    def members():
        return {member["index"]: member for member in until(lambda: status_at(http))["members"]
                if member["role"] == "rank"}

    wire = Wire(f"unix:{small_disk}/{job.job}.sock")
    assert wire.open(job=job.job).status == 0
    assert fill(wire)[1].status == ENOSPACE
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    job.log.wait_for("going on without #1")
    assert members()[1]["state"] in ("present", "silent")  # nothing is decided that is not kept
    make_room(small_disk)
    job.log.wait_for("journal-has-room-again")
    lost = until(lambda: members()[1] if members()[1]["state"] == "lost" else None)
    assert (lost["cause"], lost["code"]) == ("signal", 9)
    alone = job.entered(2, size=1)
    assert muster("key", "put", f"order-0-{alone[0]['generation']}", "ok", "-j", job.job,
                  env=env).returncode == 0
    assert job.run.wait() == 0, "\n".join(job.log.lines)


def test_a_service_begins_on_a_full_disk(serve, env, small_disk):  # noqa: F811
    """The disk is full when a service begins. With a state it serves its members and waits for
    room; without one it is refused with the file's name, and leaves nothing."""
    where = f"unix:{env['MUSTER_RUNTIME_DIR']}/s.sock"
    flags = ["--journal", small_disk / "journal", "--addr", where]
    service = serve(*flags)
    wire = service.wire()
    assert wire.put("k", "v").status == 0
    service.kill()
    (path,) = files(small_disk / "journal", "journal")
    os.truncate(path, end_of(path.read_bytes()) + 7 & ~7)
    filler = small_disk / "filler"
    fill_up(filler)
    again = serve(*flags)
    assert f"0000000002.journal: {FULL}" in again.log.wait_for(" error ", "journal-full")
    back = Wire(where)
    assert back.open(token=wire.token).status == 0
    assert back.get("k").value == b"v"
    assert back.put("l", "w").status == ENOSPACE
    assert Wire(where).open().status == ENOSPACE
    filler.unlink()
    again.log.wait_for("journal-has-room-again")
    assert back.put("l", "w").status == 0
    again.kill()
    assert serve(*flags).wire().get("l").value == b"w"


def test_no_service_begins_without_room_for_a_state(env, small_disk):  # noqa: F811
    """The disk is full when a service begins. With a state it serves its members and waits for
    room; without one it is refused with the file's name, and leaves nothing."""
    fill_up(small_disk / "filler")
    line = refused(small_disk / "journal", env)
    assert f"{small_disk}/journal/0000000001.journal: No space left on device" in line
    assert os.listdir(small_disk / "journal") == ["lock"]


# ---- failing ----


@pytest.fixture
def failing(env, tmp_path):
    """(environment of a service, its disk fails as the text says that is written here)"""
    marker = tmp_path / "fail"
    return {**env, "LD_PRELOAD": str(SHIM), "FAIL_DISK": str(marker)}, marker


@preloaded
@pytest.mark.parametrize("what, flags", [("write", []), ("sync", ["--sync"])])
def test_a_failing_disk_ends_the_service(failing, started, journal, what, flags):  # noqa: F811
    """The disk fails otherwise than by being full. Nothing leaves any more, and the service stops
    with one line."""
    env, marker = failing
    service = Service(["--journal", journal, *flags], env)
    started.append(service)
    wire = service.wire()
    waiting = service.wire()
    waiting.post("get", field(2, "k") + field(3, 1))
    assert waiting.renew_behind().status == 0
    marker.write_text(what)
    with pytest.raises(Closed):
        wire.put("k", "v")
    with pytest.raises(Closed):
        waiting.receive()
    assert service.wait() == 1
    line = (f"the journal cannot be written: {journal}/0000000001.journal: Input/output error; "
            "the service stops, because it could not keep its promises")
    assert [said for said in service.log.lines if " error " in said][0].endswith(line)
    assert len(service.log.having(" error ")) == 1


@preloaded
def test_a_failing_disk_ends_the_run(failing, spawn, muster):
    """The disk of a run's journal fails. The service ends with one line that names the file, and
    the run ends with it. [run / Descriptors and signals]"""
    env, marker = failing
    job = Run(spawn, muster, 2, env=env)
    job.entered()
    marker.write_text("write")
    assert muster("key", "put", "k", "v", "-j", job.job, env=env).returncode != 0
    assert job.run.wait() == 125
    (line,) = job.log.having("the journal cannot be written: ")
    file = f"{env['MUSTER_RUNTIME_DIR']}/{job.job}.journal/0000000001.journal"
    assert f"the journal cannot be written: {file}: Input/output error; " in line
    assert f"first cause: the service of job '{job.job}'" in job.last_line()


# ---- snapshots ----


def child_of(pid):
    pids = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(pids[0]) if pids else None


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def write(wire, size):
    value = b"v" * (MIB - 100)
    for _ in range(size // MIB + 1):
        assert wire.put("large", value).status == 0
        assert wire.renew().status == 0  # on a slow machine that takes longer than a lease


@pytest.fixture
def hanging(failing, started, journal):  # noqa: F811
    """(service, connection, child that stands still before its snapshot has a name)"""
    env, marker = failing
    service = Service(["--journal", journal], env)
    started.append(service)
    wire = service.wire()
    marker.write_text("stop")
    write(wire, SNAPSHOT_BYTES)
    child = until(lambda: wire.renew() and child_of(service.pid))
    until(lambda: wire.renew() and state_of(child) == "T")
    marker.unlink()
    return service, wire, child


@preloaded
def test_a_snapshot_that_hangs_holds_nobody_up(hanging, journal):  # noqa: F811
    """The snapshot fails each time, or its child hangs or is killed. The service goes on
    meanwhile; one warning, and another try after a tenth of what makes one due."""
    service, wire, child = hanging
    write(wire, SNAPSHOT_BYTES // 10)
    assert not service.log.having("snapshot-failed")
    os.kill(child, signal.SIGKILL)
    service.log.wait_for(" warn ", "snapshot-failed", meanwhile=wire.renew)
    write(wire, SNAPSHOT_BYTES // 10)
    until(lambda: wire.renew() and [path.name for path in files(journal, "snapshot")] ==
          ["0000000003.snapshot"])
    until(lambda: wire.renew() and not list(journal.glob("*.tmp")))


def test_a_snapshot_that_fails_is_tried_again(serve, journal):  # noqa: F811
    """The snapshot fails each time, or its child hangs or is killed. The service goes on
    meanwhile; one warning, and another try after a tenth of what makes one due."""
    service = serve("--journal", journal)
    wire = service.wire()
    in_the_way = journal / "0000000002.snapshot.tmp"
    in_the_way.mkdir()
    write(wire, SNAPSHOT_BYTES)
    service.log.wait_for(" warn ", "snapshot-failed", meanwhile=wire.renew)
    write(wire, SNAPSHOT_BYTES // 10)
    until(lambda: wire.renew() and [path.name for path in files(journal, "snapshot")] ==
          ["0000000003.snapshot"])
    service.kill()
    again = serve("--journal", journal)
    assert "snapshot=3" in again.log.wait_for("journal-recovered")
    assert len(again.wire().get("large").value) == MIB - 100


@preloaded
def test_a_stop_does_not_wait_for_a_snapshot(hanging, journal):  # noqa: F811
    """SIGTERM stops the service while a snapshot is being written. It does not wait for the
    snapshot."""
    service, wire, _ = hanging
    wire.close()
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert [path.name for path in files(journal, "snapshot")] == ["0000000003.snapshot"]
