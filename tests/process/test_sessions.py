# SPDX-License-Identifier: Apache-2.0
"""Clients of other versions: what released ones said is answered as it was, and one of the future is
understood or refused.

behaviour: attacks / Other versions
"""

import pytest

from conftest import ROOT
from sessions import Player, Schema, field, frame
from wire import ANY, COMMANDS, EPROTO, OK, PREAMBLE, PUT, RANK, Reply, Wire, fixed64, parse

SESSIONS = sorted((ROOT / "tests" / "sessions").glob("*/*.session"))


@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_client_of_a_released_version_is_answered_as_it_was(service, path):
    """A client of a released version says what it always said. Every answer means what it meant
    then."""
    Player(service.address, Schema(path.parent / "muster.proto")).play(path)
    assert not service.log.having(" warn ") and not service.log.having(" error ")


def test_the_recorded_sessions_use_every_command():
    """The recorded sessions use every command."""
    asked = set()
    for path in SESSIONS:
        for line in path.read_text().splitlines():
            words = line.split("#")[0].split()
            if words[1:2] == ["<"]:
                asked.add(parse(bytes.fromhex(words[2])).get(2, [0])[0])
    assert set(COMMANDS.values()) <= asked


def test_a_changed_answer_is_noticed(service, tmp_path):
    """An answer changes its meaning. The comparison of sessions notices; a new field that the old
    client does not know is no change."""
    (path,) = [path for path in SESSIONS if path.stem == "commands"]
    schema = Schema(path.parent / "muster.proto")
    changed = tmp_path / "changed.session"
    changed.write_text(path.read_text().replace("3a0131", "3a0132"))
    with pytest.raises(AssertionError, match="(?s)then: .*now: "):
        Player(service.address, schema).play(changed)
    reply = field(1, 1) + field(2, 7) + field(7, "v")
    assert schema.means("Reply", reply + field(99, "new")) == schema.means("Reply", reply)


# ---- a client of the future ----

NEW = field(99, "new") + field(200, 7)


def hello(least, most, more=b""):
    return PREAMBLE + frame(field(1, least) + field(2, most) + field(4, "muster 9.0") + more)


def opened(service, least=1, most=9):
    """A client that speaks versions up to 9 and says more than this service knows, everywhere."""
    wire = Wire(service.address, hello=False)
    wire.send(hello(least, most, NEW))
    assert parse(wire.receive())[1] == [1]
    body = fixed64(1, 5) + fixed64(2, 6) + field(3, "default") + field(4, RANK) + field(5, ANY)
    assert wire.ask("open", body + field(8, 1) + NEW).status == OK
    return wire


def test_what_a_client_of_the_future_says_more_is_ignored(service):
    """A client of the future sends more than this service knows, and also speaks version 1. What
    is not known is ignored."""
    wire = opened(service)
    operation = field(1, PUT) + field(3, "k") + field(4, "v") + NEW
    assert wire.ask("write", field(2, operation) + NEW).status == OK
    wire.last_id += 1
    wire.send(frame(NEW + field(1, wire.last_id) + field(2, wire.last_id) +
                    field(16 + COMMANDS["get"], field(2, "k") + NEW) + NEW))
    assert Reply(wire.receive()).value == b"v"
    assert wire.renew().status == OK


def test_a_client_that_speaks_only_newer_versions_is_refused_in_words(service):
    """A client speaks newer versions only. It is refused in one line that names the versions of
    both."""
    wire = Wire(service.address, hello=False)
    wire.send(hello(2, 9))
    welcome = parse(wire.receive())
    assert welcome.get(1, [0]) == [0]
    assert "1" in welcome[3][0].decode() and "2" in welcome[3][0].decode()
    assert len(welcome[3][0].splitlines()) == 1
    assert wire.ended()


FUTURE = {
    "an unknown command": field(16 + 200, b""),
    "a value an enum does not have": field(16 + COMMANDS["write"], field(2, field(1, 77))),
}


@pytest.mark.parametrize("what", FUTURE)
def test_what_cannot_be_ignored_ends_the_connection_with_a_reason(service, what):
    """A client sends a command, or a value of an enumeration, that this service does not have.
    The last reply says where and why, and the connection ends."""
    wire, body = opened(service), FUTURE[what]
    wire.last_id += 1
    wire.send(frame(field(1, wire.last_id) + field(2, wire.last_id) + body))
    last = Reply(wire.receive())
    assert (last.id, last.status) == (0, EPROTO)
    assert last.value.decode().startswith("at byte ") and len(last.value.splitlines()) == 1
    assert wire.ended()
    assert service.wire().renew().status == OK
