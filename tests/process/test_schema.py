# SPDX-License-Identifier: Apache-2.0
"""The tables of fields and the codec that goes by them, beside proto/*.proto and Google's own runtime:
the same fields, and each reads what the other one writes, in both directions, byte by byte.

behaviour: wire / The tables and their codec
"""

import random
import re
import shutil
import struct
import subprocess

import pytest

from conftest import BUILD, ROOT

pytest.importorskip("google.protobuf", reason="python3-protobuf is not installed")
pytestmark = pytest.mark.skipif(not shutil.which("protoc"), reason="protoc is not installed")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402
from google.protobuf.descriptor import FieldDescriptor  # noqa: E402
from google.protobuf.message import DecodeError  # noqa: E402

ROOTS = {"Hello": "muster.Hello", "Welcome": "muster.Welcome", "Request": "muster.Request",
         "Reply": "muster.Reply", "Message": "muster.cluster.Message"}
ROUNDS = 1500  # of each
TYPES = {getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name for name in (
    "uint32", "uint64", "sint32", "sint64", "bool", "enum", "fixed64", "double", "bytes", "string", "message")}
# The case's number is our enum's; and a number that is an enum of ours without one in the schema.
COMMAND, ORIGIN = (1, 22), (1, 14)
MISSING = 19  # of an Item: numbers, and of these only so many


