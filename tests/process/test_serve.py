# SPDX-License-Identifier: Apache-2.0
"""The service as a process: its sockets, its limits, and what bad input costs.

behaviour: service / Start and end
"""

import json
import os
import pathlib
import re
import resource
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

import pytest

from conftest import MUSTER, ROOT, WAIT_S, sanitized
from wire import ELIMIT, OK, PREAMBLE, VERSION, Closed, Wire, connect, field, frame

COMPLAINTS = 20  # lines about refused connections, each second
HELLO = PREAMBLE + frame(field(1, 1) + field(2, VERSION))


def path_of(service):
    return pathlib.Path(service.address[len("unix:") :])


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


# ---- start and end ----


def test_socket_is_the_users_alone_and_goes_with_the_service(serve, env):
    """A service is started without an address. It listens on a socket with the job's name in the
    user's runtime directory. Socket and directory are open to that user only (mode 0700)."""
    service = serve("--job", "train")
    path = path_of(service)
    assert path == pathlib.Path(env["MUSTER_RUNTIME_DIR"]) / "train.sock"
    assert mode(path) == 0o700
    assert mode(path.parent) == 0o700
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert not path.exists()
    assert service.log.having("info service stopping", "SIGTERM")


def test_runtime_directory_is_made_private(serve, env):
    """The runtime directory does not exist. It is made, with mode 0700."""
    env["MUSTER_RUNTIME_DIR"] += "/new"
    assert mode(path_of(serve()).parent) == 0o700


@pytest.mark.parametrize("bits", [0o755, 0o710, 0o702])
def test_runtime_directory_that_others_can_enter_is_refused(muster, env, bits):
    """Others may enter the runtime directory. The service is refused with a line that says which
    mode it must have."""
    os.chmod(env["MUSTER_RUNTIME_DIR"], bits)
    done = muster("serve")
    assert done.returncode == 1
    assert "is not safe: it must be a directory of this user with mode 0700" in done.stderr
    assert "set MUSTER_RUNTIME_DIR" in done.stderr


def test_sigint_stops_with_connections_open(service):
    """A service gets SIGTERM or SIGINT while clients are connected. It closes them, removes its
    socket, and ends with 0."""
    wires = [service.wire() for _ in range(5)]
    service.signal(signal.SIGINT)
    assert service.wait() == 0
    assert all(wire.ended() for wire in wires)


def test_ready_descriptor_gets_a_newline(serve):
    """A script wants to know when the service can be reached. It prints `muster: serving on
    ADDRESS`, and writes a line to the descriptor of `--ready-fd`, empty without `--http`."""
    reader, writer = os.pipe()
    serve("--ready-fd", str(writer), pass_fds=[writer])
    os.close(writer)
    with os.fdopen(reader, "rb") as ready:
        assert ready.read() == b"\n"


def test_service_of_a_parent_ends_with_it(serve):
    """A program started the service for itself (`--parent`). The service ends when the program
    does, however that ends, or says so on its stdin, and leaves no socket; signals are the
    program's business."""
    service = serve("--parent", "--log-level", "info", stdin=subprocess.PIPE)
    wire = service.wire()
    for name in ("INT", "QUIT", "HUP", "TERM", "USR1", "USR2"):
        service.signal(getattr(signal, f"SIG{name}"))  # Ctrl-C and what a scheduler says to all
    assert wire.renew().status == OK
    service.process.stdin.close()
    assert service.wait() == 0
    assert service.log.having("stopping", "the parent is gone")


def test_a_word_of_the_parent_stops_its_service(serve):
    """A program started the service for itself (`--parent`). The service ends when the program
    does, however that ends, or says so on its stdin, and leaves no socket; signals are the
    program's business."""
    service = serve("--parent", "--log-level", "info", stdin=subprocess.PIPE)
    service.process.stdin.write("\n")
    service.process.stdin.flush()
    assert service.wait() == 0
    assert service.log.having("stopping", "the parent says so")


