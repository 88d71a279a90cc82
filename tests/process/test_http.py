# SPDX-License-Identifier: Apache-2.0
"""`--http`: health, metrics and status of the service, with real clients.

behaviour: http / Metrics
"""

import collections
import contextlib
import ctypes
import itertools
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from conftest import MUSTER, ROOT, WAIT_S, free_port, pause, sanitized
from exposition import parse
from running import Run, read, until
from wire import OK, Reply, Wire, field

STUCK_S = 5  # MST_HTTP_STUCK_MS
EPOLL_WAIT = {"232", "281", "441", "22"}  # and its relatives, here and on arm64
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Http:
    """The port of a service that was started with --http."""

    def __init__(self, service):
        line = service.out.wait_for("muster: health and metrics on ")
        self.url = line.split(" on ", 1)[1]
        self.place = self.url[len("http://") :]

    def get(self, path, method="GET", **headers):
        """(status, headers, body)"""
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def metrics(self):
        return parse(read(self.url + "/metrics"))

    def until(self, holds):
        """Asks until the metrics are as they should be: what changes them is already on its way."""
        deadline = time.monotonic() + WAIT_S
        while not holds(metrics := self.metrics()):
            assert time.monotonic() < deadline, metrics
            pause()
        return metrics

    def connect(self, own=None):
        """From an address of one's own, if there is one."""
        host, port = self.place.rsplit(":", 1)
        return socket.create_connection((host.strip("[]"), int(port)), WAIT_S,
                                        (own, 0) if own else None)


@pytest.fixture
def http(serve):
    """http(flags...) -> the service and its port."""

    def start(*args, **options):
        service = serve("--http", "127.0.0.1:0", *args, **options)
        service.http = Http(service)
        return service

    return start


# ---- health ----


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz"])
def test_health_is_ok(http, path):
    """`/livez`, `/readyz` and `/healthz` answer 200 with the body `ok` when all is well. [Health]"""
    code, headers, body = http().http.get(path)
    assert (code, body) == (200, "ok")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"


def test_verbose_lists_the_checks_and_exclude_drops_one(http):
    """A reader adds `?verbose`: every check is listed with how it stands. A reader excludes a
    check: it no longer counts; an unknown name changes nothing. [Health]"""
    get = http().http.get
    assert get("/livez?verbose")[2] == "loop: ok\nok"
    assert get("/readyz?verbose")[2] == "loop: ok\nrecovery: ok\njournal: ok\nserving: ok\nok"
    assert get("/readyz?verbose&exclude=loop&exclude=serving")[2] == (
        "loop: excluded\nrecovery: ok\njournal: ok\nserving: excluded\nok")
    assert get("/livez?exclude=nonsense")[2] == "ok"


def asking(*paths):
    """What asks for them on one connection, one after the other."""
    return b"".join(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path.encode() for path in paths)


def answered(answers):
    """(status, body) of the next answer."""
    status = int(answers.readline().split()[1])
    size = 0
    while line := answers.readline().strip():
        if line.lower().startswith(b"content-length:"):
            size = int(line.split()[1])
    return status, answers.read(size).decode()


def test_a_stopping_service_is_alive_and_not_ready(http):
    """The service was asked to stop and a client does not read its last words. It is alive and
    not ready, and says that it is stopping. [Health]"""
    service = http("--output-bytes-max", "64m")
    slow = service.wire()
    assert slow.put("large", b"x" * 1000000).status == OK
    slow.send(b"".join(slow.request("get", field(2, "large")) for _ in range(20)))
    assert service.wire().renew().status == OK  # so the requests before it were taken in
    with service.http.connect() as kept, kept.makefile("rb") as answers:
        kept.sendall(asking("/readyz"))
        assert answered(answers) == (200, "ok")
        with thread_stopped(service.pid) as goes_on:
            service.signal(signal.SIGTERM)
            while service.http.get("/readyz")[0] == 200:
                goes_on()
            # That last connection would be given a second and no more.
            kept.sendall(asking("/readyz", "/readyz?exclude=serving", "/livez"))
            assert answered(answers) == (503, "serving: the service is stopping\n")
            assert answered(answers) == (200, "ok")
            assert answered(answers) == (200, "ok")
    slow.close()


