# SPDX-License-Identifier: Apache-2.0
"""Who may connect: the secret, TLS and what it costs to have none.

behaviour: security / Without it
"""

import contextlib
import hashlib
import hmac
import itertools
import os
import pathlib
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import BUILD, MUSTER, ROOT, WAIT_S, Process, free_port, sanitized
from nodes import joining
from running import Run, until
from wire import OK, PREAMBLE, VERSION, Wire, connect, field, frame, parse

HELLO = PREAMBLE + frame(field(1, 1) + field(2, VERSION))
SECRET = "0123456789abcdef0123456789abcdef"
CROWD = 400
THOUSANDS = 200 if sanitized() else 2000
MEMORY_KIB = 400_000 if sanitized() else 32_000  # of a service, whatever one client does
LEASE_S = 4.0  # of who is not to lose it: also not because its machine stands still for a moment
FLOOD_LEASES = 1.5  # how long the strangers keep coming
COMPLAINTS = 20  # lines about strangers, each second
OPENSSL = shutil.which("openssl")
needs_openssl = pytest.mark.skipif(not OPENSSL, reason="needs the openssl program")


def key_of(secret):
    """HKDF-SHA256 without a salt, 32 bytes: what docs/protocol.md says."""
    extracted = hmac.new(bytes(32), secret.encode(), hashlib.sha256).digest()
    info = b"muster tls 1.3 external psk, version 1\x01"
    return hmac.new(extracted, info, hashlib.sha256).hexdigest()


@pytest.fixture
def secret_file(tmp_path):
    """secret_file(text, mode) writes one and says where."""

    def write(text=SECRET, mode=0o600, name=None):
        path = tmp_path / (name or secrets.token_hex(4))
        path.touch(mode=0o600)
        path.write_text(text + "\n")
        path.chmod(mode)
        return path

    return write


@pytest.fixture
def secured(serve, secret_file):
    return serve("--addr", "127.0.0.1:0", "--secret-file", secret_file())


