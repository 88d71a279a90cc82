# SPDX-License-Identifier: Apache-2.0
"""What a network does to connections: they are cut at any byte, stand still, arrive in pieces, and at
the other end is something that is no service.

behaviour: attacks / Connections that break
"""

import concurrent.futures
import contextlib
import re
import socket
import subprocess

import pytest

from conftest import BUILD, WAIT_S, Process, sanitized
from proxy import Impostor, Proxy, Way, chaos, one_by_one
from running import RANK, until
from wire import field

ATTACKED = BUILD / "tests" / "process" / "attacked"
SECRET = "0123456789abcdef0123456789abcdef"
LEASE_S = 5  # of ranks on a busy machine
RANKS = 4


@pytest.fixture(params=["plain", "tls"])
def network(request, serve, env, tmp_path):
    """network(flags...): a service on TCP and the environment of its clients."""

    def start(*flags):
        if request.param == "tls":
            path = tmp_path / "secret"
            path.touch(mode=0o600)
            path.write_text(SECRET)
            flags = (*flags, "--secret-file", path)
            env["MUSTER_SECRET_FILE"] = str(path)
        # The test itself speaks on the socket, and the clients on TCP.
        own = f"unix:{env['MUSTER_RUNTIME_DIR']}/own.sock"
        service = serve("--addr", own, "--addr", "127.0.0.1:0", *flags)
        service.address, service.tcp = service.address.split(",")
        return service, dict(env)

    start.tls = request.param == "tls"
    return start


@pytest.fixture
def proxies():
    made = []

    def make(service, ways=None):
        made.append(Proxy(service.tcp, ways))
        return made[-1]

    yield make
    for proxy in made:
        proxy.end()


def client_through(proxy, env, started):
    client = Process([ATTACKED], {**env, "MUSTER_ADDR": proxy.client_address, "MUSTER_AGENT": "0"},
                     stdin=subprocess.PIPE)
    started.append(client)
    return client


def tell(client, order):
    client.process.stdin.write(order + "\n")
    client.process.stdin.flush()


# ---- cut at every byte ----


def sessions(service, proxy, client, first, step, count, direction, end):
    """Session after session, the first connection of each cut some bytes later than that of the one
    before, until one is no longer cut. How far they came."""
    helper = service.wire()
    for number in range(count):
        cut = first + number * step
        way = Way(cut, end)
        before = proxy.cuts
        proxy.planned.append((way, Way()) if direction == 0 else (Way(), way))
        name = f"{direction}-{end}-{cut}"
        tell(client, f"session {name}")
        # The session waits for its answer, which is given when the rest has been seen to be there.
        assert helper.ask("get", field(2, f"log-{name}") + field(3, 1)).value == b"x"
        assert helper.put(f"answer-{name}", "yes").status == 0
        said = client.out.wait_for("", count=number + 1)
        assert said == "OK 1 1 yes", (name, client.log.lines)
        if proxy.cuts == before:
            proxy.planned.clear()
            return cut
    return first + count * step


def test_keys_written_while_connections_are_cut_at_every_byte(network, proxies, started):
    """The connection breaks after any number of bytes, in either direction, by an end or a reset,
    plain or under TLS. The client comes back by itself. Every write has exactly one effect,
    and a wait gets its answer."""
    service, env = network("--lease", "1h")  # who helps renews none
    step = 23 if network.tls else 1
    step *= 7 if sanitized() else 1
    lanes = [(direction, end) for direction in (0, 1) for end in ("reset", "close")]

    def lane(of):
        direction, end = of
        proxy = proxies(service)
        client = client_through(proxy, env, started)
        reached = sessions(service, proxy, client, 0, step, 400, direction, end)
        client.process.stdin.close()
        return reached

    with concurrent.futures.ThreadPoolExecutor(len(lanes)) as threads:
        reached = list(threads.map(lane, lanes))
    assert min(reached) > 100, reached
    assert max(reached) < 400 * step, reached  # each came to the end of a whole session
    assert not service.log.having(" error ")


# ---- a job ----


def start_ranks(addresses, env, started, **more):
    ranks = []
    for index, address in enumerate(addresses):
        ranks.append(Process([RANK], {**env, "MUSTER_ADDR": address, "MUSTER_SIZE": str(RANKS),
                                      "MUSTER_INDEX": str(index), "MUSTER_AGENT": "0", **more}))
        started.append(ranks[-1])
    return ranks


def entered(rank, generation, size=RANKS):
    return rank.out.wait_for(f"entered generation={generation} ", f" size={size} ")


def order(wire, index, generation, what):
    assert wire.put(f"order-{index}-{generation}", what).status == 0


