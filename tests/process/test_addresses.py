# SPDX-License-Identifier: Apache-2.0
"""A service whose address changes: clients that are sent on, and addresses that it names.

behaviour: service / Several addresses
"""

import pytest

from conftest import BUILD, Process, free_port
from wire import Closed, Wire, field, fixed64, parse

PUT_LINES = BUILD / "tests/process/put_lines"
SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def secret(tmp_path):
    def make(name, text=SECRET):
        path = tmp_path / name
        path.touch(mode=0o600)
        path.write_text(text)
        return path

    return make


def address():
    return f"127.0.0.1:{free_port()}"


class Writer:
    """A client with one session, which writes a key on request."""

    def __init__(self, env, started, addr, **variables):
        variables = {key: str(value) for key, value in variables.items()}
        self.process = Process([PUT_LINES], {**env, "MUSTER_ADDR": addr, **variables},
                               stdin=-1)
        started.append(self.process)
        self.process.out.wait_for("open")

    def ask(self, key):
        self.process.process.stdin.write(f"{key} 3\n")
        self.process.process.stdin.flush()

    def kept(self, key):
        self.process.out.wait_for(f"{key} kept")

    def put(self, key):
        self.ask(key)
        self.kept(key)

    def close(self):
        self.process.process.stdin.close()
        assert self.process.wait() == 0


def has(muster, addr, key, **options):
    done = muster("key", "get", key, "--addr", addr, **options)
    return done.stdout.strip() == "vvv"


# ---- sent on ----


def test_a_moved_service_sends_its_clients_on(serve, muster):
    """A service is started with `--moved-to ADDRESS` where it was. A command with the old address
    reaches the new one."""
    new = serve("--addr", "127.0.0.1:0")
    old = serve("--addr", "127.0.0.1:0", "--moved-to", new.address)
    old.out.wait_for(f"muster: each client is sent on to {new.address}")
    assert muster("key", "put", "x", "1", "--addr", old.address).returncode == 0
    assert muster("key", "get", "x", "--addr", new.address).stdout == "1\n"
    old.log.wait_for("client-sent-on", new.address)


def test_a_session_goes_on_where_the_service_was_moved(serve, env, started, muster, tmp_path):
    """A service with a journal is stopped, started again from its folder at another address, and
    the old address sends clients on. A client that knows the old address alone keeps its session:
    a write that it made meanwhile is kept at the new address."""
    folder, addr = tmp_path / "journal", address()
    old = serve("--addr", addr, "--journal", folder)
    writer = Writer(env, started, addr)
    writer.put("before")
    old.signal(15)
    assert old.wait() == 0
    writer.ask("meanwhile")
    new = serve("--addr", "127.0.0.1:0", "--journal", folder)
    serve("--addr", addr, "--moved-to", new.address)
    writer.kept("meanwhile")
    writer.put("after")
    assert all(has(muster, new.address, key) for key in ("before", "meanwhile", "after"))
    writer.close()


def test_with_a_secret_a_client_is_sent_on_and_proves_it_again(serve, muster, secret):
    """Old and new address have the same secret. A command with the secret is sent on, over TLS on
    both ways."""
    file = secret("one")
    new = serve("--addr", "127.0.0.1:0", "--secret-file", file)
    old = serve("--addr", "127.0.0.1:0", "--secret-file", file, "--moved-to", new.address)
    done = muster("key", "put", "x", "1", "--addr", old.address, "--secret-file", file)
    assert done.returncode == 0, done.stderr


def test_a_client_with_a_secret_is_not_sent_to_a_stranger(serve, muster, secret):
    """A client with a secret is sent on to a service that does not have it. The client does not
    speak to it: the error says that it was not let in there."""
    one, two = secret("one"), secret("two", SECRET[::-1])
    stranger = serve("--addr", "127.0.0.1:0", "--secret-file", two)
    plain = serve("--addr", "127.0.0.1:0")
    for other in (stranger, plain):
        old = serve("--addr", "127.0.0.1:0", "--secret-file", one, "--moved-to", other.address)
        done = muster("key", "put", "x", "1", "--addr", old.address, "--secret-file", one)
        assert done.returncode == 1
        assert "not let in" in done.stderr and other.address in done.stderr


def test_a_client_without_a_secret_is_not_sent_to_another_host(serve, muster):
    """A client has neither a secret nor `--insecure`, and is sent on to an address that may be of
    another host. It does not go there, as if the user had named it, and the error says so."""
    old = serve("--addr", "127.0.0.1:0", "--insecure", "--moved-to", "10.77.9.9:5000")
    done = muster("key", "get", "x", "--addr", old.address)
    assert done.returncode == 1
    assert "10.77.9.9:5000, an address that it may not use" in done.stderr