def one_line(done, *words, code=1):
    assert done.returncode == code, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def client_hello(muster, path):
    """What a client of ours says first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(WAIT_S)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        process = Process([MUSTER, "key", "get", "k", "--addr", address, "--secret-file", path],
                          {k: v for k, v in os.environ.items() if not k.startswith("MUSTER_")})
        peer, _ = listener.accept()
        with peer:
            peer.settimeout(WAIT_S)
            hello = peer.recv(65536)
        process.kill()
    assert hello[0] == 0x16
    return hello


def s_client(address, *args, **options):
    return subprocess.run([OPENSSL, "s_client", "-connect", address, *args], capture_output=True,
                          text=True, timeout=WAIT_S, stdin=subprocess.DEVNULL, **options)


# ---- with the secret ----


def test_the_same_secret_lets_in(secured, muster, secret_file):
    """Service and client have the same secret. They speak TLS over TCP; everything works as in
    plain, large values too. [With the secret]"""
    there = ("--addr", secured.address, "--secret-file", secret_file())
    assert muster("key", "put", "k", "v", *there).returncode == 0
    large = "x" * 100_000
    assert muster("key", "put", "large", "-", *there, input=large).returncode == 0
    assert muster("key", "get", "large", "--raw", *there).stdout == large
    assert muster("status", *there).returncode == 0
    assert secured.log.having("warn") == []


def test_one_service_is_private_on_its_socket_and_secret_on_tcp(serve, muster, env, secret_file):
    """A service with a secret listens on a Unix socket too. That one stays the user's own, and
    plain: no client reads a secret for it. [With the secret]"""
    own = "unix:" + env["MUSTER_RUNTIME_DIR"] + "/own.sock"
    service = serve("--addr", own, "--addr", "127.0.0.1:0", "--secret-file", secret_file())
    tcp = service.address.split(",")[1]
    assert muster("key", "put", "k", "v", "--addr", own).returncode == 0
    assert muster("key", "put", "k", "w", "--addr", own, "--secret-file", "/none").returncode == 0
    done = muster("key", "get", "k", "--addr", tcp, "--secret-file", secret_file())
    assert done.stdout == "w\n"


def test_a_secret_by_descriptor(serve, muster, env, secret_file):
    """The secret comes by an inherited descriptor. A file may be shared by many, each reads it
    from its beginning; a pipe is read once. [With the secret]"""
    with open(secret_file(), "rb") as file:
        fd = file.fileno()
        service = serve("--addr", "127.0.0.1:0", "--secret-fd", fd, pass_fds=[fd])
        for _ in range(2):  # a file may be handed to many
            done = muster("key", "add", "n", "--addr", service.address, "--secret-fd", fd,
                          pass_fds=[fd])
            assert done.returncode == 0, done.stderr
        done = muster("key", "get", "n", "--addr", service.address, pass_fds=[fd],
                      env={**env, "MUSTER_SECRET_FD": str(fd)})
        assert done.stdout == "2\n", done.stderr
    reader, writer = os.pipe()
    os.write(writer, SECRET.encode())
    os.close(writer)
    done = muster("key", "get", "n", "--addr", service.address, "--secret-fd", reader,
                  pass_fds=[reader])
    os.close(reader)
    assert done.stdout == "2\n", done.stderr


def test_on_a_socket_the_environments_secret_is_not_read(muster, serve, env):
    """`MUSTER_SECRET_FILE` is set where there are Unix sockets only. It is not read.
    [With the secret]"""
    lost = {**env, "MUSTER_SECRET_FILE": "/nowhere"}
    service = serve(env=lost)
    assert muster("key", "put", "k", "v", "--addr", service.address, env=lost).returncode == 0
    one_line(muster("serve", "--addr", "127.0.0.1:0", env=lost), "/nowhere")


def test_the_environment_names_the_file(secured, muster, env, secret_file):
    """`MUSTER_SECRET_FILE` is set, and `--secret-file` typed. What is typed counts.
    [With the secret]"""
    with_file = {**env, "MUSTER_SECRET_FILE": str(secret_file()), "MUSTER_ADDR": secured.address}
    assert muster("key", "put", "k", "v", env=with_file).returncode == 0
    # What is typed goes before it.
    one_line(muster("key", "get", "k", "--secret-file", secret_file("another " + SECRET),
                    env=with_file), "wrong secret")


def test_a_name_is_looked_up(secured, muster, secret_file):
    """An address is a name. Each attempt to connect looks it up, on a thread of its own, and the
    attempts go through the addresses found. [Addresses]"""
    # Not "localhost", which is no name but a number; the first address found may be ::1, where
    # nobody listens.
    address = secured.address.replace("127.0.0.1", "LocalHost")
    done = muster("key", "add", "n", "--addr", address, "--secret-file", secret_file())
    assert done.stdout == "1\n", done.stderr


def test_a_name_that_is_not_known_yet_is_tried_again(muster, secret_file):
    """The name of an address is not known yet. It is tried again until the time is over, and the
    error names it. [Addresses]"""
    done = muster("barrier", "b", "-n", 1, "--addr", "nowhere.invalid:7000", "--secret-file",
                  secret_file(), "--timeout", "3s")
    one_line(done, "no service at nowhere.invalid:7000 after ",
             "(connecting to nowhere.invalid:7000: ", code=124)


def test_several_addresses_and_one_is_not_there(secured, muster, secret_file):
    """Of several addresses one is not there. The next one is tried. [Addresses]"""
    dead = f"127.0.0.1:{free_port()}"
    done = muster("key", "add", "n", "--addr", f"{dead},{secured.address}", "--secret-file",
                  secret_file())
    assert done.stdout == "1\n", done.stderr


@needs_openssl
def test_it_is_tls_as_others_speak_it(secured):
    """Another program speaks TLS 1.3 with the right key. It is let in: a pre-shared key with an
    ephemeral exchange, no certificate, no ticket, no early data. [With the secret]"""
    args = [OPENSSL, "s_client", "-connect", secured.address, "-psk", key_of(SECRET),
            "-psk_identity", "muster"]
    said = subprocess.run(args, capture_output=True, text=True, timeout=WAIT_S,
                          stdin=subprocess.DEVNULL)
    assert "Reused, TLSv1.3, Cipher is TLS_AES_128_GCM_SHA256" in said.stdout
    assert "Server Temp Key: X25519" in said.stdout  # forward secret
    assert "no peer certificate available" in said.stdout
    assert "Early data was not sent" in said.stdout
    assert "New Session Ticket" not in said.stdout
    with subprocess.Popen([*args, "-quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as speaker:
        speaker.stdin.write(HELLO)
        speaker.stdin.flush()
        size = int.from_bytes(speaker.stdout.read(4), "big")
        assert parse(speaker.stdout.read(size))[1] == [VERSION]
        speaker.kill()


# ---- without it ----


def test_a_wrong_secret_is_told_on_both_sides(secured, muster, secret_file):
    """The client's secret differs from the service's. Both sides say so: the service's log with
    the address, the client's error with the file, at once."""
    other = secret_file("another " + SECRET)
    # At once, and not after the time for reaching it.
    done = muster("key", "get", "k", "--timeout", "1h", "--addr", secured.address, "--secret-file",
                  other)
    one_line(done, "not let in", secured.address, "wrong secret: the service has another one",
             str(other))
    line = secured.log.wait_for("connection-refused", "wrong secret")
    assert "peer=127.0.0.1:" in line


def test_a_client_without_a_secret_is_told(secured, muster):
    """The client has no secret. Its error says to set `MUSTER_SECRET_FILE`; the service's log
    says that it spoke plain."""
    done = muster("key", "get", "k", "--addr", secured.address)
    one_line(done, "this service wants TLS: set MUSTER_SECRET_FILE")
    secured.log.wait_for("connection-refused", "speaks plain, but this address wants TLS")


def test_a_secret_that_the_service_does_not_have(serve, muster, secret_file):
    """The client has a secret and the service has none. The client's error says so and it sends
    nothing in plain; the service goes on."""
    service = serve("--addr", "127.0.0.1:0")
    done = muster("key", "get", "k", "--addr", service.address, "--secret-file", secret_file())
    one_line(done, "the service speaks no TLS there: --secret-file is not set there")
    service.log.wait_for("connection-refused", "speaks TLS, but --secret-file is not set here")
    assert service.wire().renew().status == OK


