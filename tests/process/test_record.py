# SPDX-License-Identifier: Apache-2.0
"""What a service is fed, recorded and replayed: the same story. And a disk that is full, fails or is
too slow costs the record, and the job nothing.

behaviour: record / A disk that does not play along
"""

import datetime
import json
import os
import re
import signal
import struct
import threading
import time

import pytest

from conftest import ROOT, WAIT_S, Process, Service
from running import RANK, Run, until
from test_disk import failing, fill_up, preloaded  # noqa: F401
from test_journal import fill, small_disk  # noqa: F401

RECORDS = sorted(path for path in (ROOT / "tests/records").iterdir() if path.is_dir())
SLACK_S = 20  # between what the log calls now and what the record does, on a loaded machine
MIB = 1 << 20
BEGIN_BYTES = 1024  # that a record has before the first input: the limits, by their names
RENEWALS = 1000
MOMENT_S = 1  # of a disk that takes nothing: less than a record gives it
WAITING_MIB = 64  # that a record lets wait for its disk
STAYS = ("--lease", "10m")  # a wire that writes much to a busy disk does not renew meanwhile
ENDED = "the service goes on without; what was recorded so far can be replayed"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "record"


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def core_lines(lines):
    """What the core told: (time, the rest of the line)."""
    split = [line.split(" ", 1) for line in lines]
    return [(datetime.datetime.fromisoformat(time.rstrip("Z")), rest) for time, rest in split
            if re.match(r"\w+ core ", rest)]


def replay(muster, folder, *flags, code=0):
    """(lines but the last, the last line)"""
    done = muster("replay", folder, *flags)
    assert done.returncode == code, done.stderr + done.stdout
    lines = done.stdout.splitlines()
    return lines[:-1], lines[-1]


def same_story(told, logged):
    """Line by line, and at the same times."""
    told, logged = core_lines(told), core_lines(logged)
    assert [rest for _, rest in told] == [rest for _, rest in logged]
    for (told_at, _), (logged_at, _) in zip(told, logged):
        assert abs((told_at - logged_at).total_seconds()) < SLACK_S


def verdict(last):
    """(inputs, services, digest, what is said of it)"""
    found = re.fullmatch(r"replayed (\d+) inputs? of (\d+) services? over \d+\.\d{3} s: "
                         r"digest ([0-9a-f]{16}), (.*)", last)
    assert found, last
    return int(found[1]), int(found[2]), found[3], found[4]


def stop(service):
    """In order: its log is whole then. (inputs, digest) as it says."""
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    line = service.log.wait_for(" info record record-stopped ")
    found = re.search(r"inputs=(\d+) digest=([0-9a-f]{16})$", line)
    return int(found[1]), found[2]


# ---- the same story ----


@pytest.mark.parametrize("flags", [[], ["--journal"]])
def test_the_replay_is_the_log(serve, env, started, muster, folder, tmp_path, flags):
    """A job is recorded, one of whose ranks is killed and replaced. The replay prints every line
    that the core wrote to the service's log, of every level, with the same times, and comes to
    the digest that the service named in its log at its end; with a journal beside it and
    without. [The same story]"""
    flags = flags + [tmp_path / "journal"] if flags else []
    service = serve("--record", folder, "--log-level", "debug", "--lease", "5s", *flags)
    ranks = {}

    def start(index):
        ranks[index] = Process([RANK], {**env, "MUSTER_ADDR": service.address, "MUSTER_SIZE": "3",
                                        "MUSTER_MIN_SIZE": "2", "MUSTER_INDEX": str(index)})
        started.append(ranks[index])

    for index in range(3):
        start(index)
    service.log.wait_for("generation-sealed 1 size=3")
    ranks[1].kill()
    service.log.wait_for("member-lost #1")
    service.log.wait_for("generation-sealed 2 size=2")
    start(1)
    line = service.log.wait_for("generation-sealed", "size=3", count=2)
    generation = re.search(r"generation-sealed (\d+)", line)[1]
    for index in range(3):
        assert muster("key", "put", f"order-{index}-{generation}", "ok").returncode == 0
    for rank in ranks.values():
        assert rank.wait() == 0
    inputs, digest = stop(service)
    lines, last = replay(muster, folder, "--level", "debug")
    same_story(lines, service.log.lines)
    assert verdict(last) == (inputs, 1, digest, "as recorded")
    assert files(folder) == ["0000000001.record"]
    assert (folder / "0000000001.record").stat().st_mode & 0o777 == 0o600