def test_service_of_a_killed_parent_ends(env):
    """A program started the service for itself (`--parent`). The service ends when the program
    does, however that ends, or says so on its stdin, and leaves no socket; signals are the
    program's business."""
    code = ("import subprocess, sys\n"
            "subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE).wait()\n")
    parent = subprocess.Popen([sys.executable, "-c", code, str(MUSTER), "serve", "--parent"],
                              env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert b"serving on" in parent.stdout.readline()
    parent.kill()
    parent.wait()
    assert parent.stdout.read() == b""  # the service held the other end
    assert os.listdir(env["MUSTER_RUNTIME_DIR"]) == []


def test_socket_of_a_dead_service_is_replaced(serve):
    """A service was killed and its socket is still there. The next one takes its place."""
    dead = serve()
    dead.kill()
    assert path_of(dead).exists()
    assert serve().wire().renew().status == OK


def test_socket_of_a_living_service_is_refused_by_name(service, muster):
    """A living service holds the socket. The second one is refused with the process that serves
    there, and the first one is not disturbed."""
    done = muster("serve")
    assert done.returncode == 1
    assert done.stderr == (
        f"muster serve: cannot serve on {service.address}: process {service.pid} serves there "
        "already\n"
    )
    assert service.wire().renew().status == OK


def test_socket_of_another_kind_is_not_taken_for_a_dead_one(muster, env):
    """A socket of another kind lies where the service is to listen. It is left alone, and the
    service says so. [Addresses, names and streams]"""
    path = pathlib.Path(env["MUSTER_RUNTIME_DIR"]) / "default.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(str(path))
        done = muster("serve")
        assert done.returncode == 1
        assert "another process serves there" in done.stderr
        assert path.is_socket()


def test_file_that_is_no_socket_is_kept(muster, env):
    """A file that is no socket lies where the service is to listen. It is kept and the service is
    refused."""
    path = pathlib.Path(env["MUSTER_RUNTIME_DIR"]) / "default.sock"
    path.write_text("precious")
    done = muster("serve")
    assert done.returncode == 1
    assert "no socket" in done.stderr
    assert path.read_text() == "precious"


def test_socket_of_a_successor_is_not_removed(serve):
    """The socket's file was replaced by a successor's. The first service leaves that file alone
    when it ends."""
    first = serve()
    path_of(first).unlink()
    second = serve()
    first.signal(signal.SIGTERM)
    first.wait()
    assert second.wire().renew().status == OK


# ---- addresses ----


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0", "localhost:0"])
def test_tcp_on_loopback(serve, address):
    """A service is to listen on loopback TCP, also with port 0. It does, for IPv4 and IPv6, and
    prints the port it got. [Addresses]"""
    service = serve("--addr", address)
    assert not service.address.endswith(":0")
    assert service.wire().renew().status == OK


def test_several_addresses_share_one_service(serve, env):
    """A service gets several addresses. All lead to the same service: what one client writes the
    other reads. [Addresses]"""
    path = env["MUSTER_RUNTIME_DIR"] + "/own.sock"
    service = serve("--addr", "unix:" + path, "--addr", "127.0.0.1:0")
    first, second = service.address.split(",")
    assert first == "unix:" + path
    one, other = Wire(first), Wire(second)
    assert one.open().status == OK and other.open().status == OK
    assert one.put("k", "v").status == OK
    assert other.get("k").value == b"v"


@pytest.mark.parametrize("count", [0, 9])
def test_too_many_addresses_are_refused(muster, count):
    """Too many or too few addresses are given. They are refused with the allowed number.
    [Addresses, names and streams]"""
    done = muster("serve", "--addr", "," + ",".join(["127.0.0.1:0"] * count))
    assert done.returncode == 2
    assert done.stderr == "muster serve: --addr names 1 to 8 addresses\n"


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7000"])
def test_an_address_others_can_reach_is_refused(muster, address):
    """The address can be reached from other machines. The service is refused, unless there is a
    secret or `--insecure`; docs/security.md says why. [Addresses]"""
    done = muster("serve", "--addr", address)
    assert done.returncode == 1
    assert done.stderr.startswith(f"muster serve: refused to serve on {address}: anybody on the")


@pytest.mark.parametrize("address", ["nonsense", ":7000", "127.0.0.1:", "::1:7000", "[]:1",
                                     "unix:relative.sock", "unix:/" + "x" * 120, "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(muster, address):
    """The address makes no sense. One line says why. [Addresses]"""
    done = muster("serve", "--addr", address)
    assert done.returncode == 1
    assert done.stderr.startswith("muster serve: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_another_user_is_refused(service, tmp_path):
    """Another user of the machine connects to the socket, its mode having been opened. The
    connection is closed and logged with that user's number. [Addresses]"""
    directory = path_of(service).parent
    os.chmod(path_of(service), 0o777)
    os.chmod(directory, 0o755)
    # The file's mode no longer protects: the uid of the peer does.
    code = ("import socket, sys\n"
            "s = socket.socket(socket.AF_UNIX)\n"
            "s.settimeout(30)\n"
            "s.connect(sys.argv[1])\n"
            "sys.exit(0 if s.recv(1) == b'' else 1)\n")
    done = subprocess.run(["/usr/bin/python3", "-c", code, str(path_of(service))], user=65534,
                          group=65534, extra_groups=[], cwd="/", timeout=WAIT_S)
    assert done.returncode == 0
    assert "uid:65534" in service.log.wait_for("connection-refused", "another user")


# ---- bad input costs its sender the connection and nobody else anything ----

BAD = {
    "no dialect": b"\xff\xff\xff\xff",
    "another dialect": b"GET / HTTP/1.1\r\n\r\n",
    "almost the preamble": b"MUSTARD!",
    "a framing of the future": b"MUSTER\0\xfe" + frame(field(1, 1) + field(2, VERSION)),
    "a version nobody speaks": PREAMBLE + frame(field(1, 200) + field(2, 201)),
    "no hello": PREAMBLE + frame(b"\xff\xff\xff\xff"),
    "an empty frame": PREAMBLE + frame(b""),
    "a frame too large": HELLO + struct.pack(">I", 0x7FFFFFFF) + b"x",
    "no message": HELLO + frame(b"\xff" * 64),
    "no command": HELLO + frame(field(1, 1) + field(2, 1)),
    "an unknown command": HELLO + frame(field(1, 1) + field(2, 1) + field(900, b"")),
    "no session": HELLO + frame(field(1, 1) + field(2, 1) + field(16 + 3, b"")),
    "noise": HELLO + bytes((i * 73 + 41) & 0xFF for i in range(5000)),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_costs_its_sender_the_connection(service, what):
    """A connection begins with another protocol, an unknown version, or noise, or sends a frame
    that is too large, malformed, or holds an unknown command. It is closed, the reason is
    logged with the peer's process, and no other client notices. [Bad input]"""
    witness = service.wire()
    assert witness.put("k", "v").status == OK
    bad = Wire(service.address, hello=False)
    bad.send(BAD[what])
    assert bad.ended()
    line = service.log.wait_for("conn=2", "reason=")
    assert "pid:" in line
    assert witness.get("k").value == b"v"
    assert service.wire().renew().status == OK


def test_lines_about_bad_input_are_few_however_often_it_comes(serve):
    """Connections are refused again and again, with a secret or without, over TCP and a Unix
    socket. There are 20 log lines a second at most, and then a count of the others.
    [Bad input]"""
    service = serve("--addr", "127.0.0.1:0")
    began = time.monotonic()
    for _ in range(500):
        bad = Wire(service.address, hello=False)
        bad.send(BAD["no dialect"])
        assert bad.ended()
        bad.close()
    lines = service.log.having("connection-refused")
    assert 0 < len(lines) <= COMPLAINTS * (time.monotonic() - began + 1)
    assert service.wire().renew().status == OK


def test_a_frame_cut_short_is_told(service):
    """A connection ends in the middle of a frame. It is logged with that reason. [Bad input]"""
    bad = Wire(service.address)
    bad.send(struct.pack(">I", 100) + b"x")
    bad.sock.shutdown(socket.SHUT_WR)
    assert bad.ended()
    service.log.wait_for("conn=1", "reason=")
    assert service.wire().renew().status == OK


def test_bytes_one_by_one_are_the_same(service):
    """A client sends its bytes one by one. They mean the same. [Bad input]"""
    wire = Wire(service.address, hello=False)
    wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    for byte in HELLO:
        wire.send(bytes([byte]))
    wire.receive()
    assert wire.open().status == OK


# ---- readers that are slow, and many of them ----


def test_who_does_not_read_loses_the_connection_and_not_the_session(serve):
    """A client asks for a lot and never reads the answers. Over the limit of unread output it
    loses its connection, but not its session: it comes back and its owned keys are still
    there. Others do not notice. [Load and limits]"""
    service = serve("--output-bytes-max", "512k")
    witness = service.wire()
    slow = service.wire()
    assert slow.put("mine", "still here", owned=True).status == OK
    assert slow.put("large", b"x" * 1000000).status == OK
    slow.post("get", field(2, "large"))
    service.log.wait_for("warn service connection-refused", "output_bytes_max")
    assert witness.get("mine").value == b"still here"
    again = Wire(service.address)
    again.last_id = slow.last_id
    assert again.open(token=slow.token).status == OK
    assert again.get("mine").value == b"still here"
    assert witness.renew().status == OK


def test_what_is_not_read_waits_where_it_costs_nothing(service):
    """A client asks for sixty values of a megabyte in one piece and reads none. Two of the
    replies are made; the others when it reads. It then gets all of them.
    [attacks / Clients that never read or finish]"""
    wire = service.wire()
    wire.put("large", b"x" * 1000000)
    before = resident(service.pid)
    wire.send(b"".join(wire.request("get", field(2, "large")) for _ in range(60)))
    assert service.wire().renew().status == OK
    if not sanitized():
        assert resident(service.pid) - before < 8 * 1048576
    assert min(len(wire.receive()) for _ in range(60)) > 1000000
    assert wire.renew().status == OK


def test_who_reads_late_gets_everything(service):
    """A client reads late, within the limit. It gets everything, whole. [Load and limits]"""
    wire = service.wire()
    wire.put("large", b"x" * 1000000)
    for _ in range(60):
        wire.post("get", field(2, "large"))
    assert service.wire().renew().status == OK
    sizes = {len(wire.receive()) for _ in range(60)}
    assert min(sizes) > 1000000  # each tells the age of the key as well


def test_more_requests_at_once_than_a_turn_takes(service):
    """Thousands of requests arrive at once. All are answered, in order. [Load and limits]"""
    wire = service.wire()
    first = wire.last_id
    wire.send(b"".join(wire.request("renew") for _ in range(2000)))
    for i in range(2000):
        payload = wire.receive()
        assert payload.startswith(field(1, first + 1 + i))


def test_connections_over_the_limit_are_closed_and_the_others_live(serve):
    """More connections come than are allowed. The ones too many are closed at once, one line says
    so with the limit, those inside go on, and when there is room again the next one is let in.
    [Load and limits]"""
    service = serve("--connections-max", "3")
    wires = [service.wire() for _ in range(3)]
    for _ in range(4):
        refused = connect(service.address)
        assert refused.recv(1) == b""
    assert "limit=3" in service.log.wait_for("connection-limit-reached")
    wires.pop().close()
    # The service learns of the end before or after the next one comes: it is let in at last.
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            assert service.wire().renew().status == OK
            break
        except (Closed, ConnectionError):
            assert time.monotonic() < deadline
    assert service.log.wait_for("connection-limit-left")
    assert len(service.log.having("connection-limit-reached")) == 1
    assert all(wire.renew().status == OK for wire in wires)


def test_without_descriptors_the_others_wait(serve):
    """The process has no descriptors left. New connections wait until there are some; those
    inside go on; the log says it once. [Load and limits]"""
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))

    service = serve(preexec_fn=few)
    witness = service.wire()
    waiting = [connect(service.address) for _ in range(60)]
    service.log.wait_for("accepting-paused")
    assert witness.renew().status == OK
    for sock in waiting[:40]:
        sock.close()
    late = Wire(service.address)
    assert late.open().status == OK
    assert len(service.log.having("accepting-paused")) == 1
    assert witness.renew().status == OK
    for sock in waiting[40:]:
        sock.close()


def test_who_asks_nothing_is_not_kept(serve):
    """A client connects and asks nothing. After one lease the connection is closed. [Bad input]"""
    service = serve("--lease", "3s")
    silent = connect(service.address)
    half = Wire(service.address)
    assert silent.recv(1) == b""
    assert half.ended()
    service.log.wait_for("connection-refused", "asks nothing", count=2)


def test_a_stopped_service_blames_nobody(serve, muster):
    """The service itself is stopped for longer than a lease and goes on. No member is blamed:
    each has a whole lease again. [Load and limits]"""
    clock = serve("--job", "clock")
    service = serve("--job", "train", "--lease", "3s")
    members = [Wire(service.address) for _ in range(2)]
    assert all(wire.open_rank(i, 2).status == OK for i, wire in enumerate(members))
    service.signal(signal.SIGSTOP)
    # More than a lease passes by the other service's clock.
    assert muster("key", "get", "never", "--wait", "4s", "-j", "clock").returncode == 124
    service.signal(signal.SIGCONT)
    assert all(wire.renew().status == OK for wire in members)
    assert service.log.having("member-lost") == []
    assert clock.wire().renew().status == OK


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as text:
        for line in text:
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
    return 0


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1200, reason="descriptors")
def test_a_thousand_idle_sessions(serve):
    """A thousand sessions are idle. Each costs the service at most 4 KiB, and all are answered.
    [Load and limits]"""
    service = serve("--lease", "10m")  # these do not renew
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard < 4096 else 4096, hard))
    witness = service.wire()
    first = [service.wire() for _ in range(100)]  # so that what is paid once is paid
    before = resident(service.pid)
    wires = [service.wire() for _ in range(1000)]
    cost = (resident(service.pid) - before) / len(wires)
    assert witness.renew().status == OK
    assert all(wire.renew().status == OK for wire in (wires[0], wires[-1], first[0]))
    if not sanitized():
        assert cost <= 4096, f"{cost:.0f} bytes for each idle session"
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_sessions_over_their_limit_are_told(serve):
    """More sessions are opened than are allowed. The one too many is refused with the limit.
    [Load and limits]"""
    service = serve("--sessions-max", "2")
    kept = [service.wire(), service.wire()]
    reply = Wire(service.address).open()
    assert reply.status == ELIMIT
    assert reply.detail[5] == [2 << 1]
    assert all(wire.renew().status == OK for wire in kept)