@needs_openssl
@pytest.mark.parametrize("args,word", [
    (["-tls1_2"], "speaks no TLS 1.3"),
    ([], "speaks TLS without a secret"),
    (["-psk", key_of("another " + SECRET), "-psk_identity", "muster"], "wrong secret"),
    (["-psk", key_of(SECRET), "-psk_identity", "root"], "the name of another secret"),
    (["-psk", key_of(SECRET), "-psk_identity", "muster", "-ciphersuites",
      "TLS_CHACHA20_POLY1305_SHA256"], "a suite that is not spoken here"),
    (["-psk", key_of(SECRET), "-psk_identity", "muster", "-groups", "P-384"],
     "a suite that is not spoken here"),
    (["-psk", key_of(SECRET), "-psk_identity", "muster", "-tls1_2", "-cipher", "PSK"],
     "speaks no TLS 1.3"),
])
def test_a_downgrade_is_refused(secured, args, word):
    """A client asks for an older TLS, another suite, another identity, or offers no key. It is
    refused, and the log says which."""
    said = s_client(secured.address, *args)
    assert "Reused, TLSv1.3" not in said.stdout
    assert "Cipher is TLS_" not in said.stdout
    secured.log.wait_for("connection-refused", word)


@needs_openssl
def test_a_client_trusts_no_certificate(muster, tmp_path, secret_file):
    """A server with a certificate, and without the secret, poses as the service. The client
    trusts no certificate and sends it nothing."""
    subprocess.run([OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=127.0.0.1", "-keyout",
                    tmp_path / "key.pem", "-out", tmp_path / "cert.pem"], check=True,
                   capture_output=True, timeout=WAIT_S)
    port = free_port()
    with subprocess.Popen([OPENSSL, "s_server", "-accept", f"127.0.0.1:{port}", "-key",
                           tmp_path / "key.pem", "-cert", tmp_path / "cert.pem"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as poser:
        for line in poser.stdout:
            if line.startswith("ACCEPT"):
                break
        done = muster("key", "put", "k", "precious", "--addr", f"127.0.0.1:{port}",
                      "--secret-file", secret_file())
        poser.kill()
        assert "precious" not in poser.stdout.read()
    one_line(done, "it offers a certificate and does not know the secret")


@needs_openssl
@pytest.mark.parametrize("args,word", [
    (["-tls1_2", "-psk", key_of(SECRET)], "speaks no TLS there"),
    (["-tls1_3", "-psk", key_of("another " + SECRET), "-psk_identity", "muster"], "wrong secret"),
    (["-tls1_3", "-psk", key_of(SECRET), "-psk_identity", "muster", "-ciphersuites",
      "TLS_CHACHA20_POLY1305_SHA256"], "it takes no secret"),
    (["-tls1_3", "-psk", key_of(SECRET), "-psk_identity", "root"], ""),
])
def test_a_client_is_not_talked_down(muster, serve, secret_file, tmp_path, args, word):
    """A server poses as the service and wants an older TLS, another suite, another key, or none.
    The client goes no further, and says why."""
    said = Refusal(serve, muster, secret_file, tmp_path).server("-nocert", *args)
    assert word in said
    assert "connecting to" in said


def test_bytes_that_are_no_tls(secured, muster, secret_file):
    """Bytes that are no TLS arrive. Each costs its sender the connection."""
    for noise in (b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b"\x16\xff\xff\xff\xff" * 100,
                  b"\x16\x03\x01\xff\xff" + b"\0" * 20000, b"\x16\x03\x01\x00\x05hello"):
        bad = connect(secured.address)
        bad.sendall(noise)
        bad.settimeout(WAIT_S)
        try:
            while bad.recv(4096):
                pass
        except ConnectionError:
            pass
        bad.close()
    secured.log.wait_for("connection-refused", count=5)
    there = ("--addr", secured.address, "--secret-file", secret_file())
    assert muster("key", "put", "k", "v", *there).returncode == 0


# ---- what strangers cost ----


def test_a_handshake_that_is_not_finished_ends(serve, muster, secret_file):
    """A client connects and does not finish the handshake. After one lease the connection is
    closed and the log says why. [Strangers]"""
    service = serve("--addr", "127.0.0.1:0", "--lease", "3s", "--secret-file", secret_file())
    hello = client_hello(muster, secret_file())
    strangers = []
    for said in (b"", hello[:1], hello[:200], hello):
        stranger = connect(service.address)
        stranger.sendall(said)
        strangers.append(stranger)
    for stranger in strangers:
        while stranger.recv(4096):
            pass
    service.log.wait_for("does not finish its TLS handshake", count=3)
    service.log.wait_for("asks nothing", count=1)


def test_a_thousand_unfinished_handshakes_cost_a_member_nothing(serve, spawn, muster, env,
                                                                secret_file):
    """A thousand clients do not finish their handshakes, again and again. The oldest go, the log
    takes a bounded number of lines, members renew and others are let in. [Strangers]"""
    path = secret_file()
    own = "unix:" + env["MUSTER_RUNTIME_DIR"] + "/own.sock"
    service = serve("--addr", own, "--addr", "127.0.0.1:0", "--lease", f"{int(LEASE_S * 1000)}ms",
                    "--secret-file", path, "--handshakes-max", "300")
    tcp = service.address.split(",")[1]
    there = ("--addr", tcp, "--secret-file", path)
    hello = client_hello(muster, path)
    member = spawn("barrier", "b", "-n", "2", *there)
    service.log.wait_for("barrier/b", "member-ready #0")
    start = time.monotonic()
    end = start + FLOOD_LEASES * LEASE_S
    strangers, count, slowest = [], 0, 0.0
    while count < 1000 or time.monotonic() < end:
        stranger = connect(tcp)
        stranger.sendall((b"", hello[:1], hello[:-1], hello)[count % 4])
        strangers.append(stranger)
        count += 1
        if count % 500 == 0:
            assert muster("key", "put", "k", "v", *there).returncode == 0
            witness = Wire(own)
            began = time.monotonic()
            assert witness.open().status == OK
            slowest = max(slowest, time.monotonic() - began)
        if len(strangers) > 1000:
            strangers.pop(0).close()
    assert slowest < LEASE_S
    assert muster("barrier", "b", "-n", "2", *there).returncode == 0
    assert member.wait() == 0
    assert service.log.having("member-lost") == []
    assert service.log.having("member-silent") == []
    service.log.wait_for("connection-refused", "too many handshakes are under way")
    service.log.wait_for("strangers-refused more=")  # told, and not a line for each
    told = service.log.having("connection-refused")
    assert len(told) <= COMPLAINTS * (time.monotonic() - start + 1)
    for stranger in strangers:
        stranger.close()


def test_a_turn_does_not_wait_for_all_strangers(serve, muster, env, secret_file):
    """Hundreds of strangers speak first at the same moment. Clients that were let in are answered
    between them. [Strangers]"""
    own = "unix:" + env["MUSTER_RUNTIME_DIR"] + "/own.sock"
    path = secret_file()
    service = serve("--addr", own, "--addr", "127.0.0.1:0", "--secret-file", path, "--log-level",
                    "debug", "--lease", "60s")
    tcp = service.address.split(",")[1]
    hello = client_hello(muster, path)
    witness = Wire(own)
    assert witness.open().status == OK
    for attempt in range(1, 4):  # the last may have been answered while this process slept
        strangers = [connect(tcp) for _ in range(CROWD)]
        service.log.wait_for("connection-accepted", "peer=127", count=CROWD * attempt)
        service.signal(signal.SIGSTOP)
        for stranger in strangers:
            stranger.sendall(hello)
        request = witness.request("renew")
        witness.send(request)
        service.signal(signal.SIGCONT)
        witness.receive()
        answered, _, _ = select.select(strangers, [], [], 0)
        for stranger in strangers:
            stranger.close()
        if len(answered) < CROWD:
            return
    pytest.fail("all strangers came first")


@pytest.fixture
def intrude(started, env):
    """intrude(service, what) starts one who knows the secret and does not behave."""

    def start(service, what, said=b""):
        port = service.address.rsplit(":", 1)[1]
        process = Process([BUILD / "tests/process/intruder", port, key_of(SECRET), what], env,
                          stdin=subprocess.PIPE)
        with contextlib.suppress(BrokenPipeError):  # the service may cut it off before it has taken all
            process.process.stdin.buffer.write(said)
            process.process.stdin.close()
        process.out.wait_for("in")
        started.append(process)
        return process

    return start


def peak_kib(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


class Said(Wire):
    """What a client says, kept instead of sent."""

    def __init__(self):
        self.bytes, self.last_id = HELLO, 0

    def send(self, data):
        self.bytes += data

    def ask(self, command, body=b""):
        self.post(command, body)


class Renewing:
    """A member with a short lease, and a service whose members' misfortunes it counts."""

    def __init__(self, serve, spawn, path):
        self.service = serve("--addr", "127.0.0.1:0", "--lease", f"{int(LEASE_S * 1000)}ms",
                             "--secret-file", path)
        self.there = ("--addr", self.service.address, "--secret-file", path)
        self.member = spawn("barrier", "b", "-n", "2", *self.there)
        self.service.log.wait_for("barrier/b", "member-ready #0")

    def lives_through(self, muster, meanwhile=lambda: None):
        end = time.monotonic() + FLOOD_LEASES * LEASE_S
        while time.monotonic() < end:
            meanwhile()
            assert muster("key", "put", "k", "v", *self.there).returncode == 0
        assert muster("barrier", "b", "-n", "2", *self.there).returncode == 0
        assert self.member.wait() == 0
        assert self.service.log.having("member-lost") == []
        assert self.service.log.having("member-silent") == []
        assert peak_kib(self.service) < MEMORY_KIB


@pytest.mark.parametrize("what", ["rekey", "rekey-read"])
def test_who_asks_for_new_keys_without_end_is_hung_up_on(secured, intrude, what):
    """A client with the secret asks for new keys again and again. After 256 times it is hung up
    on; members renew meanwhile. [Misbehaving clients with the secret]"""
    intrude(secured, what).out.wait_for("out")
    secured.log.wait_for("connection-refused", "asks for new keys again and again")


def test_who_asks_for_new_keys_without_end_costs_a_member_nothing(serve, spawn, muster,
                                                                   secret_file, intrude):
    """A client with the secret asks for new keys again and again. After 256 times it is hung up
    on; members renew meanwhile. [Misbehaving clients with the secret]"""
    renewing = Renewing(serve, spawn, secret_file())

    def again():
        intrude(renewing.service, "rekey").out.wait_for("out")

    renewing.lives_through(muster, meanwhile=again)


def test_who_asks_and_never_reads_costs_a_member_nothing(serve, spawn, muster, secret_file,
                                                         intrude):
    """A client with the secret asks for much and reads nothing. It is read no further; the
    service's memory stays small, members renew. [Misbehaving clients with the secret]"""
    renewing = Renewing(serve, spawn, secret_file())
    large = "x" * 500_000
    assert muster("key", "put", "large", "-", *renewing.there, input=large).returncode == 0
    asker = Said()
    asker.open(job="barrier")
    for _ in range(400):
        asker.get("large")
    intruder = intrude(renewing.service, "pipe", asker.bytes)
    intruder.out.wait_for("sent")
    renewing.lives_through(muster)


@pytest.mark.parametrize("said,reason", [
    (b"GET / HTTP/1.1\r\n\r\n", "TLS: "),  # plain text
    (b"\x17\x03\x03\xff\xff" + bytes(65535), "TLS: "),  # a record larger than there are
    (b"\x17\x03\x03\x40\x00" + bytes(16384), "TLS: "),  # a record that nobody sealed
    (b"\x16\x03\x03\x00\x05hello", "TLS: "),  # a second handshake
    (b"\x17\x03\x03\x40\x00" + bytes(100), "asks nothing"),  # half of one, and no more
], ids=["plain", "huge", "forged", "handshake", "half"])
def test_what_is_no_record_ends_a_connection(serve, secret_file, intrude, said, reason):
    """A client with the secret sends plain text, a forged, huge or half record, or a second
    handshake. Its connection ends; with half a record, after one lease without a request.
    [Misbehaving clients with the secret]"""
    service = serve("--addr", "127.0.0.1:0", "--lease", "3s", "--secret-file", secret_file())
    intruder = intrude(service, "raw", said)
    intruder.out.wait_for("out")
    service.log.wait_for("connection-refused", reason)


def test_who_says_goodbye_is_let_go(serve, secret_file, intrude):
    """A client says goodbye and keeps its socket open, behind a request or without one. The
    service closes. [Misbehaving clients with the secret]"""
    service = serve("--addr", "127.0.0.1:0", "--secret-file", secret_file())
    intrude(service, "goodbye").out.wait_for("out")
    intrude(service, "goodbye", HELLO).out.wait_for("out")
    assert service.log.having("connection-refused") == []


def test_strangers_are_in_no_journal(serve, muster, secret_file, tmp_path):
    """Strangers come while there is a journal. Nothing of them is in it: the core sees only
    clients that have shown the secret. [Strangers]"""
    path, journal = secret_file(), tmp_path / "journal"
    args = ("--addr", "127.0.0.1:0", "--secret-file", path, "--journal", journal)
    service = serve(*args, "--log-level", "debug")
    hello = client_hello(muster, path)
    strangers = [connect(service.address) for _ in range(CROWD)]
    for stranger in strangers:
        stranger.sendall(hello)
        stranger.recv(1)
    service.kill()
    for stranger in strangers:
        stranger.close()
    line = serve(*args).log.wait_for("journal-recovered")
    assert int(line.split("records=")[1].split()[0]) < 10


def test_thousands_come_back_when_the_service_does(serve, env, started, secret_file, tmp_path):
    """The service is killed and begins again, and thousands of clients come at once. All are back
    within their lease, none is refused. [With the secret]"""
    address = f"127.0.0.1:{free_port()}"
    path = secret_file()
    args = ("--addr", address, "--secret-file", path, "--journal", tmp_path / "journal", "--lease",
            "60s")
    service = serve(*args)
    crowd = Process([BUILD / "tests/process/crowd", THOUSANDS],
                    {**env, "MUSTER_ADDR": address, "MUSTER_SECRET_FILE": str(path)},
                    stdin=subprocess.PIPE)
    started.append(crowd)
    crowd.out.wait_for("in")
    service.kill()
    service = serve(*args)
    crowd.process.stdin.write("\n")
    crowd.process.stdin.flush()
    crowd.out.wait_for("back")
    assert crowd.wait() == 0
    assert service.log.having("member-lost") == []
    # On a slow machine some give a connection up that is not looked at in time, and come again;
    # while those that were given up are still among the handshakes, there may be too many of them.
    assert [line for line in service.log.having("connection-refused")
            if "left before its TLS handshake began" not in line
            and "too many handshakes are under way" not in line] == []


# ---- a run over several nodes ----


def tree(pid):
    """The process and all below it."""
    below = pathlib.Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(each for children in below for child in children.read_text().split()
                   for each in tree(int(child)))]


def descriptors(pid):
    """{where it is told: what it is} of those that a process has open. Who looks for the service
    opens and closes some meanwhile."""
    found = {}
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found[link] = os.readlink(link)
    return found


def holds_secret(pid):
    """The descriptors of a process from which the secret can be read."""
    held = []
    for link, what in descriptors(pid).items():
        if "muster-secret" in what:
            assert link.read_bytes() == SECRET.encode()
            held.append(int(link.name))
    return held


@pytest.fixture
def pipe_with_secret():
    """pipe_with_secret() is the end of a pipe from which it can be read, once."""
    readers = []

    def make():
        reader, writer = os.pipe()
        os.write(writer, SECRET.encode() + b"\n")
        os.close(writer)
        readers.append(reader)
        return reader

    make.readers = readers
    yield make
    for reader in readers:
        os.close(reader)


def test_a_run_gives_the_descriptor_on_and_shows_nobody_the_secret(spawn, muster, env, tmp_path,
                                                                   secret_file, pipe_with_secret):
    """`muster run` gets the secret by descriptor, a pipe even. Its service, also one that is
    started again, and its ranks read a sealed copy in memory; no argument, environment or file
    has it, and no other secret that the environment named reaches a rank. [The secret's file]"""
    fd = pipe_with_secret()
    # What else the environment names is another job's, and must not reach a rank.
    wrong = {**env, "MUSTER_SECRET_FILE": str(secret_file("another " + SECRET))}
    first = Run(spawn, muster, 2, "--nnodes", 2, "--listen", "127.0.0.1:0", "--secret-fd", fd,
                env=wrong, pass_fds=[fd])
    words = joining(first)
    at = words.index("--secret-fd") + 1
    fd = pipe_with_secret()
    words[at] = str(fd)
    originals = {os.readlink(f"/proc/self/fd/{end}") for end in pipe_with_secret.readers}
    elsewhere = {**wrong, "MUSTER_RUNTIME_DIR": str(tmp_path), "MUSTER_STATE_DIR": str(tmp_path)}
    second = spawn("run", *words, env=elsewhere, pass_fds=[fd])
    second.out.wait_for("entered generation=", count=2)
    first.entered(size=2)

    os.kill(first.service(), signal.SIGKILL)  # the next one has the secret too
    first.log.wait_for("it is started again")
    pids = tree(first.run.pid) + tree(second.pid)
    assert len(pids) >= 7  # two runs, a service, four ranks
    for pid in pids:
        for name in ("cmdline", "environ"):
            held = pathlib.Path(f"/proc/{pid}/{name}").read_bytes()
            assert SECRET.encode() not in held
            assert key_of(SECRET).encode() not in held
    ranks = [int(pid) for run in (first.out, second.out)
             for pid in re.findall(r"entered generation=1 .*pid=(\d+)", "\n".join(run.lines))]
    assert len(ranks) == 4
    for pid in ranks:
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        named = [int(each.split(b"=")[1]) for each in environment
                 if each.startswith(b"MUSTER_SECRET_FD=")]
        assert holds_secret(pid) == named != []
        assert not originals & set(descriptors(pid).values())
    there = ("-j", first.job, "--addr", words[words.index("--join") + 1], "--secret-file",
             secret_file())
    for index in range(4):
        assert muster("key", "put", f"order-{index}-1", "ok", *there).returncode == 0
    assert second.wait() == 0
    assert first.run.wait() == 0
    assert list(tmp_path.glob("*.secret")) == []  # none was made


def test_the_secret_of_another_job_in_the_environment_does_not_reach_a_rank(
        spawn, muster, env, tmp_path, secret_file):
    """`muster run` gets the secret by descriptor, a pipe even. Its service, also one that is
    started again, and its ranks read a sealed copy in memory; no argument, environment or file
    has it, and no other secret that the environment named reaches a rank. [The secret's file]"""
    with open(secret_file("another " + SECRET), "rb") as other:
        fd = other.fileno()
        wrong = {**env, "MUSTER_SECRET_FD": str(fd), "MUSTER_INSECURE": "1"}
        first = Run(spawn, muster, 2, "--nnodes", 2, "--listen", "127.0.0.1:0", "--secret-file",
                    secret_file(), env=wrong, pass_fds=[fd])
        elsewhere = {**wrong, "MUSTER_RUNTIME_DIR": str(tmp_path)}
        second = spawn("run", *joining(first), env=elsewhere, pass_fds=[fd])
        second.out.wait_for("entered generation=", count=2)
    for index in range(4):
        first.order(index, 1, "ok")
    assert (second.wait(), first.run.wait()) == (0, 0)


# ---- the secret's file ----


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o666])
def test_a_secret_that_others_can_read_is_refused(muster, secured, secret_file, mode):
    """Others can read or write the secret's file, or it belongs to another user. It is refused,
    with what to do. [The secret's file]"""
    path = secret_file(mode=mode)
    words = (str(path), "can be read or written by other users", "chmod 600")
    one_line(muster("serve", "--addr", "127.0.0.1:0", "--secret-file", path), *words)
    one_line(muster("key", "get", "k", "--addr", secured.address, "--secret-file", path), *words)