@contextlib.contextmanager
def thread_stopped(pid):
    """The main thread of a process stands still, and no other of it: where it waits for events, as
    elsewhere it might hold a lock that the others need. What this yields lets it go on to where it
    begins to wait for the next ones."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    seize, interrupt, detach, wall = 0x4206, 0x4207, 17, 0x40000000
    to_call, mark_calls, call_info = 24, 1, 0x420E
    waits = False

    def in_wait():
        with open(f"/proc/{pid}/syscall", encoding="ascii") as call:
            return call.read().split()[0] in EPOLL_WAIT

    def enters_call():
        info = ctypes.create_string_buffer(128)
        libc.ptrace(call_info, pid, len(info), ctypes.addressof(info))
        return info.raw[0] == 1

    def goes_on():
        number = 0
        while True:
            assert libc.ptrace(to_call, pid, 0, number) == 0
            number = os.WSTOPSIG(os.waitpid(pid, wall)[1])
            if number == signal.SIGTRAP | 0x80 and enters_call() and in_wait():
                return
            number = 0 if number & 0x7F == signal.SIGTRAP else number  # one for the process

    while not waits:
        if libc.ptrace(seize, pid, 0, mark_calls) != 0:
            pytest.skip(f"may not trace: {os.strerror(ctypes.get_errno())}")
        assert libc.ptrace(interrupt, pid, 0, 0) == 0
        os.waitpid(pid, wall)  # it is stopped now
        waits = in_wait()
        if not waits:
            assert libc.ptrace(detach, pid, 0, 0) == 0
    try:
        yield goes_on
    finally:
        assert libc.ptrace(detach, pid, 0, 0) == 0


def test_a_stuck_loop_fails_livez_within_its_bound(http):
    """The service's loop stands still while the process lives. `/livez` fails after five seconds
    and says for how long; metrics and status answer 503 instead of waiting, and only the first
    waits a second. All is well again when the loop goes on. [Health]"""
    service = http()
    get = service.http.get
    assert get("/livez")[0] == 200
    with thread_stopped(service.pid):
        began = time.monotonic()
        while (answer := get("/livez"))[0] == 200:
            assert time.monotonic() - began < STUCK_S + WAIT_S
            pause()
        assert answer[0] == 503
        assert re.fullmatch(r"loop: the loop has not turned for \d+\.\d s\n", answer[2])
        assert get("/readyz")[0] == 503
        assert get("/livez?exclude=loop")[0] == 200
        assert get("/metrics")[0::2] == (503, "the service's loop does not answer\n")
        assert get("/status.json")[0] == 503
    deadline = time.monotonic() + WAIT_S
    while get("/livez")[0] != 200 or get("/metrics")[0] != 200:
        assert time.monotonic() < deadline
        pause()
    assert service.wire().renew().status == OK


# ---- the protocol ----


def test_curl_reads_it(http):
    """curl reads the port, with HEAD too, and two requests share a connection. [Requests]"""
    service = http()
    run = lambda *args: subprocess.run(["curl", "-sS", *args], capture_output=True, text=True,
                                       check=True, timeout=WAIT_S).stdout
    assert run(service.http.url + "/livez") == "ok"
    head = run("-I", service.http.url + "/metrics")
    assert head.startswith("HTTP/1.1 200 OK") and f"Content-Type: {TEXT}" in head
    parse(run(service.http.url + "/metrics"))
    # Two requests share a connection.
    both = run("-w", "%{num_connects}", service.http.url + "/livez", service.http.url + "/livez")
    assert both == "ok1ok0"


def test_what_is_not_there_and_what_is_not_done(http):
    """A path is not there, or a method would change something. The answer is 404 with the paths
    that are, or 405 with the methods that are. [Requests]"""
    get = http().http.get
    assert get("/page")[0] == 404
    assert get("/livez/")[0] == 404
    assert "/readyz" in get("/favicon.ico")[2]
    for method in "POST", "PUT", "DELETE", "OPTIONS":
        code, headers, _ = get("/livez", method=method)
        assert (code, headers["Allow"]) == (405, "GET, HEAD")
    code, headers, body = get("/livez", method="HEAD")
    assert (code, headers["Content-Length"], body) == (200, "2", "")


def test_a_body_is_not_read(http):
    """A client sends a large body. It is not read: the answer comes at once and the connection
    ends. [Requests]"""
    service = http()
    with service.http.connect() as sock:
        sock.sendall(b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n" +
                     b"x" * 100000)
        assert sock.recv(4096).startswith(b"HTTP/1.1 405 ")
    assert service.http.get("/livez")[0] == 200


BAD = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00",
    "noise": b"nonsense\r\n\r\n",
    "the native dialect": b"MUSTER\0\x01\r\n\r\n",
    "a long path": b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n\r\n",
    "a large head": b"GET / HTTP/1.1\r\nX: " + b"y" * 100000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_requests_cost_their_sender_the_connection(http, bad):
    """A client sends TLS, noise, the native dialect, or an endless path or header. It costs its
    sender the connection and no other client anything. [Requests]"""
    service = http()
    said = b""
    with service.http.connect() as sock:
        try:
            sock.sendall(BAD[bad])
            while bad != "tls" and (more := sock.recv(65536)):  # which waits for more, to its limit
                said += more
        except ConnectionError:
            pass
    assert b" 200 " not in said
    assert service.http.get("/livez")[0] == 200
    assert service.wire().renew().status == OK


# What a probe waits by default: the best of some, as a busy machine may delay any. None waits until
# a head that does not come is too late, which is after ten seconds.
LIVEZ_S = 5 if sanitized() else 1
KEPT_S = 10
ADDRESSES = [f"127.0.0.{i}" for i in range(2, 7)]  # other peers, as far as the service can tell


def heads_that_never_end(http, number):
    sock = http.connect(ADDRESSES[number % 5])
    sock.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    return sock


def silence(http, number):
    return http.connect(ADDRESSES[number % 5])


def answers_that_are_not_read(http, number):
    sock = http.connect(ADDRESSES[number % 5])
    sock.sendall(asking(*["/metrics"] * 100))
    return sock


def bodies_that_never_end(http, number):
    sock = http.connect(ADDRESSES[number % 5])
    sock.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nx")
    return sock


def jobs_of_other_names(http, number):
    sock = http.connect(ADDRESSES[number % 5])
    sock.sendall(f"GET /status.json?job=no-{number} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    return sock


def idle_after_an_answer(http, number):
    sock = http.connect(ADDRESSES[number % 5])
    sock.sendall(asking("/livez"))
    with sock.makefile("rb") as answers:
        assert answered(answers) == (200, "ok")
    return sock


SLOW = [heads_that_never_end, silence, answers_that_are_not_read, bodies_that_never_end,
        jobs_of_other_names, idle_after_an_answer]


@pytest.mark.parametrize("slow", SLOW)
def test_health_is_answered_while_others_are_slow(http, slow):
    """Three hundred clients, more than there are places, connect from five addresses and say
    nothing, never finish a head or a body, do not read their answers, stay idle after one, or
    ask for the status of a job each. `/livez` is answered within what a probe waits, a second,
    and so are muster's own clients. [Requests]"""
    service = http()
    client = service.wire()
    socks = []
    took = {"probe": [], "client": []}

    def quick(what, ask):
        began = time.monotonic()
        assert ask()
        took[what].append(time.monotonic() - began)

    def ask_all():
        quick("probe", lambda: service.http.get("/livez")[0] == 200)
        quick("client", lambda: client.renew().status == OK)

    for number in range(300):
        socks.append(slow(service.http, number))
        if number % 10 == 9:  # while they come, too
            ask_all()
    for _ in range(20):
        ask_all()
    quick("client", lambda: service.wire().renew().status == OK)
    for times in took.values():
        assert min(times[-20:]) < LIVEZ_S and max(times) < KEPT_S, took
    for sock in socks:
        sock.close()
    until(lambda: service.http.get("/status.json")[0] == 200)