# ---- the log ----


def test_log_lines_have_one_shape(serve):
    """Each line of the log is `time level component event key=value...`. [Its log]"""
    service = serve("--log-level", "debug")
    service.wire().close()
    line = service.log.wait_for("debug service connection-closed", "conn=1")
    when, level, component, event, *rest = line.split(" ")
    assert time.strptime(when[:19], "%Y-%m-%dT%H:%M:%S") and when.endswith("Z")
    assert (level, component, event) == ("debug", "service", "connection-closed")
    assert rest[0] == "conn=1" and rest[1].startswith(f"peer=uid:{os.geteuid()},pid:")


def test_each_line_of_the_log_is_an_object(serve):
    """With `--log-format json` each line of the log is an object: time, level, area, the job, the event with its
    fields, and the text as it is without. [Its log]"""
    service = serve("--log-level", "debug", "--log-format", "json")
    wire = Wire(service.address)
    assert wire.open_rank(0, 1, job='a "job"\nof two lines').status == OK
    wire.close()
    service.log.wait_for("connection-closed")
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    lines = [json.loads(line) for line in service.log.lines]
    assert all(list(line)[:3] == ["time", "level", "area"] and list(line)[-1] == "text" for line in lines)
    assert all(time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S") for line in lines)
    events = {line["event"]: line for line in lines}
    assert events["connection-closed"]["fields"]["peer"].startswith(f"uid:{os.geteuid()},pid:")
    assert events["connection-closed"]["level"] == "debug" and events["connection-closed"]["area"] == "service"
    assert events["stopping"]["fields"] == {"reason": "SIGTERM"}
    assert events["stopping"]["text"] == 'stopping reason="SIGTERM"'
    joining = events["member-joining"]
    assert joining["job"] == 'a "job"\\x0aof two lines' and joining["fields"]["index"] == 0
    assert joining["area"] == "core" and joining["text"].startswith("member-joining #0 ")


def test_a_name_cannot_begin_a_line_of_the_log(service):
    """A job's name holds a line break. It is escaped: it cannot forge a line of the log.
    [Addresses, names and streams]"""
    wire = Wire(service.address)
    assert wire.open_rank(0, 1, job="x\n2020-01-01T00:00:00Z error core forged").status == OK
    service.log.wait_for(r"core x\x0a2020-01-01T00:00:00Z error core forged: member-")
    assert not service.log.having("error core forged: member-lost")
    assert all(line[:2] == "20" and " core x" in line for line in service.log.having("forged"))


def test_who_reads_stdout_may_go(env):
    """No process reads the service's stdout. It serves all the same.
    [Addresses, names and streams]"""
    ready, writer = os.pipe()
    reader, stdout = os.pipe()
    os.close(reader)
    service = subprocess.Popen([MUSTER, "serve", "--ready-fd", str(writer)], env=env, stdout=stdout,
                               stderr=subprocess.DEVNULL, pass_fds=[writer])
    os.close(writer)
    os.close(stdout)
    with os.fdopen(ready, "rb") as end:
        assert end.read() == b"\n"
    wire = Wire(f"unix:{env['MUSTER_RUNTIME_DIR']}/default.sock")
    assert wire.open().status == OK
    assert wire.put("k", "v").status == OK
    assert wire.get("k").value == b"v"
    wire.close()
    service.terminate()
    assert service.wait(WAIT_S) == 0


def test_a_log_that_nobody_reads_stops_nothing(env):
    """The log goes into a pipe that no process reads. The service goes on without it. [Its log]"""
    reader, writer = os.pipe()
    service = subprocess.Popen([str(MUSTER), "serve", "--log-level", "debug"], env=env,
                               stdout=subprocess.PIPE, stderr=writer, text=True)
    os.close(writer)
    address = service.stdout.readline().split()[-1]
    for _ in range(1500):
        Wire(address).close()
    wire = Wire(address)
    assert wire.open().status == OK
    wire.close()
    service.terminate()
    os.close(reader)
    assert service.wait(WAIT_S) == 0


# ---- what belongs to the program ----


@pytest.mark.parametrize("command", ["serve", "run", "key", "status", "barrier", "round", "chaos"])
def test_help_has_an_example(muster, command):
    """`--help` gives usage, the flags with their defaults, and an example.
    [program / Help, flags, settings]"""
    done = muster(command, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert f"usage: muster {command} [flags]" in done.stdout
    assert f"\nexample:\n  muster {command}" in done.stdout


@pytest.mark.parametrize("command, scopes", [("serve", "SERVICE LIMIT"), ("run", "SERVICE RUN"),
                                             ("key", ""), ("env", "")])
def test_help_has_every_flag_once_within_100_columns(muster, command, scopes):
    """`--help` has every flag once, in a group with a title, within 100 columns.
    [program / Help, flags, settings]"""
    text = muster(command, "--help").stdout
    assert max(map(len, text.splitlines())) <= 100
    flags = re.findall(r"^  (?:-\w,|   ) --([\w-]+)", text, re.M)
    assert len(flags) == len(set(flags))
    settings = (ROOT / "src/proto/settings.def").read_text()
    rows = [name for scope, name in re.findall(r"^X\((\w+), (\w+),", settings, re.M)
            if scope in scopes.split()]
    own = (ROOT / "src/cli/flags.def").read_text()
    rows += [name for commands, name in re.findall(r'^X\("([\w ]+)", \w+, [^,]+, (\w+),', own, re.M)
             if command in commands.split()]
    rows += [] if command in ("env", "run") else ["addr", "job", "secret_file", "secret_fd", "insecure"]
    assert set(flags) == {name.replace("_", "-") for name in rows} | {"help"}


def test_flags_come_from_the_settings(muster):
    """The flags of `--help` are those of the settings, with their defaults.
    [program / Help, flags, settings]"""
    help_text = muster("serve", "--help").stdout
    assert "--keys-max N" in help_text and "--lease DURATION" in help_text
    assert "(default 10s)" in help_text


@pytest.mark.parametrize("args, said", [
    (["srve"], "the nearest is serve"),
    (["serve", "--leese", "3s"], "the nearest is --lease"),
    (["serve", "--key_max", "3"], "the nearest is --keys-max"),
    (["serve", "--lease"], "--lease needs a value"),
    (["serve", "--lease", "soon"], "'soon' is no duration"),
    (["serve", "--keys-max", "0"], "from 1 to"),
    (["serve", "extra"], "unexpected argument 'extra'"),
    (["key", "gte", "x"], "the nearest is get"),
    (["key", "put", "x"], "usage: muster key put NAME VALUE"),
    (["barrier", "x"], "usage: muster barrier NAME -n"),
    ([], "a command is missing"),
])
def test_wrong_usage_is_told_and_exits_2(muster, args, said):
    """A word on the command line is spelt wrong. One line says so, with the nearest that exists,
    and the exit code is 2. [program / Help, flags, settings]"""
    done = muster(*args)
    assert done.returncode == 2
    assert done.stdout == "" and said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_flag_before_environment_before_default(serve, env):
    """A setting is given as a flag and in the environment. The flag goes before the environment,
    that before the default. [program / Help, flags, settings]"""
    env["MUSTER_LEASE"] = "7s"
    assert serve().wire().last_id == 1
    wire = Wire(serve("--job", "b").address)
    assert wire.open().number == 7000
    wire = Wire(serve("--job", "c", "--lease", "9s").address)
    assert wire.open().number == 9000


def test_a_setting_in_the_environment_that_makes_no_sense_is_told(muster, env):
    """A setting in the environment makes no sense. One line says so, and the exit code is 2.
    [program / Help, flags, settings]"""
    env["MUSTER_LEASE"] = "soon"
    done = muster("serve")
    assert done.returncode == 2
    assert "in the environment: setting lease: 'soon' is no duration" in done.stderr


def test_unknown_variables_give_one_warning(muster, env):
    """There are unknown variables `MUSTER_...`. One warning names them all.
    [program / Help, flags, settings]"""
    env["MUSTER_LEESE"] = "1"
    env["MUSTER_ELSE"] = "1"
    lines = muster("key").stderr.splitlines()
    assert len(lines) == 2
    assert "warning" in lines[0] and "MUSTER_LEESE" in lines[0] and "MUSTER_ELSE" in lines[0]


def test_version_is_one_line(muster):
    """`--version` prints one line. [program / Help, flags, settings]"""
    words = muster("--version").stdout.split()
    assert words[0] == "muster" and len(words) == 2 and words[1][0].isdigit()