class Driver:
    def __init__(self):
        self.process = subprocess.Popen([BUILD / "tests/process/schema_driver"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline().rstrip("\n")) != "end":
            assert line or self.process.poll() is None, f"the driver ended at {words}"
            lines.append(line)
        return lines

    def fields(self, *words):
        return dict(line.split("=", 1) for line in self.ask(*words))


@pytest.fixture(scope="module")
def driver():
    driver = Driver()
    yield driver
    driver.process.stdin.close()
    assert driver.process.wait(10) == 0


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """The messages and enums of both files, by their full names."""
    out = tmp_path_factory.mktemp("schema") / "all.pb"
    subprocess.run(["protoc", f"--descriptor_set_out={out}", "-I", ROOT / "proto", "muster.proto",
                    "cluster.proto"], check=True)
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    for file in files:
        pool.Add(file)
    names = [f"{file.package}.{message.name}" for file in files for message in file.message_type]
    factory = message_factory.MessageFactory(pool)
    return {name: factory.GetPrototype(pool.FindMessageTypeByName(name)) for name in names}


def enums(schema):
    return {field.enum_type.full_name: field.enum_type for message in schema.values()
            for field in message.DESCRIPTOR.fields if field.enum_type}


def rows(driver):
    """{message: {number: words of its row}}"""
    table = {}
    for line in driver.ask("table"):
        message, *row = line.split(" ")
        table.setdefault(message, {})
        if row:
            table[message][int(row[0])] = row[1:]
    return table


def repeated(field):
    return field.label == FieldDescriptor.LABEL_REPEATED


def test_every_field_has_its_row(driver, schema):
    """A field is added to `proto/*.proto` or to the tables, and not to the other. The difference
    is named."""
    table = rows(driver)
    assert set(table) == set(schema)
    for name, message in schema.items():
        fields = {field.number: field for field in message.DESCRIPTOR.fields}
        assert set(table[name]) == set(fields), name
        for number, (title, kind, label, part, *_) in table[name].items():
            field = fields[number]
            assert title == field.name and kind == TYPES[field.type], (name, title)
            assert label == ("repeated" if repeated(field) else
                             "case" if field.containing_oneof else "one"), (name, title)
            assert part == (field.message_type.name if field.message_type else "-"), (name, title)


def test_enums_are_numbered_alike(driver, schema):
    """A value of an enum is added to `proto/*.proto` or to the program, and not to the other. The
    difference is named; a row's bounds are the values that are ever sent."""
    ours = dict(line.split(" ") for line in driver.ask("enums"))
    theirs = {value.name: str(value.number) for enum in enums(schema).values() for value in enum.values}
    assert ours == theirs
    table = rows(driver)
    for name, message in schema.items():
        for field in message.DESCRIPTOR.fields:
            bounds = [int(word) for word in table[name][field.number][4:]]
            if field.enum_type:
                values = sorted(value.number for value in field.enum_type.values
                                if value.name not in ("OPERATION_UNSPECIFIED", "ITEM_UNSPECIFIED"))
                assert values == list(range(bounds[0], bounds[1] + 1)), (name, field.name)
    # The number of a command is its field's less 16.
    cases = schema["muster.Request"].DESCRIPTOR.oneofs[0].fields
    assert sorted(field.number - 16 for field in cases) == list(range(COMMAND[0], COMMAND[1] + 1))


def value_of(field, value):
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return str(struct.unpack("<Q", struct.pack("<d", value))[0])
    if field.type == FieldDescriptor.TYPE_STRING:
        return value.encode().hex()
    return value.hex() if field.type == FieldDescriptor.TYPE_BYTES else str(int(value))


def flat(message, path=""):
    """As the driver says it: all fields of each message that is there."""
    found = {}
    for field in message.DESCRIPTOR.fields:
        values = getattr(message, field.name)
        if field.message_type and not repeated(field) and not message.HasField(field.name):
            continue
        for index, value in enumerate(values if repeated(field) else [values]):
            name = f"{path}{field.name}" + (f"[{index}]" if repeated(field) else "")
            if field.message_type:
                found.update(flat(value, name + "."))
            else:
                found[name] = value_of(field, value)
    return found


class Seen:
    """Which fields had a value."""

    def __init__(self):
        self.names = set()

    def note(self, message):
        for field, value in message.ListFields():
            self.names.add(f"{message.DESCRIPTOR.full_name}.{field.name}")
            if field.message_type:
                for part in value if repeated(field) else [value]:
                    self.note(part)

    def check(self, schema):
        fields = {f"{name}.{field.name}" for name, message in schema.items()
                  for field in message.DESCRIPTOR.fields}
        assert not fields - self.names


def test_google_reads_what_we_write(driver, schema):
    """Google's protobuf reads what muster writes, any field of any message. It reads the same,
    and writes the same bytes."""
    seen = Seen()
    for root, full in ROOTS.items():
        for seed in range(ROUNDS):
            ours = driver.fields("random", root, str(seed))
            data = bytes.fromhex(ours.pop("bytes"))
            message = schema[full].FromString(data)
            assert flat(message) == ours, (root, seed)
            assert message.SerializeToString(deterministic=True) == data, (root, seed)
            seen.note(message)
    seen.check(schema)


class Maker:
    """Random messages with values that make sense."""

    def __init__(self, seed, table):
        self.random, self.table = random.Random(seed), table

    def number(self, field, bounds):
        if bounds:
            return self.random.randint(max(bounds[0], bounds[1] - 999), bounds[1])
        bits = 32 if "32" in TYPES[field.type] else 64
        number = self.random.choice((0, 1, 127, 128, 16383, 16384, 2 ** 31 - 1, 2 ** bits - 1,
                                     self.random.getrandbits(bits) >> self.random.randrange(bits)))
        if TYPES[field.type].startswith("s"):
            number -= 2 ** (bits - 1)
        return number

    def value(self, field, bounds):
        kind = TYPES[field.type]
        if kind == "double":
            return self.random.choice((0.0, 1.0, -2.5, 1e300, self.random.random()))
        if kind == "bool":
            return self.random.random() < 0.5
        if kind in ("bytes", "string"):
            size = self.random.choice((0, 1, 2, 127, 128, 300))
            return ("ä" * (size // 2) if kind == "string" else self.random.randbytes(size))
        return self.number(field, bounds)

    def fill(self, message):
        case = {oneof: self.random.choice(oneof.fields) for oneof in message.DESCRIPTOR.oneofs}
        for field in message.DESCRIPTOR.fields:
            bounds = [int(word) for word in self.table[message.DESCRIPTOR.full_name][field.number][4:]]
            if field.containing_oneof:
                if case[field.containing_oneof] is field:
                    getattr(message, field.name).SetInParent()
                    self.fill(getattr(message, field.name))
            elif repeated(field):
                for _ in range(self.random.choice((0, 1, 2, 7))):
                    if field.message_type:
                        self.fill(getattr(message, field.name).add())
                    else:
                        getattr(message, field.name).append(self.value(field, None))
            elif field.message_type:
                if self.random.random() < 0.5:
                    getattr(message, field.name).SetInParent()
                    self.fill(getattr(message, field.name))
            elif self.random.random() < 0.8 or bounds and not bounds[0] <= 0 <= bounds[1]:
                setattr(message, field.name, self.value(field, bounds))
        return message


def test_we_read_what_google_writes(driver, schema):
    """Muster reads what Google's protobuf writes. It reads the same, and writes the same bytes;
    unknown fields change nothing."""
    seen, table = Seen(), rows(driver)
    for root, full in ROOTS.items():
        for seed in range(ROUNDS):
            message = Maker(seed, table).fill(schema[full]())
            data = message.SerializeToString(deterministic=True)
            ours = driver.fields("decode", root, (data + b"\xea\x3f\x02hi" * (seed % 2)).hex())
            assert bytes.fromhex(ours.pop("bytes", "")) == data, (root, seed, ours.get("wrong"))
            assert flat(message) == ours, (root, seed)
            seen.note(message)
    seen.check(schema)


def too_many(wrong):
    """Two lists, each of which is short enough, are not together."""
    return re.match("more .* may have: ", wrong)


def test_what_comes_twice_is_merged(driver, schema):
    """A message has fields and commands twice. Muster reads what Google's protobuf reads: the last
    number, the elements of both lists, the parts of both messages, the last command of several."""
    table, merged, refused = rows(driver), 0, 0
    for root, full in ROOTS.items():
        generator, made = random.Random(root), {}
        for seed in range(ROUNDS):
            message = Maker(seed, table).fill(schema[full]())
            case = [message.WhichOneof(oneof.name) for oneof in message.DESCRIPTOR.oneofs]
            alike = made.setdefault(str(case), [])
            alike.append(message.SerializeToString())
            others = generator.choice(list(made.values())) if seed % 3 == 0 else alike
            data = generator.choice(alike) + generator.choice(others) + alike[-1]
            theirs = schema[full].FromString(data)
            ours = driver.fields("decode", root, data.hex())
            if "wrong" in ours:
                assert too_many(ours["wrong"]), (root, seed, ours["wrong"])
                refused += 1
                continue
            merged += 1
            assert bytes.fromhex(ours.pop("bytes", "")) == theirs.SerializeToString(deterministic=True), (root, seed)
            assert flat(theirs) == ours, (root, seed)
    assert merged > 3 * ROUNDS and refused > ROUNDS / 10


def test_a_message_within_an_element_is_merged(driver, schema):
    """An element of a list has a message twice. The two are merged, as Google's protobuf does."""
    table, refused = rows(driver), 0
    for seed in range(ROUNDS):
        items = [Maker(seed + i, table).fill(schema["muster.Item"]()).SerializeToString() for i in range(2)]
        whole = schema["muster.Reply"](command=1).SerializeToString()
        size = len(items[0] + items[1])
        data = whole + b"\x52" + bytes([size % 128 | 128, size // 128]) + items[0] + items[1]
        theirs = schema["muster.Reply"].FromString(data)
        ours = driver.fields("decode", "Reply", data.hex())
        if len(theirs.items[0].missing) > int(table["muster.Item"][MISSING][5]):
            assert too_many(ours["wrong"]), (seed, ours["wrong"])
            refused += 1
            continue
        assert bytes.fromhex(ours.pop("bytes", "")) == theirs.SerializeToString(deterministic=True), seed
        assert flat(theirs) == ours, seed
    assert ROUNDS / 3 > refused > ROUNDS / 10


def path_to(schema, root, wanted):
    """One field of each message on the way from the root to the message."""
    ways = [(schema[root], ())]
    for message, way in ways:
        if message.DESCRIPTOR.full_name == wanted:
            return way
        ways += [(schema[field.message_type.full_name], way + (field,)) for field in
                 message.DESCRIPTOR.fields if field.message_type]
    return None


def test_a_value_out_of_bounds_is_refused_by_its_name(driver, schema):
    """A number is one that its field does not have. The reason names the field and the number;
    each number that the field has is accepted."""
    table, refused = rows(driver), 0
    for name in schema:
        for field in schema[name].DESCRIPTOR.fields:
            bounds = [int(word) for word in table[name][field.number][4:]]
            if not bounds or repeated(field) or TYPES[field.type] not in ("enum", "uint32", "sint32"):
                continue
            (root, way), *_ = [(root, way) for root, full in ROOTS.items()
                            if (way := path_to(schema, full, name)) is not None]
            for value in range(max(bounds[0] - 1, -2), bounds[1] + 2):
                if value < 0 and TYPES[field.type] != "sint32":
                    continue
                message = whole = Maker(value, table).fill(schema[ROOTS[root]]())
                whole.Clear()
                if root == "Reply":
                    whole.command = 1
                for step in way:
                    part = getattr(message, step.name)
                    if repeated(step):
                        message = part.add()
                        for other in message.DESCRIPTOR.fields:  # what else must be there
                            if other.name in ("kind", "origin"):
                                setattr(message, other.name, 1)
                    else:
                        part.SetInParent()
                        message = part
                setattr(message, field.name, value)
                said = driver.fields("decode", root, whole.SerializeToString().hex()).get("wrong")
                if bounds[0] <= value <= bounds[1]:
                    assert said is None, (name, field.name, value)
                else:
                    refused += 1
                    assert re.search(rf"\b{field.name}\b.* {value}\b", said), (said, name, field.name)
    assert refused > 15


def test_a_list_is_as_long_as_its_row_says(driver, schema):
    """A list of numbers has more elements than its row allows. It is refused, and the reason has the
    number; as many as the row allows are accepted."""
    most = int(rows(driver)["muster.Item"][MISSING][5])
    for count in (most, most + 1):
        reply = schema["muster.Reply"](command=1)
        reply.items.add(kind=1, missing=range(count))
        said = driver.fields("decode", "Reply", reply.SerializeToString().hex())
        assert said.get("wrong") == (None if count == most else f"more names than a round may have: {count}")


@pytest.mark.filterwarnings("ignore:Unexpected end-group tag")  # which Google stops at
def test_what_google_refuses_we_refuse(driver, schema):
    """A message is damaged. What Google's protobuf refuses is refused; the other way round it
    refuses less: groups, and fields of another wire type."""
    generator, table, refused = random.Random(1), rows(driver), 0
    for root in ("Request", "Reply", "Message"):
        for seed in range(ROUNDS):
            data = bytearray(Maker(seed, table).fill(schema[ROOTS[root]]()).SerializeToString())
            for _ in range(generator.randint(1, 2)):
                at = generator.randrange(len(data) + 1)
                data[at:at + generator.randint(0, 2)] = generator.randbytes(generator.randint(0, 2))
            try:
                schema[ROOTS[root]].FromString(bytes(data))
            except DecodeError:
                refused += 1
                assert "wrong" in driver.fields("decode", root, data.hex()), (root, data.hex())
    assert refused > ROUNDS / 4
