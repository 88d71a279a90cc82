# SPDX-License-Identifier: Apache-2.0
"""A service whose host vanishes without a word, and clients that know a second address: network
namespaces with cables that are cut. The lease is 30 s, so that a client that noticed it by silence
alone would need 12 s and more.

behaviour: service / A host that vanishes
"""

import shutil
import signal
import subprocess
import time

import pytest

from conftest import BUILD
from nodes import missing
from test_nodes import cluster  # noqa: F401

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

PUT_LINES = BUILD / "tests/process/put_lines"
PORT = 7777
NOTICED_S = 10
FROZEN_S = 5  # nothing but time can show that nothing happens


class Pair:
    """A service on machine 0, its successor on machine 1, and a client on machine 2 that knows both
    addresses."""

    def __init__(self, machines, folder):
        self.machines = machines
        self.folder = folder
        self.addresses = [f"{machines.address(i)}:{PORT}" for i in range(2)]
        self.service = self.serve(0)

    def serve(self, number):
        service = self.machines.start(
            number, "serve", "--addr", self.addresses[number], "--insecure", "--lease", "30s",
            "--journal", self.folder / str(number), "--log-level", "debug")
        service.out.wait_for("muster: serving on")
        return service

    def connect(self):
        client = subprocess.Popen(
            self.machines.words(2, PUT_LINES), text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**self.machines.environment(2), "MUSTER_ADDR": ",".join(self.addresses),
                 "MUSTER_INSECURE": "1"})
        assert client.stdout.readline() == "open\n"
        return client

    def cut(self):
        """The first machine is gone, and its successor has what it had kept."""
        self.machines.cable(0, "down")
        began = time.monotonic()
        shutil.copytree(self.folder / "0", self.folder / "1")
        (self.folder / "1" / "lock").unlink(missing_ok=True)
        return self.serve(1), began


@pytest.fixture
def pair(cluster, tmp_path):  # noqa: F811
    return Pair(cluster, tmp_path)


def ask(client, key, size=3):
    client.stdin.write(f"{key} {size}\n")
    client.stdin.flush()


def kept(client, key):
    assert client.stdout.readline() == f"{key} kept\n"


def end(client):
    client.stdin.close()
    assert client.wait(30) == 0


def test_a_host_that_vanishes_under_a_request_is_left(pair, lateness):
    """The cable of the service's host is cut, and a client that knows a second address writes a
    key. The client finds the service there within seconds, long before the silence is too long for
    its lease, and the key is kept."""
    client = pair.connect()
    ask(client, "before")
    kept(client, "before")
    _, began = pair.cut()
    ask(client, "after")
    kept(client, "after")
    assert time.monotonic() - began < NOTICED_S + lateness.spare_s()
    end(client)


def test_a_host_that_vanishes_is_left_by_an_idle_client(pair, lateness):
    """The cable of the service's host is cut while a client that knows a second address waits for
    nothing. It is at the second address within seconds."""
    client = pair.connect()
    ask(client, "before")
    kept(client, "before")
    successor, began = pair.cut()
    successor.log.wait_for("connection-accepted")
    assert time.monotonic() - began < NOTICED_S + lateness.spare_s()
    end(client)


def test_an_attempt_at_a_host_that_has_vanished_is_short(pair, lateness):
    """A client knows two addresses; the host of one has vanished, and the service at the other is
    killed and started again. The client tries the vanished one for seconds, and comes back."""
    client = pair.connect()
    ask(client, "before")
    kept(client, "before")
    successor, _ = pair.cut()
    ask(client, "there")
    kept(client, "there")
    successor.kill()
    began = time.monotonic()
    pair.serve(1)
    ask(client, "back")
    kept(client, "back")
    assert time.monotonic() - began < NOTICED_S + lateness.spare_s()
    end(client)


def test_a_service_that_is_stopped_is_not_left(pair):
    """A service is stopped for 5 s while a client that knows a second address writes a value that
    does not fit into their sockets. The host answers, so the client stays: the value is kept over
    the same connection."""
    client = pair.connect()
    ask(client, "before")
    kept(client, "before")
    pair.service.log.wait_for("connection-accepted")
    pair.service.signal(signal.SIGSTOP)
    ask(client, "large", 1 << 20)
    time.sleep(FROZEN_S)
    pair.service.signal(signal.SIGCONT)
    kept(client, "large")
    assert len(pair.service.log.having("connection-accepted")) == 1
    end(client)