def test_two_that_send_a_client_to_each_other(serve, muster):
    """Two addresses send a client to each other. It waits longer after each round instead of
    keeping both busy, and the error names where it was sent on."""
    addresses = address(), address()
    both = [serve("--addr", addresses[i], "--moved-to", addresses[1 - i]) for i in range(2)]
    done = muster("key", "get", "x", "--addr", addresses[0])
    assert done.returncode == 1
    assert "sent on to" in done.stderr
    for service in both:
        service.log.wait_for("client-sent-on", count=2)
        assert len(service.log.having("client-sent-on")) <= 16  # in five seconds


def test_an_older_client_takes_it_as_a_goodbye(serve):
    """A client that knows nothing of being sent on opens a session. It gets a reply to no request,
    with the reason in one line, and the connection is closed, as by any service that stops: its
    own list of addresses may have the new one."""
    service = serve("--addr", "127.0.0.1:0", "--moved-to", "127.0.0.1:9")
    wire = Wire(service.address)
    wire.send(wire.request("open", fixed64(1, 7) + field(3, "j")))
    reply = parse(wire.receive())
    assert 1 not in reply
    assert reply[7] == [b"no service here any more; it is at 127.0.0.1:9"]
    with pytest.raises(Closed):
        wire.receive()


@pytest.mark.parametrize("flags, error", [
    (["--moved-to", "127.0.0.1"], "--moved-to 127.0.0.1: address '127.0.0.1' has no port"),
    (["--moved-to", "10.0.0.1:5000"], "needs a secret"),
    (["--advertise", "127.0.0.1:1,,x"], "has no port"),
    (["--advertise", ",".join(f"127.0.0.1:{i}" for i in range(1, 18))], "is one too many"),
    (["--moved-to", "127.0.0.1:1", "--advertise", "127.0.0.1:1"], "contradict each other"),
    (["--moved-to", "127.0.0.1:1", "--journal", "x"], "leave out --journal and --record"),
])
def test_bad_addresses_are_refused(muster, flags, error):
    """The addresses of `--moved-to` or `--advertise` are no addresses that a client could use, or
    there are too many, or the flags contradict each other. The service is refused with one line."""
    done = muster("serve", "--addr", "127.0.0.1:0", *flags)
    assert done.returncode in (1, 2)
    assert error in done.stderr


def test_a_service_is_not_moved_to_itself(muster):
    """`--moved-to` names the address of the service itself. It is refused with one line."""
    addr = address()
    done = muster("serve", "--addr", addr, "--moved-to", addr)
    assert done.returncode == 1
    assert f"this service listens on {addr} itself" in done.stderr


# ---- addresses that the service names ----


def test_a_client_learns_the_addresses_of_its_service(serve, env, started, muster, tmp_path):
    """A service names a second address with `--advertise`. A client that was given the first one
    alone finds the service at the second when it is started again there."""
    folder, first, second = tmp_path / "journal", address(), address()
    old = serve("--addr", first, "--journal", folder, "--advertise", f"{first},{second}")
    old.log.wait_for("addresses-named", f"{first},{second}")
    writer = Writer(env, started, first)
    writer.put("before")
    old.kill()
    writer.ask("meanwhile")
    serve("--addr", second, "--journal", folder)
    writer.kept("meanwhile")
    assert has(muster, second, "before")
    writer.close()


def test_a_client_on_a_socket_of_its_user_learns_addresses(serve, env, started, tmp_path, secret):
    """A client reaches its service over the socket of the user, and has a secret. It learns the TCP
    address that the service names, and goes on there, over TLS, when the socket is gone."""
    folder, path, addr, file = tmp_path / "journal", f"unix:{tmp_path}/s", address(), secret("one")
    old = serve("--addr", path, "--journal", folder, "--secret-file", file, "--advertise", addr)
    writer = Writer(env, started, path, MUSTER_SECRET_FILE=file)
    writer.put("before")
    old.kill()
    writer.ask("meanwhile")
    serve("--addr", addr, "--journal", folder, "--secret-file", file)
    writer.kept("meanwhile")
    writer.close()


def test_the_reply_to_open_has_the_addresses(serve):
    """A client opens a session, and resumes it on another connection. Both replies have the
    addresses that the service names; a service that names none sends none."""
    named, silent = serve("--addr", "127.0.0.1:0", "--advertise", "127.0.0.1:7"), serve()
    for service, expected in ((named, [b"127.0.0.1:7"]), (silent, None)):
        for _ in range(2):
            wire = Wire(service.address)
            wire.send(wire.request("open", fixed64(1, 7) + field(3, "j")))
            assert parse(wire.receive()).get(11) == expected