def test_a_service_that_was_killed_and_the_next(serve, muster, folder, tmp_path):
    """The service is killed and the next one goes on from its journal. It records in the next
    file, which begins with the state it goes on with; each file can be replayed by itself, or
    all as one story. Nothing is overwritten. That of the killed one has the beginning of its
    log. [The same story]"""
    flags = ["--record", folder, "--journal", tmp_path / "journal", "--log-level", "debug"]
    first = serve(*flags)
    wire = first.wire()
    other = first.wire(role=1, index=0, size=2)
    for number in range(50):
        assert wire.put(f"k{number}", "v").status == 0
    assert other.renew().status == 0
    path = folder / "0000000001.record"
    # Turn by turn, until it holds more than 50 inputs, of which each takes less than so many bytes.
    until(lambda: other.renew() and path.stat().st_size > BEGIN_BYTES + 50 * 100)
    first.kill()
    again = serve(*flags)
    assert again.wire().get("k49").value == b"v"
    inputs, digest = stop(again)
    lines, last = replay(muster, folder / "0000000002.record", "--level", "debug")
    same_story(lines, again.log.lines)
    assert verdict(last) == (inputs, 1, digest, "as recorded")
    lines, last = replay(muster, path, "--level", "debug")
    told, logged = core_lines(lines), core_lines(first.log.lines)
    assert told and [rest for _, rest in told] == [rest for _, rest in logged[:len(told)]]
    assert verdict(last)[0] > 50
    assert verdict(last)[3] == "none was recorded: the service did not stop in order"
    lines, last = replay(muster, folder)
    assert [line.rsplit("/", 1)[1] for line in lines if "record-begun" in line] == files(folder)
    assert verdict(last)[1:] == (2, digest, "as recorded")


def test_a_run_is_recorded(spawn, muster, folder):
    """`muster run --record` is typed, a rank dies, and the service dies. The one that is started
    again records in the next file. [The same story]"""
    job = Run(spawn, muster, 2, "--record", folder)
    ranks = job.entered()
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    ranks = job.entered(2)
    lost = f"info core {job.job}: member-lost #1 incarnation=1 cause=signal code=9"
    heard = lambda: [rest for _, rest in core_lines(replay(muster, folder, "-j", job.job)[0])]
    until(lambda: lost in heard())  # the record of who is killed ends a little early
    os.kill(job.service(), signal.SIGKILL)
    job.log.wait_for("it is started again")
    until(lambda: muster("status", "-j", job.job).returncode == 0)
    job.all_well(ranks)
    lines, last = replay(muster, folder, "-j", job.job)
    assert lost in [rest for _, rest in core_lines(lines)]
    assert verdict(last)[1] == 2 and verdict(last)[3] == "as recorded"
    assert files(folder) == ["0000000001.record", "0000000002.record"]
    assert not core_lines(replay(muster, folder, "-j", "nobody")[0])


def test_a_replay_as_json(serve, muster, folder):
    """`muster replay --json` prints one document: the lines, and what the last line says.
    [The same story]"""
    service = serve("--record", folder)
    service.wire(role=1, index=0, size=1)
    inputs, digest = stop(service)
    done = muster("replay", folder, "--json")
    last = json.loads(done.stdout)
    first, *lines = last["lines"]
    assert (first["component"], first["file"]) == ("record", f"{folder}/0000000001.record")
    assert [line["text"].split()[0] for line in lines][:1] == ["member-joining"]
    assert {line["job"] for line in lines} == {"default"}
    assert (last["inputs"], last["digest"], last["recorded"]) == (inputs, digest, True)


# ---- a disk that does not play along ----


