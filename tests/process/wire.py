# SPDX-License-Identifier: Apache-2.0
"""The native dialect, spoken by hand: enough to ask the service anything, and to ask it wrongly."""

import os
import socket
import struct

VERSION = 1
PREAMBLE = b"MUSTER\0" + bytes([VERSION])
WAIT_S = 30

OK, EINVAL, ELIMIT, EEXISTS, EPROTO, EFENCED = 0, -1, -3, -6, -21, -40
OBSERVER, RANK, WORKER, AGENT = 0, 1, 2, 3
ANY = 0xFFFFFFFF
COMMANDS = {
    name: number
    for number, name in enumerate(
        "open join renew leave cancel write get list wait watch round round_members members rounds "
        "jobs fault lost hosts faults".split(),
        1,
    )
}
PUT = 2


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """One field of a message: an int as a varint, bytes and text with their length."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def fixed64(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def frame(payload):
    return struct.pack(">I", len(payload)) + payload


def read_varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def parse(data):
    """A message as {field number: [values]}."""
    fields = {}
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        if key & 7 == 0:
            value, at = read_varint(data, at)
        elif key & 7 == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        else:
            size, at = read_varint(data, at)
            value, at = bytes(data[at : at + size]), at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def unzigzag(number):
    return number >> 1 ^ -(number & 1)


class Reply:
    def __init__(self, payload):
        fields = parse(payload)
        self.id = fields.get(1, [0])[0]
        self.status = unzigzag(fields.get(3, [0])[0])
        self.number = unzigzag(fields.get(4, [0])[0])
        self.value = fields.get(7, [b""])[0]
        self.detail = parse(fields.get(9, [b""])[0])


class Closed(Exception):
    """The service has closed the connection."""


def connect(address):
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        name = address[len("unix:") :]
    else:
        host, port = address.rsplit(":", 1)
        host = host.strip("[]")
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        name = (host, int(port))
    sock.settimeout(WAIT_S)
    sock.connect(name)
    return sock


class Wire:
    """One connection. Nothing is done behind the caller's back: no thread, no renewal."""

    def __init__(self, address, hello=True):
        self.sock = connect(address)
        self.input = b""
        self.last_id = 0
        if hello:
            self.send(PREAMBLE + frame(field(1, 1) + field(2, VERSION)))
            welcome = parse(self.receive())
            assert welcome[1] == [VERSION]

    def send(self, data):
        self.sock.sendall(data)

    def receive(self):
        """The payload of the next frame."""
        while len(self.input) < 4 or len(self.input) < 4 + self.wanted():
            try:
                more = self.sock.recv(1 << 20)
            except ConnectionError:
                more = b""
            if not more:
                raise Closed
            self.input += more
        size = 4 + self.wanted()
        payload, self.input = self.input[4:size], self.input[size:]
        return payload

    def wanted(self):
        return struct.unpack(">I", self.input[:4])[0]

    def request(self, command, body=b""):
        """The frame of the next request, to be sent."""
        self.last_id += 1
        number = COMMANDS[command] + 16
        return frame(field(1, self.last_id) + field(2, self.last_id) + field(number, body))

    def post(self, command, body=b""):
        self.send(self.request(command, body))

    def ask(self, command, body=b""):
        self.post(command, body)
        reply = Reply(self.receive())
        assert reply.id == self.last_id
        return reply

    def open(self, job="default", token=None, role=OBSERVER, index=ANY, size=0, pid=0,
             host="testnode", node=None):
        self.token = token or struct.unpack("<QQ", os.urandom(16))
        body = fixed64(1, self.token[0]) + fixed64(2, self.token[1]) + field(3, job)
        body += field(4, role) + field(5, index) + field(8, size)
        body += field(12, host) + field(13, pid or os.getpid())
        body += b"" if node is None else field(14, node + 1)
        return self.ask("open", body)

    def open_rank(self, index, size, **options):
        return self.open(role=RANK, index=index, size=size, **options)

    def put(self, key, value, owned=False):
        operation = field(1, PUT) + field(2, int(owned)) + field(3, key) + field(4, value)
        return self.ask("write", field(2, operation))

    def get(self, key):
        return self.ask("get", field(2, key))

    def renew(self):
        return self.ask("renew")

    def renew_behind(self):
        """A renewal behind a request that is not answered yet."""
        self.last_id += 1
        self.send(frame(field(1, self.last_id) + field(2, self.last_id - 1) + field(19, b"")))
        return Reply(self.receive())

    def ended(self):
        """Whether the service closes this connection (whatever it says before)."""
        try:
            while True:
                self.receive()
        except Closed:
            return True
        except TimeoutError:
            return False

    def close(self):
        self.sock.close()
