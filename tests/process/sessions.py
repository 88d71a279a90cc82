# SPDX-License-Identifier: Apache-2.0
"""Sessions of released clients: what they sent, byte for byte, and what they were answered.

    python3 tests/process/sessions.py BUILD FOLDER

records those of the client in BUILD, as tests/sessions/README.md says. A session is lines

    NAME > HEX      what the client of connection NAME sent
    NAME < HEX      the payload of a frame that it got; the first is a Welcome, the others are Replies
    NAME |          the service hung up
    NAME x          the client did

with comments behind a `#`. The first `>` of a name connects.
"""

import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import tempfile

from wire import (COMMANDS, PREAMBLE, WAIT_S, Closed, Wire, connect, field, fixed64, frame, parse,
                  unzigzag)

NUMBERS = {number: name for name, number in COMMANDS.items()}

# ---- what a message means to a client of a version ----


class Schema:
    """The messages of a version: {message: {field number: (name, type)}}."""

    def __init__(self, path):
        text = re.sub(r"//.*", "", pathlib.Path(path).read_text())
        self.messages = {}
        for name, body in re.findall(r"message (\w+) \{(.*?)\n\}", text, re.S):
            self.messages[name] = {int(number): (field, kind) for kind, field, number in
                                   re.findall(r"(\w+) (\w+) = (\d+);", body)}

    def means(self, name, payload):
        """A message as {field: values}, without what this version does not know, without defaults,
        and without what is different each time."""
        found = {}
        for number, values in parse(payload).items():
            if number not in self.messages[name]:
                continue
            what, kind = self.messages[name][number]
            if kind in self.messages:
                values = [self.means(kind, value) for value in values]
            elif kind.startswith("sint"):
                values = [unzigzag(value) for value in values]
            if values not in ([0], [b""]):
                found[what] = values
        mask(name, found)
        return found


def mask(name, found):
    if name == "Welcome":
        found.pop("service", None)  # for people
    if name == "Reply" and found.get("command") == [COMMANDS["jobs"]]:
        found.pop("value", None)  # which process answers, and its replicas: later clients read it
    found.pop("heard_ms", None)
    if "incarnation" in found:
        found["incarnation"] = "some"
    if name == "Item" and found.get("kind") == [4]:
        found.pop("arrived", None)  # when the fault came
    if name == "Item" and found.get("kind") in ([1], [2]):
        found.pop("number", None)  # how old the key is
    if name == "Reply" and found.get("command") in ([COMMANDS["faults"]], [COMMANDS["get"]]):
        found.pop("number", None)  # how old the generation or the key is


# ---- playing ----


class Player:
    """Says again what a client said; what it is answered must mean the same to that client."""

    def __init__(self, address, schema):
        self.address, self.schema = address, schema
        self.wires, self.welcomed, self.waiting = {}, set(), {}
        self.last = None  # who sent

    def play(self, path):
        for number, line in enumerate(pathlib.Path(path).read_text().splitlines(), 1):
            words = line.split("#")[0].split()
            if words:
                try:
                    self.step(*words)
                except Closed:
                    raise AssertionError(f"{path}:{number}: hung up on") from None
                except AssertionError as err:
                    raise AssertionError(f"{path}:{number}: {err}") from None

    def step(self, name, what, data=""):
        data = bytes.fromhex(data)
        if what == ">":
            if name not in self.wires:
                self.wires[name], self.waiting[name] = Wire(self.address, hello=False), []
            if self.last not in (None, name):
                self.settle()
            self.last = name
            self.wires[name].send(data)
        elif what == "x":
            self.wires[name].close()
        elif what == "|":
            assert self.wires[name].ended(), "it is not hung up on"
        else:
            assert what == "<"
            self.expect(name, data)

    def settle(self):
        """What was sent on one connection has been taken in before something comes on another one:
        who connected after it has been welcomed."""
        Wire(self.address).close()

    def expect(self, name, recorded):
        kind = "Reply" if name in self.welcomed else "Welcome"
        self.welcomed.add(name)
        wanted = self.schema.means(kind, recorded)
        got = self.schema.means(kind, self.receive(name, wanted, kind))
        assert got == wanted, f"\n  then: {wanted}\n  now:  {got}"

    def receive(self, name, wanted, kind):
        """Replies to several requests may come in any order."""
        def fits(payload):
            found = self.schema.means(kind, payload)
            return all(found.get(key) == wanted.get(key) for key in ("id", "command"))

        waiting = self.waiting[name]
        while not any(fits(payload) for payload in waiting):
            waiting.append(self.wires[name].receive())
        return waiting.pop([fits(payload) for payload in waiting].index(True))