def test_a_secret_that_is_none_is_refused(muster, secured, secret_file):
    """The secret is too short, too long, or not there. One line says so. [The secret's file]"""
    one_line(muster("serve", "--secret-file", secret_file("short")), "too few bytes", "16 to 64")
    one_line(muster("serve", "--secret-file", secret_file("x" * 100)), "too many bytes")
    one_line(muster("serve", "--secret-file", "/nowhere"), "/nowhere", "No such file")
    one_line(muster("serve", "--secret-fd", "77"), "descriptor 77", "Bad file descriptor")
    one_line(muster("key", "get", "k", "--addr", secured.address, "--secret-file", "/nowhere"),
             "cannot read the secret from '/nowhere'")


def test_contradictions_are_refused(muster, secret_file):
    """`--insecure` or a second source is given beside a secret. That is wrong usage, and 2.
    [The secret's file]"""
    for args, word in ((("--insecure", "--secret-file", secret_file()), "contradict"),
                       (("--secret-fd", "3", "--secret-file", secret_file()), "not both")):
        done = muster("serve", *args)
        assert done.returncode == 2
        assert word in done.stderr


def test_the_secret_is_in_no_argument_and_no_environment(serve, spawn, env, secret_file):
    """The processes of a job with a secret are looked at. The secret is in no argument, no
    environment and no log. [The secret's file]"""
    path = secret_file()
    service = serve("--addr", "127.0.0.1:0", "--secret-file", path)
    member = spawn("barrier", "b", "-n", "2", "--addr", service.address,
                   env={**env, "MUSTER_SECRET_FILE": str(path)})
    service.log.wait_for("member-ready #0")
    for process in (service, member):
        for name in ("cmdline", "environ"):
            held = pathlib.Path(f"/proc/{process.pid}/{name}").read_bytes()
            assert SECRET.encode() not in held
            assert key_of(SECRET).encode() not in held
    member.kill()
    assert not any(SECRET in line for line in service.log.lines)