def test_a_full_disk_ends_the_record(serve, muster, small_disk):  # noqa: F811
    """The disk becomes full under a record. One error line names the file and the reason; clients
    notice nothing; what was recorded can be replayed."""
    service = serve("--record", small_disk / "record", "--log-level", "debug", *STAYS)
    kept, reply = fill(service.wire())
    assert (kept, reply.status) == (400, 0)
    service.wire(job="later", role=1, index=0, size=1)
    path = f"{small_disk}/record/0000000001.record"
    line = service.log.wait_for(" error record record-ended ")
    assert f" file={path} inputs=" in line
    assert line.endswith(f'reason="No space left on device; {ENDED}"')
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert len(service.log.having(" error ")) == 1
    assert not service.log.having("record-stopped")
    lines, last = replay(muster, path, "--level", "debug")
    told, logged = core_lines(lines), core_lines(service.log.lines)
    assert [rest for _, rest in told] == [rest for _, rest in logged[:len(told)]]
    assert 50 < verdict(last)[0]
    assert verdict(last)[3] == "none was recorded: the service did not stop in order"


def test_a_service_begins_without_room_for_a_record(serve, small_disk):  # noqa: F811
    """The disk is full when a service with `--record` begins. One error line says so, and the
    service begins."""
    (small_disk / "record").mkdir()
    fill_up(small_disk / "filler")
    service = serve("--record", small_disk / "record")
    wire = service.wire()
    assert wire.put("k", "v").status == 0
    service.log.wait_for(" error record record-ended ", "No space left on device",
                         meanwhile=wire.renew)
    assert wire.get("k").value == b"v"


@pytest.fixture
def gated(failing, tmp_path):  # noqa: F811
    """(environment, marker, gate): records are written when somebody opens the gate."""
    env, marker = failing
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    return {**env, "FAIL_DISK_GATE": str(gate)}, marker, gate


@preloaded
def test_a_failing_disk_ends_the_record(failing, started, folder):  # noqa: F811
    """The disk of a record fails. One error line says so, and the service goes on."""
    env, marker = failing
    service = Service(["--record", folder], env)
    started.append(service)
    wire = service.wire()
    marker.write_text("record")
    assert wire.put("k", "v").status == 0
    line = service.log.wait_for(" error record record-ended ", meanwhile=wire.renew)
    assert line.endswith(f'reason="Input/output error; {ENDED}"')
    assert wire.get("k").value == b"v"
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert len(service.log.having(" error ")) == 1