# ---- recording ----


class Record:
    def __init__(self, version, what):
        self.lines = [f"# {what}",
                      f"# Recorded from version {version}; see tests/sessions/README.md."]

    def sent(self, name, data, note=""):
        self.lines.append(f"{name} > {data.hex()}" + (f"  # {note}" if note else ""))

    def got(self, name, payload, note=""):
        self.lines.append(f"{name} < {payload.hex()}" + (f"  # {note}" if note else ""))

    def write(self, path):
        path.write_text("\n".join(self.lines) + "\n")


class Recording(Wire):
    """A connection whose client writes down what is said."""

    def __init__(self, record, name, address):
        self.record, self.name, self.note = record, name, "preamble and hello"
        super().__init__(address)

    def send(self, data):
        self.record.sent(self.name, data, self.note)
        super().send(data)

    def receive(self):
        payload = super().receive()
        number = parse(payload).get(2, [0])[0]
        self.record.got(self.name, payload, NUMBERS.get(number, "") if type(number) is int else "")
        return payload

    def post(self, command, body=b""):
        self.note = command
        super().post(command, body)

    def answered(self):
        return parse(self.receive())

    def tell(self, command, body=b""):
        self.post(command, body)
        return self.answered()

    def enter(self, role, index, pid=0, size=0):
        body = fixed64(1, 0x1122334455667788) + fixed64(2, ord(self.name)) + field(3, "old")
        body += field(4, role) + field(5, index) + field(8, size) + field(9, min(size, 1))
        body += field(12, "b3") + field(13, pid)
        return self.tell("open", body)


def op(kind, key, value=b"", **more):
    body = field(1, kind) + field(3, key) + (field(4, value) if value else b"")
    if "expected" in more:
        body += field(5, more["expected"])
    if "delta" in more:
        body += field(6, more["delta"] << 1 ^ more["delta"] >> 63)
    return field(2, body)


def round_(generation, name, number=0, data=b"", **fields):
    """Fields by their number, as text: f7=1."""
    body = field(1, generation) + field(2, name) + field(3, number)
    body += b"".join(field(int(key[1:]), value) for key, value in fields.items())
    return body + (field(10, data) if data else b"")


def record_commands(address, version, path):
    """Every command there is."""
    record = Record(version, "Every command: an observer, an agent and two ranks.")
    o, g, a, b = (Recording(record, name, address) for name in "ogab")
    record_members(o, g, a, b)
    record_keys(o, a, b)
    record_rounds(o, a, b)
    record_ends(o, g, a, b)
    record.write(path)


def record_members(o, g, a, b):
    o.enter(0, 0)
    g.enter(3, 0, 77)
    a.enter(1, 0, 4242, 2)
    b.enter(1, 1, 4343, 2)
    g.tell("watch", field(1, 2))
    a.post("join")
    b.post("join")
    a.answered()
    b.answered()
    a.tell("renew")
    for command in ("members", "jobs", "hosts"):
        o.tell(command)


def record_keys(o, a, b):
    a.tell("write", op(1, "k/one", "1") + op(2, "k/two", "2") + op(3, "k/three", "3", expected=0) +
           op(4, "k/sum", delta=5) + op(5, "k/log", "x") + op(6, "k/none"))
    a.tell("write", op(1, "k/one", "again"))
    a.tell("write", op(3, "k/one", "again", expected=999))
    a.tell("write", op(4, "k/sum", delta=-7))
    a.tell("write", op(4, "k/log", delta=1))
    a.tell("write", field(2, field(1, 2) + field(2, 1) + field(3, "k/owned") + field(4, "b")))
    a.tell("get", field(2, "k/one"))
    a.tell("get", field(2, "k/nothing"))
    b.post("get", field(2, "k/later") + field(3, 1))
    a.tell("write", op(2, "k/later", "now"))
    b.answered()
    b.tell("wait", field(2, "k/one") + field(2, "k/two"))
    b.post("wait", field(2, "k/one") + field(2, "k/never"))
    b.post("cancel", field(1, b.last_id))
    b.answered()
    b.answered()
    o.tell("list", field(2, "k/"))
    position = o.tell("watch", field(1, 1) + field(3, "k/"))[5][0]
    o.post("watch", field(1, 1) + field(3, "k/") + field(4, position))
    a.tell("write", op(6, "k/two"))
    o.answered()