def ask_without_end(http, over, asked):
    """A new connection for each question, of another job each time; the last 200 are left open."""
    socks = collections.deque()
    for number in itertools.count():
        if over.is_set():
            break
        try:
            socks.append(jobs_of_other_names(http, number))
        except OSError:
            pass  # hung up on before it had asked
        asked.set()
        if len(socks) > 200:
            socks.popleft().close()
    for sock in socks:
        sock.close()


def test_health_and_metrics_are_answered_beside_readers_of_status_who_keep_coming(http):
    """Readers of the status of ever other jobs keep coming, from five addresses, and never read;
    each waits for the loop and keeps its place. `/livez` is answered within a second all the
    while, and `/metrics` as well. [Requests]"""
    service = http()
    over, asked = threading.Event(), threading.Event()
    crowd = threading.Thread(target=ask_without_end, args=(service.http, over, asked))
    crowd.start()
    try:
        assert asked.wait(WAIT_S)
        took = []
        for number in range(100):
            began = time.monotonic()
            assert service.http.get("/livez")[0] == 200
            took.append(time.monotonic() - began)
            if number % 10 == 9:
                assert service.http.get("/metrics")[0] == 200
        assert min(took[-20:]) < LIVEZ_S and max(took) < KEPT_S, took
    finally:
        over.set()
        crowd.join()
    until(lambda: service.http.get("/status.json")[0] == 200)


def peak_kib(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


@pytest.mark.skipif(sanitized(), reason="a sanitizer keeps what was freed")
def test_status_copies_no_value_that_is_larger_than_a_notice(http):
    """A client of the job puts large values where notices of preemption are. The status is made
    without copying them. [Requests]"""
    service = http()
    wire = service.wire()
    for number in range(60):
        assert wire.put(f"muster/preempt/x/{number}", b"x" * 1_000_000).status == OK
    before = peak_kib(service)
    assert service.http.get("/status.json")[0] == 200
    assert peak_kib(service) - before < 16 << 10


def test_status_is_told_to_no_name_that_is_not_ours(http):
    """`/status.json` is asked for under a foreign name, as a browser does for a page whose name
    points here. The answer is 403, in one line; addresses, `localhost`, the machine's name and
    the one of `--http` are accepted. Health and metrics are answered under any name.
    [Where it listens]"""
    get = http().http.get
    code, _, body = get("/status.json", Host="evil.example")
    assert code == 403 and body.startswith("/status.json is told where the Host of the request is ")
    for host in "127.0.0.1:1", "localhost", "[::1]:80", socket.gethostname():
        assert get("/status.json", Host=host)[0] == 200
    assert get("/livez", Host="muster.svc.cluster.local")[0] == 200
    assert get("/metrics", Host="muster.svc.cluster.local")[0] == 200


def test_the_name_that_was_given_is_ours(serve):
    """`/status.json` is asked for under a foreign name, as a browser does for a page whose name
    points here. The answer is 403, in one line; addresses, `localhost`, the machine's name and
    the one of `--http` are accepted. Health and metrics are answered under any name.
    [Where it listens]"""
    service = serve("--http", "localhost:0")
    assert Http(service).get("/status.json")[0] == 200


def test_clients_that_take_every_descriptor_leave_some_for_probes(http):
    """Clients of the job take every descriptor. Probes and scrapers are answered all the same.
    [Requests]"""
    service = http(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200)))
    clients = []
    for _ in range(200):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        clients.append(client)
        if client.connect_ex(service.address[len("unix:") :]) != 0:
            break  # the backlog is full
    # A quarter for this port, 24 for the service's own files.
    service.log.wait_for("accepting-paused", "connections=126")
    for path in "/livez", "/readyz", "/metrics", "/status.json":
        assert service.http.get(path)[0] == 200
    for client in clients:
        client.close()
    assert service.wire().renew().status == OK