def finish(service, ranks, generation):
    wire = service.wire()
    for index, _ in enumerate(ranks):
        order(wire, index, generation, "ok")
    for rank in ranks:
        assert rank.wait() == 0, rank.log.lines


ENDS, GENERATIONS_MAX = 12, 200


def test_a_job_goes_on_through_chaos(network, proxies, started):
    """All connections of a job of four come to a bad end, again and again: cut, half-closed,
    stalled, in odd pieces. The job goes on, restarts at each fault in the same processes, and
    loses no rank: no stall was as long as the lease."""
    service, env = network("--lease", "30s")
    proxy = proxies(service, chaos(7, 2500 if network.tls else 1000))
    ranks = start_ranks([proxy.client_address] * RANKS, env, started)
    generation = 1
    for rank in ranks:
        entered(rank, generation)
    while proxy.cuts < ENDS and generation < GENERATIONS_MAX:
        order(service.wire(), generation % RANKS, generation, "fail 7 on purpose")
        generation += 1
        for rank in ranks:
            entered(rank, generation)
    assert proxy.cuts >= ENDS
    proxy.calm()
    finish(service, ranks, generation)
    assert not service.log.having("member-lost")
    assert not service.log.having("member-joined #0 incarnation=2")
    for rank in ranks:  # in its own process, each generation once
        assert len(rank.out.having("entered generation=")) == generation


def test_bytes_that_come_one_by_one_change_nothing(network, proxies, started):
    """Bytes come one by one. Nothing changes: the same generations over the same connections."""
    service, env = network("--lease", "30s")
    proxy = proxies(service, one_by_one)
    ranks = start_ranks([proxy.client_address] * RANKS, env, started)
    for rank in ranks:
        entered(rank, 1)
    order(service.wire(), 2, 1, "fail 7 on purpose")
    for rank in ranks:
        entered(rank, 2)
    finish(service, ranks, 2)
    assert proxy.accepted == RANKS and proxy.cuts == 0
    for rank in ranks:
        assert len(rank.out.having("entered generation=")) == 2
    assert not service.log.having("member-silent") and not service.log.having("member-lost")


def test_a_connection_that_is_half_closed_is_opened_again(network, proxies, started):
    """One direction of a connection is closed and the other is not. The side that sees the end
    gives the connection up; the client opens another one."""
    service, env = network("--lease", "30s")
    proxy = proxies(service)
    proxy.planned.extend([(Way(), Way(600, "half")), (Way(700, "half"), Way())])
    client = client_through(proxy, env, started)
    tell(client, "open -1")
    client.out.wait_for("OK")
    for number in range(60):
        tell(client, f"put k{number}")
        assert client.out.wait_for("", count=number + 2) == "OK "
    assert proxy.cuts >= 1 and proxy.accepted > proxy.cuts
    client.process.stdin.close()


# ---- stalls ----


def test_a_stall_shorter_than_the_lease_costs_nobody_anything(network, proxies, started, pass_time):
    """A connection moves nothing for less than a lease. No rank is lost."""
    service, env = network("--lease", f"{4 * LEASE_S}s")
    proxy = proxies(service)
    ranks = start_ranks([proxy.client_address] * RANKS, env, started)
    for rank in ranks:
        entered(rank, 1)
    proxy.stall()
    pass_time(LEASE_S * 1000)
    proxy.go()
    order(service.wire(), 1, 1, "fail 7 on purpose")
    for rank in ranks:
        entered(rank, 2)
    finish(service, ranks, 2)
    assert not service.log.having("member-lost")


def test_a_stall_longer_than_the_lease_costs_that_rank_alone(network, proxies, started):
    """The connection of one rank moves nothing for longer than a lease. It costs that rank and no
    other: the others go on without it, and it learns of its loss when its connection moves
    again."""
    service, env = network("--lease", f"{LEASE_S}s")
    bad, good = proxies(service), proxies(service)
    ranks = start_ranks([good.client_address] * 2 + [bad.client_address, good.client_address],
                        env, started)
    for rank in ranks:
        entered(rank, 1)
    bad.stall()
    service.log.wait_for("member-lost #2 ", "cause=lease")
    others = [rank for rank in ranks if rank is not ranks[2]]
    for rank in others:
        entered(rank, 2, RANKS - 1)
    bad.go()
    ranks[2].log.wait_for("rank: ")
    assert ranks[2].wait() != 0
    wire = service.wire()
    for index in (0, 1, 3):
        order(wire, index, 2, "ok")
    for rank in others:
        assert rank.wait() == 0, rank.log.lines
    assert len(service.log.having("member-lost")) == 1
    assert len(ranks[2].out.having("entered generation=")) == 1