@preloaded
def test_a_slow_disk_slows_nobody(gated, started, muster, folder):
    """The disk of a record takes nothing for a while. Every client is answered meanwhile, and all
    of it is in the record later."""
    env, marker, gate = gated
    service = Service(["--record", folder, *STAYS], env)
    started.append(service)
    wire = service.wire()
    marker.write_text("gate")
    for _ in range(WAITING_MIB // 4):
        assert wire.put("k", b"v" * (MIB - 100)).status == 0
    with open(gate, "wb"):  # waits for the one who waits there
        marker.unlink()
        inputs, digest = stop(service)
    assert verdict(replay(muster, folder)[1]) == (inputs, 1, digest, "as recorded")


@preloaded
def test_a_disk_that_is_too_slow_ends_the_record(gated, started, muster, folder):
    """More than 64 MiB wait for the disk of a record. The record ends with a line, and a stop
    does not wait for the disk either."""
    env, marker, _ = gated
    service = Service(["--record", folder, *STAYS], env)
    started.append(service)
    wire = service.wire()
    assert wire.put("before", "v").status == 0
    marker.write_text("gate")
    for _ in range(WAITING_MIB + 4):
        assert wire.put("k", b"v" * (MIB - 100)).status == 0
    line = service.log.wait_for(" error record record-ended ", meanwhile=wire.renew)
    assert f'reason="the disk is too slow: {WAITING_MIB} MiB wait for it; {ENDED}"' in line
    service.signal(signal.SIGTERM)  # and it waits for that disk no more
    assert service.wait() == 0
    assert len(service.log.having(" error ")) == 1
    assert verdict(replay(muster, folder)[1])[3].startswith("none was recorded")


def test_services_share_a_folder(serve, muster, folder):
    """Two services record in one folder at a time, and one of them keeps its journal there too.
    Each has its own files and keeps them: no snapshot removes a record. [The same story]"""
    services = [serve("--record", folder, "--journal", folder),
                serve("--record", folder, "--job", "other")]
    said = []
    for service in services:
        assert service.wire().put("k", "v").status == 0
        said.append(stop(service))
    said.append(stop(serve("--record", folder, "--journal", folder)))
    names = [name for name in files(folder) if name.endswith(".record")]
    assert names == [f"{number:010}.record" for number in (1, 2, 3)]
    for name, (inputs, digest) in zip(names, said):
        assert verdict(replay(muster, folder / name)[1]) == (inputs, 1, digest, "as recorded")


def test_a_renewal_takes_few_bytes(serve, folder):
    """A member does nothing but renew. Each renewal takes less than 100 bytes of the record;
    docs/operations.md says what a day of them takes. [The same story]"""
    service = serve("--record", folder)
    wire = service.wire()
    for _ in range(RENEWALS):
        assert wire.renew().status == 0
    stop(service)
    size = (folder / files(folder)[0]).stat().st_size
    assert size - 4 * BEGIN_BYTES < 100 * RENEWALS  # what it begins and ends with is no part of it


def open_later(marker, gate, folder, over):
    until(lambda: folder.exists() and files(folder))
    time.sleep(MOMENT_S)  # in which more comes than may wait
    with open(gate, "wb"):  # waits for the one who waits there
        marker.unlink()
        over.wait(WAIT_S)  # who is on the way to the gate still finds it open


@preloaded
def test_a_state_larger_than_what_may_wait_is_recorded(gated, serve, started, muster, folder,
                                                       tmp_path):
    """The service goes on from its journal with more than 64 MiB of state. Its disk gets up to 5
    s for the state before any client is served, and the record is whole."""
    env, marker, gate = gated
    service = serve("--journal", tmp_path / "journal", *STAYS)
    wire = service.wire()
    for i in range(WAITING_MIB + 8):
        assert wire.put(f"k{i}", b"v" * (MIB - 100)).status == 0
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    marker.write_text("gate")
    over = threading.Event()
    opens = threading.Thread(target=open_later, args=(marker, gate, folder, over), daemon=True)
    opens.start()
    service = Service(["--journal", tmp_path / "journal", "--record", folder], env)
    started.append(service)
    inputs, digest = stop(service)
    over.set()
    assert verdict(replay(muster, folder)[1]) == (inputs, 1, digest, "as recorded")


@preloaded
def test_a_stop_does_not_wait_for_ever(gated, started, folder):
    """The service stops in order while the disk of its record takes nothing. It waits 5 s, says
    that the record ended, and ends well."""
    env, marker, _ = gated
    service = Service(["--record", folder], env)
    started.append(service)
    wire = service.wire()
    marker.write_text("gate")
    assert wire.put("k", "v").status == 0
    wire.close()
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    (line,) = service.log.having(" error record record-ended ")
    assert 'reason="the disk did not take the rest within 5 s; ' in line


@preloaded
def test_a_run_gives_its_service_that_time(gated, spawn, muster, folder):
    """The service of a `muster run` that has come to its end still writes its record. The run
    gives it that time before it kills it."""
    env, marker, _ = gated
    job = Run(spawn, muster, 1, "--record", folder, env=env)
    ranks = job.entered()
    marker.write_text("gate")
    job.all_well(ranks)
    assert job.log.having("the disk did not take the rest within 5 s; ")


def test_a_folder_that_cannot_be(muster, tmp_path):
    """The record's folder cannot be made, because its name is wrong. The service does not begin,
    and one line says why."""
    done = muster("serve", "--addr", "127.0.0.1:0", "--record", tmp_path / "no" / "where")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"muster serve: cannot record in {tmp_path}/no/where: "
                                "No such file or directory\n")
    done = muster("run", "-n", 2, "--record", tmp_path / "no" / "where", "--", "true")
    assert done.returncode == 125
    assert f"cannot record in {tmp_path}/no/where: No such file or directory\n" in done.stderr


# ---- what cannot be replayed ----


FILE_HEAD, FRAME_HEAD, FRAME_ALIGN = 64, 16, 8