def test_a_service_stops_with_clients_connected(http):
    """The service is stopped while HTTP clients are connected. It ends at once, with 0.
    [Requests]"""
    service = http()
    kept = [service.http.connect() for _ in range(5)]
    kept[0].sendall(b"GET /metrics HTTP/1.1\r\n")
    service.signal(signal.SIGTERM)
    assert service.wait() == 0


# ---- where it listens ----


def test_a_run_prints_its_port_and_keeps_it(spawn, muster):
    """`muster run --http` has port 0, and the service is killed. The run prints the port that the
    system chose; the next service has it too, and both are called `muster` in ps, top and ss.
    [Where it listens]"""
    job = Run(spawn, muster, 1, "--http", "localhost:0")
    line = job.log.wait_for("muster run: health and metrics on http://localhost:")
    url = line.split(" on ", 1)[1]
    ranks = job.entered()
    before = job.service()
    assert pathlib.Path(f"/proc/{before}/comm").read_text(encoding="ascii") == "muster\n"

    def answers():
        try:
            with urllib.request.urlopen(url + "/readyz", timeout=WAIT_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    assert answers()
    os.kill(before, signal.SIGKILL)
    until(lambda: before not in job.children())
    until(lambda: job.service() != before and answers())
    assert pathlib.Path(f"/proc/{job.service()}/comm").read_text(encoding="ascii") == "muster\n"
    job.all_well(ranks)


def test_the_ready_descriptor_gets_the_port(serve):
    """A script that waits at `--ready-fd` wants the port. The line there holds the address of the
    HTTP port, and is empty without one. [Where it listens]"""
    reader, writer = os.pipe()
    service = serve("--http", "127.0.0.1:0", "--ready-fd", str(writer), pass_fds=[writer])
    os.close(writer)
    with os.fdopen(reader) as ready:
        assert ready.read() == Http(service).place + "\n"


def test_it_is_off_unless_asked_for(service):
    """`--http` is not given. There is no port and no word of one. [Where it listens]"""
    assert not service.out.having("health")
    assert len(service.out.lines) == 1


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0"])
def test_loopback_is_served(serve, address):
    """`--http` names loopback. The service listens there, for IPv4 and IPv6, and prints the
    address it got. [Where it listens]"""
    service = serve("--http", address)
    assert Http(service).get("/livez")[0] == 200


def own_address():
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))  # sends nothing: it only asks which way that would go
        except OSError:
            pytest.skip("this machine has no address but loopback")
        return sock.getsockname()[0]


@pytest.fixture(params=["secret", "insecure"])
def opened(request, tmp_path):
    if request.param == "insecure":
        return True, ["--insecure"]
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    secret.chmod(0o600)
    return False, ["--secret-file", secret]


def test_beyond_loopback_health_and_metrics_but_status_only_where_nothing_is_secret(serve, opened):
    """Other machines can reach the address, and the service has a secret or was started with
    `--insecure`. They read health and metrics. `/status.json` names hosts and processes:
    without `--insecure` they get 403 for it, and this machine itself always reads it.
    [Where it listens]"""
    tells_all, flags = opened
    service = serve("--http", "0.0.0.0:0", *flags)
    near = Http(service)
    near.url = near.url.replace("0.0.0.0", "127.0.0.1")
    far = Http(service)
    far.url = far.url.replace("0.0.0.0", own_address())
    for path in "/livez", "/readyz", "/metrics":
        assert far.get(path)[0] == 200
    code, _, body = far.get("/status.json")
    assert code == (200 if tells_all else 403)
    assert tells_all or body.startswith("/status.json names hosts and processes: ")
    assert near.get("/status.json")[0] == 200