def both(a, b, *arguments, **fields):
    a.post("round", round_(*arguments, data=b"\1" + bytes(7), **fields))
    b.post("round", round_(*arguments, data=b"\2" + bytes(7), **fields))
    a.answered()
    b.answered()


def record_rounds(o, a, b):
    both(a, b, 1, "gathered", f7=1)
    both(a, b, 1, "summed", f7=4)
    both(a, b, 1, "equal", f7=5)
    a.post("round", round_(1, "barrier", f5=60000))
    o.tell("rounds")
    a.tell("round_members", field(1, 1) + field(2, "barrier"))
    b.tell("round", round_(1, "barrier", number=5))
    b.post("round", round_(1, "barrier", f5=60000))
    b.answered()
    a.answered()


def record_ends(o, g, a, b):
    a.tell("fault", field(1, 1) + field(2, 14) + field(3, "disk 3 is broken"))
    o.tell("faults")
    o.tell("watch", field(1, 4 | 8))
    a.post("round", round_(1, "seal", f6=1, f9=1))
    b.post("round", round_(1, "seal", f6=1, f9=1))
    a.answered()
    b.answered()
    a.tell("write", field(1, 2) + op(2, "of-two", "v"))
    a.tell("write", field(1, 1) + op(2, "of-one", "v"))
    g.tell("lost", field(1, 1) + field(2, 4343) + field(3, 2) + field(4, 9 << 1) + field(5, "Killed"))
    b.tell("renew")
    o.tell("members")
    a.tell("leave")
    o.tell("faults")


def frames_of(data, first):
    """(whole units of the stream, what is left): the preamble, if it is the first, and frames."""
    units = []
    if first and data.startswith(PREAMBLE):
        units, data = [data[: len(PREAMBLE)]], data[len(PREAMBLE) :]
    while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
        size = 4 + int.from_bytes(data[:4], "big")
        units, data = [*units, data[:size]], data[size:]
    return units, data


def carry(record, listener, address):
    """Between one client and the service, until the client goes."""
    client, service = listener.accept()[0], connect(address)
    left = {client: b"", service: b""}
    begun = set()
    while True:
        for sock in select.select([client, service], [], [], WAIT_S)[0]:
            data = sock.recv(1 << 20)
            if not data:
                record.lines.append("a x" if sock is client else "a |")
                return
            units, left[sock] = frames_of(left[sock] + data, sock is client and sock not in begun)
            begun.add(sock)
            if sock is client and units:
                record.sent("a", b"".join(units))  # what came at once is said at once
            for unit in units if sock is service else ():
                record.got("a", unit[4:])
            (service if sock is client else client).sendall(data)


def record_library(address, version, path, program):
    record = Record(version, "What the library says: open, put, get, a barrier, a restart, close.")
    folder = tempfile.mkdtemp()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/s")
        os.chmod(f"{folder}/s", 0o700)
        listener.listen()
        orders = "open 0,put k,get k,barrier together,restart,close"
        # The host's name is in what it says: it gets one of its own.
        client = subprocess.Popen(
            ["unshare", "--uts", "sh", "-c", 'hostname b3; exec "$0" "$1"', program, orders],
            env={"PATH": os.environ["PATH"], "MUSTER_ADDR": f"unix:{folder}/s",
                 "MUSTER_AGENT": "0"})
        carry(record, listener, address)
        assert client.wait(WAIT_S) == 0
    record.write(path)


def main(build, folder):
    build, folder = pathlib.Path(build), pathlib.Path(folder)
    muster = build / "bin" / "muster"
    version = subprocess.run([muster, "--version"], capture_output=True, text=True,
                             check=True).stdout.split()[1]
    folder.mkdir(parents=True, exist_ok=True)
    proto = pathlib.Path(__file__).parents[2] / "proto" / "muster.proto"
    (folder / "muster.proto").write_text(proto.read_text())
    for name, how, *more in (("commands", record_commands),
                             ("library", record_library,
                              build / "tests" / "process" / "attacked")):
        with tempfile.TemporaryDirectory() as runtime:
            service = subprocess.Popen([muster, "serve"], stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "MUSTER_RUNTIME_DIR": runtime})
            try:
                address = service.stdout.readline().split(" on ")[1].strip()
                how(address, version, folder / f"{name}.session", *more)
            finally:
                service.terminate()
                service.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