def test_who_waits_to_be_accepted_is_in_when_it_is(network, proxies, started, pass_time):
    """A connection waits to be accepted. It is in as soon as it is."""
    service, env = network()
    proxy = proxies(service)
    proxy.hold()
    client = client_through(proxy, env, started)
    tell(client, "open -1")
    pass_time(500)
    assert client.out.lines == []
    proxy.accept()
    client.out.wait_for("OK")
    client.process.stdin.close()


def test_who_is_refused_in_the_middle_says_so_and_comes_back(network, proxies, started):
    """Several attempts of a client to come back are reset as well. It tries until one is not."""
    service, env = network("--lease", "60s")
    proxy = proxies(service)
    client = client_through(proxy, env, started)
    tell(client, "open -1")
    client.out.wait_for("OK")
    proxy.planned.extend([(Way(0, "reset"), Way())] * 5)
    for link in proxy.links:
        link.flows[0].way = Way(0, "reset")
    for number in range(3):
        tell(client, f"put k{number}")
        assert client.out.wait_for("", count=number + 2) == "OK "
    assert proxy.accepted == 7
    client.process.stdin.close()


# ---- who is no service ----


@pytest.fixture
def impostor():
    made = []

    def make(*arguments, **options):
        made.append(Impostor(*arguments, **options))
        return made[-1]

    yield make
    for one in made:
        one.end()


REACH_MS = 2000  # so that who answers at all has answered
KEY_REACH_S = 5  # of a command


def refused(address, env, started):
    """What the library says that was given REACH_MS."""
    client = Process([ATTACKED, f"reach {REACH_MS}"], {**env, "MUSTER_ADDR": address})
    started.append(client)
    assert client.wait() == 0
    (line,) = client.out.lines
    assert line.startswith(f"EUNREACHABLE open: no service at {address} after ")
    assert line.endswith("; is `muster serve` running there?")
    assert REACH_MS / 1000 <= float(re.search(r"after ([\d.]+) s ", line)[1]) < WAIT_S
    return line


def test_a_machine_that_does_not_answer_a_connection(env, started):
    """What is at the address answers no connection, as behind a firewall that drops them. When the
    time is up one line says so, with the address and how long it took. [Peers that are no service]"""
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(8):  # more than wait to be accepted: Linux drops the others
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        address = f"127.0.0.1:{full.getsockname()[1]}"
        line = refused(address, env, started)
    assert f" (connecting to {address}: it does not answer); " in line


@pytest.mark.parametrize("network", ["tls"], indirect=True)
def test_a_service_that_accepts_and_answers_no_handshake(network, impostor, env, started):
    """What listens at the address accepts and does not answer the TLS handshake. When the time is
    up one line says so, with the address and how long it took. [Peers that are no service]"""
    network()
    silent = impostor()
    line = refused(silent.address, env, started)
    assert (f" (connecting to {silent.address}: it accepts, but does not answer the TLS handshake); "
            in line)


def test_a_service_that_accepts_and_never_answers(impostor, env, muster, started):
    """What listens at the address accepts and never answers. When the time is up one line says
    just that, with the address and how long it took: 5 s for a command, else what the program
    has given. [Peers that are no service]"""
    silent = impostor()
    line = refused(silent.address, env, started)
    assert " (what listens there accepts, but does not answer); " in line
    until(lambda: silent.heard)
    assert silent.heard == 1
    done = muster("key", "put", "k", "v", "--addr", silent.address)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    after = re.search(rf"no service at {silent.address} after ([\d.]+) s ", done.stderr)
    assert KEY_REACH_S <= float(after[1]) < WAIT_S


GARBAGE = {
    "another protocol": (b"HTTP/1.1 400 Bad Request\r\n\r\n",
                         "at byte 0: a frame of 1213486160 bytes is over the limit of 17825792: it "
                         "speaks another protocol"),
    "no message": (b"\0\0\0\4abcd", "at byte 0: no Welcome: "),
    "a version nobody offered": (b"\0\0\0\2\x08\x07", "at byte 0: version 7 is not known"),
    "a welcome without limits": (b"\0\0\0\2\x08\x01", "at byte 0: a limit for frames of 0 is not known"),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_a_service_that_answers_nonsense(impostor, env, started, what):
    """What listens at the address answers with another protocol, with no message, with a version
    that was not offered, or without limits. The line says what was wrong, and at which byte.
    [Peers that are no service]"""
    words, why = GARBAGE[what]
    other = impostor(words)
    assert f" (connection to {other.address}: {why}" in refused(other.address, env, started)


def test_a_service_that_hangs_up_at_once(impostor, env, started):
    """What listens at the address hangs up at once. The client tries again until its time is up,
    and says so. [Peers that are no service]"""
    other = impostor(hangs_up=True)
    assert f" (connection to {other.address}: " in refused(other.address, env, started)
    assert other.heard > 1  # it tries again and again