def last_frame(data):
    """(its offset, the size of its payload)"""
    frame = FILE_HEAD
    while True:
        (payload,) = struct.unpack_from("<I", data, frame)
        after = frame + -(-(FRAME_HEAD + payload) // FRAME_ALIGN) * FRAME_ALIGN
        if after == len(data):
            return frame, payload
        frame = after


def crc32c(data):
    """Castagnoli's, of the head of a file and of each frame."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.fixture
def recorded(serve, folder):
    """(path of a record, its bytes)"""
    service = serve("--record", folder)
    wire = service.wire()
    for number in range(20):
        assert wire.put(f"k{number}", "v").status == 0
    stop(service)
    path = folder / "0000000001.record"
    return path, bytearray(path.read_bytes())


def refused(muster, path):
    done = muster("replay", path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    return line


def test_a_damaged_record(muster, recorded):
    """A byte of a record was changed. One line names the file and the place, and the exit code is
    1; in the last frame it is a torn tail. [What cannot be replayed]"""
    path, data = recorded
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = re.fullmatch(rf"muster replay: {path} is damaged at offset (\d+): .*",
                         refused(muster, path.parent))
    assert 0 <= len(data) // 2 - int(found[1]) < 200  # the frame in which it lies
    done = muster("replay", path, "--json")
    assert (done.returncode, list(json.loads(done.stdout))) == (1, ["lines"])


def test_a_record_that_was_cut(muster, recorded):
    """A file of a record ends anywhere, as after a kill. It is replayed as far as it goes, and
    the last line says that no digest was recorded. [What cannot be replayed]"""
    path, data = recorded
    whole = verdict(replay(muster, path)[1])
    path.write_bytes(data[:-1])
    inputs, _, _, said = verdict(replay(muster, path)[1])
    assert inputs == whole[0]
    assert said.startswith("none was recorded")
    path.write_bytes(b"")
    assert verdict(replay(muster, path)[1])[0] == 0


def test_a_record_of_other_rules(muster, recorded):
    """A record was made by a version that decides otherwise. It is refused, and the line names
    the version that can replay it. [What cannot be replayed]"""
    path, data = recorded
    (rules,) = struct.unpack_from("<I", data, 24)
    struct.pack_into("<I24s", data, 24, rules + 1, b"9.8.7")
    struct.pack_into("<I", data, 60, crc32c(data[:60]))
    path.write_bytes(data)
    assert refused(muster, path) == (
        f"muster replay: {path} was made by muster 9.8.7, which decides otherwise than this one "
        f"(rules {rules + 1}, here {rules}): replay it with that version")


def test_a_record_of_another_digest(muster, recorded):
    """The digest at the end of a record differs, as of a service that decides otherwise. One line
    names both, and the exit code is 1. [What cannot be replayed]"""
    path, data = recorded
    digest = verdict(replay(muster, path)[1])[2]
    frame, payload = last_frame(data)
    end = frame + FRAME_HEAD + payload
    at = end - 16  # the digest, and how many inputs there were
    data[at] ^= 1
    place = struct.pack("<QQQ", 1, frame, payload)
    struct.pack_into("<I", data, frame + 4, crc32c(place + data[frame + 8:end]))
    path.write_bytes(data)
    other = f"{struct.unpack_from('<Q', data, at)[0]:016x}"
    assert re.fullmatch(
        rf"muster replay: {path}: the digest is {digest}, and {other} was recorded by muster \S+: "
        "this one does not decide as that one did", refused(muster, path))


def test_no_record(muster, tmp_path):
    """There is no record, or no such file. `muster replay` prints one line and ends with 1;
    without a folder with 2. [What cannot be replayed]"""
    assert refused(muster, tmp_path / "none") == (
        f"muster replay: {tmp_path}/none: No such file or directory")
    assert refused(muster, tmp_path) == f"muster replay: {tmp_path}: the folder has no record"
    (tmp_path / "x").write_bytes(b"x" * 100)
    assert refused(muster, tmp_path / "x") == (
        f"muster replay: {tmp_path}/x is damaged at offset 0: it does not begin as a record does")
    assert muster("replay").returncode == 2


# ---- records of released versions ----


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_a_released_record(muster, path):
    """Records of released versions are replayed. They give what they gave then, to the digest, or
    are refused with the version that made them; one that begins with a state is also refused
    once states look otherwise. [The same story]"""
    stories = sorted(path.glob("*/story.txt"))
    assert stories
    for story in stories:
        done = muster("replay", story.parent.name, "--level", "debug", cwd=path)
        made_by = f" was made by muster {path.name}, which decides otherwise than this one "
        begins = f"/000000000[2-9].record begins with a state that muster {path.name} kept, "
        if made_by in done.stderr or re.search(begins, done.stderr):
            assert done.returncode == 1
            assert story.read_text().startswith(done.stdout)
        else:
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout == story.read_text(), story