def test_a_unix_socket_is_served(serve, env):
    """`--http unix:/path`: the service listens there, for this user only, and the socket goes
    with the service. [Where it listens]"""
    path = env["MUSTER_RUNTIME_DIR"] + "/http.sock"
    service = serve("--http", "unix:" + path)
    assert service.out.wait_for("health").endswith(" on unix:" + path)
    done = subprocess.run(["curl", "-sS", "--unix-socket", path, "http://x/status.json"],
                          capture_output=True, text=True, check=True, timeout=WAIT_S)
    assert json.loads(done.stdout)["job"] == "default"
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    assert not os.path.exists(path)


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:7000"])
def test_other_addresses_are_refused(muster, address):
    """Other machines could reach the address. The service does not start, and says why in one
    line. [Where it listens]"""
    done = muster("serve", "--http", address)
    assert done.returncode == 1
    assert done.stderr.startswith(f"muster serve: --http: refused to serve on {address}: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_port_that_is_taken_is_one_line(http, muster):
    """The port is taken. The service does not start, and says so in one line. [Where it listens]"""
    service = http()
    done = muster("serve", "-j", "other", "--http", service.http.place)
    assert done.returncode == 1
    assert done.stderr == (f"muster serve: --http: cannot serve on {service.http.place}: "
                           "Address already in use\n")


def test_the_environment_says_it_too(serve, env):
    """`MUSTER_HTTP` is set instead of `--http`. It means the same. [Where it listens]"""
    service = serve(env={**env, "MUSTER_HTTP": "127.0.0.1:0"})
    assert Http(service).get("/readyz")[0] == 200


# ---- metrics ----


def table():
    """[(type, name, labels)] of metrics.def, in its order."""
    text = (ROOT / "src/service/metrics/metrics.def").read_text()
    rows = re.findall(r'^X\((\w+), (\w+), "(\w*)", "([\w,]*)", [A-Z_]+\([\w.\[\]]+\), "(.*)"\)$', text, re.M)
    assert len(rows) == len(re.findall(r"^X\(", text, re.M))
    return rows


def test_the_text_has_every_row_of_the_table_in_its_order(http):
    """A scraper reads `/metrics`. It gets every metric of the table, in its order, each family in
    one piece with help and type."""
    service = http()
    code, headers, body = service.http.get("/metrics")
    assert (code, headers["Content-Type"]) == (200, TEXT)
    found = parse(body)
    rows = table()
    assert list(found.families) == [name for _, name, _, _, _ in rows]
    for kind, name, _, labels, text in rows:
        family = found.families[name]
        assert (family.type, family.help) == (kind.lower(), text)
        allowed = set(labels.split(",")) - {""} | ({"le"} if kind == "HISTOGRAM" else set())
        for sample in family.samples:
            assert set(sample.labels) <= allowed


def test_openmetrics_by_accept(http):
    """The scraper accepts OpenMetrics. It gets that format: counters' families without `_total`,
    units, and the end mark."""
    service = http()
    asked = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.3"
    code, headers, body = service.http.get("/metrics", Accept=asked)
    assert (code, headers["Content-Type"]) == (200, OPEN)
    assert body.endswith("\n# EOF\n")
    found = parse(body, open_metrics=True)
    for kind, name, unit, _, _ in table():
        family = found.families[name.removesuffix("_total") if kind == "COUNTER" else name]
        assert (family.type, family.unit) == (kind.lower(), unit or None)
    assert service.http.get("/metrics", Accept="text/plain")[1]["Content-Type"] == TEXT


def test_names_of_jobs_are_escaped(http):
    """A job's name has quotes, backslashes, line ends or bytes that are no UTF-8. It is escaped,
    and the text stays whole; no two names look the same."""
    service = http()
    name = b'a"b\\c\nd\xc3\xa9\xff'
    other = Wire(service.address)
    assert other.open(job=name).status == OK
    found = service.http.metrics()
    assert [s.labels["job"] for s in found.families["muster_generation"].samples] == [
        'a"b\\c\nd\xe9\\xff']


def test_keys_are_counted(http):
    """Keys are written, read, missed and waited for. Each operation counts once with its result;
    the time of one that waited is in no measure."""
    service = http()
    wire = service.wire()
    for _ in range(3):
        assert wire.put("k", "v").status == OK
    assert wire.get("k").status == OK
    assert wire.get("nothing").status != OK
    waiting = service.wire()
    waiting.post("get", field(2, "later") + field(3, 1))
    assert waiting.renew_behind().status == OK
    assert wire.put("later", "v").status == OK
    waiting.receive()
    found = service.http.metrics()
    assert found.value("muster_kv_operations_total", op="put", result="ok") == 4
    assert found.value("muster_kv_operations_total", op="get", result="ok") == 2
    assert found.value("muster_kv_operations_total", op="get", result="not_found") == 1
    assert found.value("muster_kv_operations_total", op="cas", result="ok") == 0
    assert found.value("muster_kv_operation_seconds_count", op="put") == 4
    # Its time was that of the key it waited for.
    assert found.value("muster_kv_operation_seconds_count", op="get") == 2
    assert 0 < found.value("muster_kv_operation_seconds_sum", op="put") < WAIT_S
    assert found.value("muster_sessions") == 2
    assert found.value("muster_connections") == 2
    assert found.value("muster_heartbeat_interval_seconds_count") == 0


@pytest.mark.parametrize("kept", ["nothing", "journal", "journal of another service"])
def test_no_figure_mixes_two_clocks(http, tmp_path, kept):
    """A service with a journal, also one that goes on where another stopped, measures how long
    keys, renewals and rounds take. No figure mixes the core's clock, which begins anywhere,
    with the machine's: none is longer than the service is old."""
    began = time.monotonic()
    flags = [] if kept == "nothing" else ["--journal", tmp_path / "journal"]
    service = http(*flags)
    assert service.wire().put("k", "v").status == OK
    if kept == "journal of another service":
        service.signal(signal.SIGTERM)
        assert service.wait() == 0
        service = http(*flags)
    wire = Wire(service.address)
    assert wire.open_rank(0, 1).status == OK
    for _ in range(3):
        assert wire.put("k", "v").status == OK
        assert wire.renew().status == OK
    found = service.http.until(
        lambda metrics: metrics.value("muster_kv_operation_seconds_count", op="put") >= 3)
    age = time.monotonic() - began
    seconds = [sample for family in found.families.values() for sample in family.samples
               if re.search("_seconds(_sum)?$", sample.name)
               and sample.name != "process_start_time_seconds"]
    assert len(seconds) >= 3
    for sample in seconds:
        assert 0 <= sample.value < age * 4, sample  # at most four of them at a time


def test_renewals_rounds_and_members_are_counted(http):
    """Members renew, meet at a round, fall silent and leave. Intervals, rounds and states are
    counted."""
    service = http("--lease", "60s")
    wires = []
    for index in range(3):
        wire = Wire(service.address)
        assert wire.open_rank(index, 3).status == OK
        wire.post("join")
        wires.append(wire)
    for wire in wires:
        wire.receive()
    job = {"job": "default"}
    found = service.http.metrics()
    assert found.value("muster_generation", **job) == 1
    assert found.value("muster_members", state="present", **job) == 3
    for wire in wires:
        wire.post("round", field(1, 1) + field(2, "step"))
    for wire in wires:
        wire.receive()
    for _ in range(3):
        assert wires[0].renew().status == OK
    wires[2].close()
    found = service.http.until(
        lambda now: now.value("muster_members", state="silent", **job) == 1)
    assert found.value("muster_members", state="present", **job) == 2
    assert found.value("muster_barrier_wait_seconds_count", result="ok") == 1
    assert found.value("muster_heartbeat_interval_seconds_count") == 2
    assert wires[1].ask("leave").status == OK
    found = service.http.until(
        lambda now: now.value("muster_members", state="left", **job) == 1)
    assert found.value("muster_member_losses_total", reason="left", **job) == 1


def test_preemption_is_counted(http):
    """A notice is written, a step is agreed on, all save, and a heartbeat's period fails. Each is
    counted, by source and result; an unknown source counts as other, and what is no notice is
    not counted."""
    service = http("--lease", "60s")
    ranks = [Wire(service.address) for _ in range(2)]
    for index, wire in enumerate(ranks):
        assert wire.open_rank(index, 2).status == OK
        wire.post("join")
    for wire in ranks:
        wire.receive()
    found = service.http.metrics()
    signals = {"source": "signals", "level": "certain"}
    assert found.value("muster_preemption_notices_total", **signals) == 0
    watch = Wire(service.address)
    assert watch.open().status == OK
    watch.post("watch", field(1, 1) + field(3, "muster/preempt/"))
    ranks[0].put("muster/preempt/notice/1", "left_ms=30000 level=certain source=signals")
    ranks[0].put("muster/preempt/notice/all", "left_ms=600000 level=advisory source=ours")
    for wire in ranks:
        wire.post("round", field(1, 1) + field(2, "muster/preempt/step/0"))
    for wire in ranks:
        wire.receive()
    ranks[1].put("muster/preempt/complete/1.0", "step=17 of=2 covered=3")
    assert Reply(watch.receive()).status == OK
    found = service.http.until(lambda now: now.value("muster_preemption_handled_total") == 1)
    assert found.value("muster_preemption_watchers_total") == 1
    assert found.value("muster_preemption_notices_total", **signals) == 1
    assert found.value("muster_preemption_notices_total", source="other", level="advisory") == 1
    assert found.value("muster_preemption_lead_seconds_sum", source="signals") == 30
    assert found.value("muster_preemption_agreement_seconds_count", result="ok") == 1
    assert found.value("muster_preemption_saved_ranks", job="default") == 2
    assert found.value("muster_heartbeat_failures_total", job="default") == 0
    beat = field(1, 1) + field(2, "muster/heartbeat") + field(5, 1)  # with a deadline of 1 ms
    assert ranks[0].ask("round", beat).status == -4
    service.http.until(
        lambda now: now.value("muster_heartbeat_failures_total", job="default") == 1)


def test_losses_are_counted_by_cause(serve, spawn, muster):
    """A rank of `muster run --http` is killed. One loss is counted, by its signal, or as gone
    where a reader looked before its status came."""
    place = f"127.0.0.1:{free_port()}"
    run = Run(spawn, muster, 4, "--http", place)
    run.entered()
    http = Http.__new__(Http)
    http.url, http.place = "http://" + place, place
    job = {"job": run.job}
    found = http.metrics()
    assert found.value("muster_members", state="present", **job) == 4
    for cause in "exit", "signal", "lease", "evicted", "left", "gone", "fault", "unhealthy":
        assert found.value("muster_member_losses_total", reason=cause, **job) == 0
    ranks = run.entered()
    os.kill(ranks[1]["pid"], signal.SIGKILL)
    ranks = run.entered(2)
    losses = lambda now, *causes: sum(
        now.value("muster_member_losses_total", reason=cause, **job) for cause in causes)
    # Its death was told before its status; who takes its place ends the wait for that.
    found = http.until(lambda now: losses(now, "signal", "gone") == 1)
    assert losses(found, "exit", "lease", "evicted", "fault") == 0
    assert found.value("muster_generation", **job) >= 2
    assert found.value("muster_members", state="present", **job) == 4
    run.all_well(ranks)


MEMBER = """
import sys
from wire import Wire
print("up", flush=True)
sys.stdin.readline()
wire = Wire(sys.argv[1])
assert wire.open_rank(1, 2).status == 0
assert wire.ask("join").status == 0
print("in", flush=True)
sys.stdin.read()
"""


def test_a_killed_member_is_counted_as_lost_by_its_lease(http):
    """A member is killed where no agent reports it. One loss by its lease is counted, and one
    member is lost."""
    service = http("--lease", "6s")
    rank = subprocess.Popen([sys.executable, "-c", MEMBER, service.address], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, env={"PYTHONPATH": str(ROOT / "tests/process")})
    assert rank.stdout.readline() == b"up\n"  # which may take longer than the other's lease
    survivor = Wire(service.address)
    assert survivor.open_rank(0, 2).status == OK
    survivor.post("join")
    rank.stdin.write(b"\n")
    rank.stdin.flush()
    assert rank.stdout.readline() == b"in\n"
    survivor.receive()
    rank.kill()
    rank.wait()
    service.log.wait_for("member-lost #1", "cause=lease", meanwhile=survivor.renew)
    found = service.http.until(lambda now: now.value(
        "muster_member_losses_total", job="default", reason="lease") >= 1)
    assert found.value("muster_members", job="default", state="lost") >= 1


def test_figures_of_the_process(http):
    """The process's own figures are read. They agree with what the system says of it."""
    service = http()
    found = service.http.metrics()
    with open("/proc/uptime", encoding="ascii") as uptime:
        age = float(uptime.read().split()[0])
    assert time.time() - age < found.value("process_start_time_seconds") <= time.time() + 1
    # The scraper's own connection is one of them, and may be gone by now.
    now = len(os.listdir(f"/proc/{service.pid}/fd"))
    assert now <= found.value("process_open_fds") <= now + 1
    assert found.value("process_resident_memory_bytes") > 1 << 20
    assert found.value("process_cpu_seconds_total") > 0
    assert found.value("process_max_fds") > 1000
    done = subprocess.run([MUSTER, "--version"], capture_output=True, text=True, check=True)
    build = found.families["muster_build_info"].samples[0]
    assert done.stdout.split()[1] == build.labels["version"]
    known = subprocess.run(["git", "cat-file", "-t", build.labels["commit"]], cwd=ROOT,
                           capture_output=True, text=True)
    assert known.stdout == "commit\n" or build.labels["commit"] == "unknown"


def test_many_scrapers_see_one_truth(http):
    """Several scrapers read at a time while clients write. No counter ever goes back for any of
    them, and in the end all see the same. [Requests]"""
    service = http()
    wire = service.wire()
    seen = []

    def scrape():
        last = 0
        for _ in range(10):
            now = service.http.metrics().value("muster_kv_operations_total", op="put", result="ok")
            assert now >= last
            last = now
        seen.append(last)

    threads = [threading.Thread(target=scrape) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        assert wire.put("k", "v").status == OK
    for thread in threads:
        thread.join(WAIT_S)
    assert len(seen) == 4
    service.http.until(
        lambda now: now.value("muster_kv_operations_total", op="put", result="ok") == 200)


# ---- status ----


def same(text):
    """Without what passes from one look to the next."""
    text = re.sub(r'"(heard|ago|since)_ms":\d+', r'"\1_ms":0', text)
    return re.sub(r' for \d[^"]*? (s|min)\b', " for a while", text)


def test_status_is_that_of_the_command_byte_for_byte(http, muster):
    """`/status.json` and `muster status --json` are read in the same state. They have the same
    bytes, but for the ages. [Status]"""
    service = http("--lease", "60s")
    kept = []
    for index in range(3):
        wire = Wire(service.address)
        assert wire.open_rank(index, 4).status == OK
        kept.append(wire)
    kept[2].close()
    service.log.wait_for("member-silent #2")
    agent = service.wire()
    assert agent.ask("lost", field(1, 1) + field(2, os.getpid()) + field(3, 2) + field(4, 9 << 1) +
                     field(5, 'oops "\n\xe9')).number == 1
    other = Wire(service.address)
    assert other.open_rank(0, 2, job="other").status == OK
    code, headers, body = service.http.get("/status.json")
    assert (code, headers["Content-Type"]) == (200, "application/json")
    assert same(body) == same(muster("status", "--json").stdout)
    answer = json.loads(body)
    assert [member["state"] for member in answer["members"]] == ["joining", "lost", "silent"]
    assert answer["missing"] == [1, 3]


def test_status_of_a_generation_with_a_round(http, muster):
    """`/status.json` and `muster status --json` are read in the same state. They have the same
    bytes, but for the ages. [Status]"""
    service = http("--lease", "60s")
    wires = [Wire(service.address) for _ in range(2)]
    for index, wire in enumerate(wires):
        assert wire.open_rank(index, 2).status == OK
        wire.post("join")
    for wire in wires:
        wire.receive()
    wires[0].post("round", field(1, 1) + field(2, "epoch"))
    assert wires[0].renew_behind().status == OK
    body = service.http.get("/status.json")[2]
    assert json.loads(body)["rounds"][0]["name"] == "epoch"
    assert same(body) == same(muster("status", "--json").stdout)


def test_status_of_another_job(http):
    """`/status.json` is asked for another job, or one that is not there. It answers with that
    job's status, or 404. The service's own job is shown empty before it has members. [Status]"""
    service = http("--lease", "60s")
    other = Wire(service.address)
    assert other.open_rank(0, 2, job="other").status == OK
    get = service.http.get
    assert json.loads(get("/status.json?job=other")[2])["missing"] == [1]
    assert get("/status.json?job=nobody")[0::2] == (
        404, "the service has no job of this name\n")
    empty = json.loads(get("/status.json")[2])
    assert (empty["job"], empty["members"]) == ("default", [])


def test_text_that_is_no_utf8_is_told(http, muster):
    """Last words are no UTF-8. Their other bytes are shown as `\\xNN`, alike in both. [Status]"""
    service = http()
    wire = Wire(service.address)
    assert wire.open_rank(0, 1).status == OK
    agent = service.wire()
    assert agent.ask("lost", field(1, 0) + field(2, os.getpid()) + field(3, 2) + field(4, 9 << 1) +
                     field(5, b"a\xff\xfeb")).number == 1
    body = service.http.get("/status.json")[2]
    assert json.loads(body)["members"][0]["text"] == r"a\xff\xfeb"
    assert same(body) == same(muster("status", "--json").stdout)


def test_many_members_are_told_whole(http, muster):
    """There are more members than a page holds. All are there. [Status]"""
    service = http("--lease", "60s")
    wires = []
    for index in range(600):
        wire = Wire(service.address)
        assert wire.open_rank(index, 600).status == OK
        wires.append(wire)
    body = service.http.get("/status.json")[2]
    assert len(json.loads(body)["members"]) == 600
    assert same(body) == same(muster("status", "--json").stdout)
    assert service.http.metrics().value("muster_members", job="default", state="joining") == 600


# ---- documentation ----


def documented():
    return (ROOT / "docs/operations.md").read_text()


def test_the_documentation_lists_every_metric_check_and_limit():
    """The documentation lists metrics, checks, limits and events of the log. They are those of
    the source."""
    text = documented()
    rows = re.findall(r"^\| `((?:muster|process)_\w+)` \| (\w+) \| ([^|]*) \| (.+?) \|$", text, re.M)
    assert rows == [
        (name, kind.lower(), ", ".join(f"`{label}`" for label in labels.split(",") if label), help)
        for kind, name, _, labels, help in table()
    ]
    source = (ROOT / "src/service/server/http.c").read_text()
    checks = re.findall(r'^    \{"(\w+)", (?:true|false), \w+\},$', source, re.M)
    assert checks and re.findall(r"^\| `(\w+)` \| `/", text, re.M) == checks
    settings = (ROOT / "src/proto/settings.def").read_text()
    limits = re.findall(r'^X\(LIMIT, (\w+), \w+, (\d+), \d+, \d+, "(.*)"\)$', settings, re.M)
    assert re.findall(r"^\| `--([a-z-]+)` \| (\d+) \| (.+) \|$", text, re.M) == [
        (name.replace("_", "-"), value, help) for name, value, help in limits
    ]


def events():
    """Every event of the service's log, as the source names it."""
    found = set()
    core = "\n".join(path.read_text() for path in (ROOT / "src/service/core").glob("*.c"))
    for call in re.findall(r"mst_narrate(?:_event)?\((?!const)(.*?)\);", core, re.S):
        found |= set(re.findall(r'"([a-z]+(?:-[a-z]+)*)[ "]', call))
    shell = "\n".join(path.read_text() for path in (ROOT / "src/service/server").glob("*.c"))
    line = r'(?:MST_(?:ERROR|WARN|INFO|DEBUG),\s*(?:"(?:service|journal|record)",\s*)?)"([a-z]+(?:-[a-z]+)*)[ "]'
    found |= set(re.findall(line, shell))
    found |= set(re.findall(r'"(log-[a-z-]+) ', shell))
    journal = "\n".join(path.read_text() for path in (ROOT / "src/service/journal").glob("*.c"))
    found |= set(re.findall(r'mst_journal_tell\(\w+, MST_[A-Z]+, "([a-z-]+)"', journal))
    return found - {"service", "journal", "record"}  # the components


def test_the_documentation_lists_every_event():
    """The documentation lists metrics, checks, limits and events of the log. They are those of
    the source."""
    found = events()
    assert {"member-lost", "member-left", "generation-sealed", "grow", "stopping", "fault",
            "connection-refused", "accepting-paused", "log-lines-dropped", "journal-full",
            "journal-recovered", "journal-had-ended"} <= found
    assert found <= set(re.findall(r"^\| `([a-z-]+)` \| (?:error|warn|info|debug) \|", documented(), re.M))