# ---- what both sides say ----


class Refusal:
    """What there is to make one: `service` has a secret, and one lease of patience."""

    def __init__(self, serve, muster, secret_file, folder):
        self.serve, self.muster, self.secret_file, self.folder = serve, muster, secret_file, folder
        self.path = secret_file()
        self.service = serve("--addr", "127.0.0.1:0", "--secret-file", self.path, "--lease", "4s",
                             "--handshakes-max", 3)

    def client(self, address=None, path=None):
        path = self.path if path is None else path
        return self.muster("barrier", "b", "-n", 1, "--timeout", "5s", "--addr",
                           address or self.service.address,
                           *(("--secret-file", path) if path else ())).stderr

    def stranger(self, *said):
        """Says that, one after the other, and stays."""
        stranger = connect(self.service.address)
        for part in said:
            stranger.sendall(part)
        return stranger

    def hello(self):
        return client_hello(self.muster, self.path)

    def of_openssl(self, *args):
        s_client(self.service.address, *args)

    def server(self, *args):
        """What a client says to an openssl server."""
        port = free_port()
        with subprocess.Popen([OPENSSL, "s_server", "-accept", f"127.0.0.1:{port}", *args],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            for line in server.stdout:
                if line.startswith("ACCEPT"):
                    break
            said = self.client(f"127.0.0.1:{port}")
            server.kill()
            return said

    def certified(self):
        key, cert = self.folder / "key.pem", self.folder / "cert.pem"
        subprocess.run([OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x", "-keyout", key,
                        "-out", cert], check=True, capture_output=True, timeout=WAIT_S)
        return self.server("-key", key, "-cert", cert)

    def answered(self, answer):
        """What a client says to who answers that and hangs up."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            def serve():
                while True:
                    try:
                        peer, _ = listener.accept()
                    except OSError:
                        return
                    with peer:
                        peer.recv(65536)
                        peer.sendall(answer)

            threading.Thread(target=serve, daemon=True).start()
            said = self.client(f"127.0.0.1:{listener.getsockname()[1]}")
            listener.shutdown(socket.SHUT_RDWR)
            return said

    def crowd(self):
        """There is no room for the last ones."""
        self.service = self.serve("--addr", "127.0.0.1:0", "--secret-file", self.path, "--lease", "1h",
                                  "--connections-max", 4)
        silent = [connect(self.service.address) for _ in range(4)]
        until(lambda: connect(self.service.address).close() or self.service.log.having("gives way"))
        return silent

    def plain_service(self):
        self.service = self.serve("--addr", "127.0.0.1:0")
        return self.client()

    def who_does_not_finish(self):
        stranger = self.stranger(self.hello())
        stranger.recv(65536)  # it has been greeted, and nothing is left unread
        stranger.close()

    def who_does_not_wait(self):
        hello = self.hello()
        self.service.signal(signal.SIGSTOP)
        self.stranger(hello).close()
        self.service.signal(signal.SIGCONT)

    def a_flood(self):
        hello = self.hello()
        return [self.stranger(hello) for _ in range(4)]


# The words that a row of the table begins with, and what makes both sides say them.
REFUSALS = {
    "wrong secret": lambda it: it.client(path=it.secret_file("another " + SECRET)),
    "this service wants TLS": lambda it: it.client(path=""),
    "the service speaks no TLS there": lambda it: it.plain_service(),
    "it offers a certificate": lambda it: it.certified(),
    "the peer speaks no TLS": lambda it: it.answered(b"HTTP/1.1 400 No\r\n\r\n"),
    "it takes no secret": lambda it: it.server("-nocert", "-tls1_3", "-psk", key_of(SECRET),
                                                    "-psk_identity", "muster", "-ciphersuites",
                                                    "TLS_CHACHA20_POLY1305_SHA256"),
    "closed during the TLS handshake: is it": lambda it: it.answered(b""),
    "closed during the TLS handshake": lambda it: it.who_does_not_finish(),
    "left before its TLS handshake began": lambda it: it.who_does_not_wait(),
    "too many handshakes": lambda it: it.a_flood(),
    "does not finish its TLS handshake": lambda it: it.stranger(it.hello()),
    "asks nothing": lambda it: it.stranger(),
    "gives way to others": lambda it: it.crowd(),
    "speaks no TLS": lambda it: it.stranger(b"GET / HTTP/1.1\r\n\r\n"),
    "speaks no TLS 1.3": lambda it: it.of_openssl("-tls1_2"),
    "speaks TLS without a secret": lambda it: it.of_openssl(),
    "speaks TLS with the name of another": lambda it: it.of_openssl("-psk", key_of(SECRET),
                                                                     "-psk_identity", "root"),
    "a TLS handshake of more than": lambda it: it.stranger(b"\x16\x03\x01\x40\x00", bytes(16400)),
}


def documented_refusals():
    """[(what the client says, what the log says)], of docs/security.md."""
    lines = (ROOT / "docs/security.md").read_text().splitlines()
    first = lines.index("| the client says | the service's log says | do |") + 2
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first:])
    return [tuple(cell.strip() for cell in row.split("|")[1:3]) for row in rows]


@needs_openssl
@pytest.mark.parametrize("client,log", documented_refusals())
def test_each_refusal_is_told_as_documented(serve, muster, secret_file, tmp_path, client, log):
    """A connection is refused for its secret or its TLS. Both sides say so in the words of the
    table in docs/security.md."""
    stage = Refusal(serve, muster, secret_file, tmp_path)
    words = max((words for words in REFUSALS if (client or log).startswith(words)), key=len)
    said = REFUSALS[words](stage)
    if client:
        assert client in said
    if log:
        stage.service.log.wait_for("connection-refused", f'reason="{log}"')


def test_each_refusal_is_documented():
    """A connection is refused for its secret or its TLS. Both sides say so in the words of the
    table in docs/security.md."""
    assert len(REFUSALS) == len(documented_refusals())


# ---- addresses that others can reach ----


def test_any_address_with_a_secret(serve, muster, secret_file):
    """A service with a secret listens on any address. [Addresses]"""
    path = secret_file()
    for everywhere in ("0.0.0.0:0", "[::]:0"):
        service = serve("--addr", everywhere, "--secret-file", path)
        port = service.address.rsplit(":", 1)[1]
        done = muster("key", "add", "n", "--addr", f"127.0.0.1:{port}", "--secret-file", path)
        assert done.stdout == "1\n", done.stderr
        assert not service.log.having("warning")


def test_insecure_warns_at_each_start(serve, muster, env):
    """A service without a secret is to listen anywhere, with `--insecure`. It does, and warns at
    each start, whatever the log level. [Addresses]"""
    for _ in range(2):
        service = serve("--addr", "0.0.0.0:0", "--insecure", "--log-level", "error")
        service.log.wait_for("warning: --insecure", service.address)
    port = service.address.rsplit(":", 1)[1]
    assert Wire(f"127.0.0.1:{port}").open().status == OK


def test_insecure_must_be_typed_for_a_service(muster, env):
    """A service without a secret is to listen anywhere, with `MUSTER_INSECURE` only. It is
    refused: for a service `--insecure` must be typed. [Addresses]"""
    done = muster("serve", "--addr", "0.0.0.0:0", env={**env, "MUSTER_INSECURE": "1"})
    one_line(done, "refused to serve on 0.0.0.0:0", "--secret-file", "--insecure")


def test_a_client_says_nothing_in_plain_to_other_machines(muster, env):
    """A client without a secret is given another machine's address, or a name. It fails with
    EINVAL, unless `MUSTER_INSECURE=1` or `--insecure`. [Addresses]"""
    one_line(muster("key", "get", "k", "--addr", "192.0.2.1:7000"), "192.0.2.1:7000",
             "needs a secret (MUSTER_SECRET_FILE)", "MUSTER_INSECURE=1")
    one_line(muster("key", "get", "k", "--addr", "node7.invalid:7000"), "node7.invalid:7000", "is not known")
    for options in ({"env": {**env, "MUSTER_INSECURE": "1"}}, {}):
        args = [] if "env" in options else ["--insecure"]
        done = muster("barrier", "b", "-n", 1, "--addr", "nowhere.invalid:7000", "--timeout",
                      "100ms", *args, **options)
        one_line(done, "no service at nowhere.invalid:7000", code=124)


@pytest.mark.skipif(sanitized(), reason="a sanitizer finds its libraries in another way")
def test_a_machine_without_openssl_says_what_to_install(muster, serve, secret_file, env, tmp_path):
    """A secret is given and OpenSSL is missing: a file that is no library, or another one, stands
    in its place. One line says which package to install. Without a secret OpenSSL is not
    needed. [With the secret]"""
    (tmp_path / "libssl.so.3").write_bytes(b"no library")
    path = secret_file()
    for folder, words in ((tmp_path, ("cannot be loaded", "install the package libssl3")),
                          (BUILD / "tests/process/ssl_without", ("libssl.so.3 has no BIO_ctrl",))):
        hidden = {**env, "LD_LIBRARY_PATH": str(folder)}
        args = ("--addr", "127.0.0.1:9", "--secret-file", path)
        for command in (("key", "get", "k"), ("serve",)):
            one_line(muster(*command, *args, env=hidden), "a secret needs OpenSSL 3", *words)
        # Without a secret nobody misses it.
        service = serve("--addr", "127.0.0.1:0", env=hidden)
        done = muster("key", "put", "k", "v", "--addr", service.address, env=hidden)
        assert done.returncode == 0, done.stderr
