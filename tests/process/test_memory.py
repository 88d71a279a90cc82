# SPDX-License-Identifier: Apache-2.0
"""No memory left: in a program that uses the library, and in the service.

behaviour: attacks / No memory
"""

import concurrent.futures
import re
import resource
import subprocess

import pytest

from conftest import BUILD, WAIT_S, Process, sanitized
from running import RANK
from test_serve import resident
from wire import OK, PUT, Closed, Wire, field

ATTACKED = BUILD / "tests" / "process" / "attacked"
FAIL_ALLOC = BUILD / "tests" / "process" / "libfail_alloc.so"
MIB = 1 << 20
ENOMEM, ELIMIT = -2, -3
ORDERS = ("open 0", "put k", "get k", "barrier b", "restart", "close")
IN_A_ROW = (1, 2, 5)

# A sanitizer has its own allocator, and needs room of its own that no limit may take.
unsanitized = pytest.mark.skipif(sanitized(), reason="a sanitizer allocates by itself")


def run_short_of_memory(env, at, count):
    """The answers, and how many allocations there were."""
    done = subprocess.run(
        [ATTACKED, ",".join(ORDERS)], capture_output=True, text=True, timeout=2 * WAIT_S,
        env={**env, "LD_PRELOAD": str(FAIL_ALLOC), "FAIL_ALLOC": str(at),
             "FAIL_ALLOC_COUNT": str(count), "MUSTER_JOB": f"job-{at}-{count}",
             "MUSTER_AGENT": "0"})
    assert done.returncode == 0, (at, count, done.stderr)
    return done.stdout.splitlines(), int(re.search(r"allocations: (\d+)", done.stderr)[1])


@unsanitized
def test_a_program_without_memory_is_told_by_each_call(service, env):
    """In a program, any one allocation of a whole session finds no memory, or two or five in a
    row. The call it belongs to says so in a line, or succeeds all the same. There is no crash,
    each call comes back, and the calls after it work."""
    env["MUSTER_ADDR"] = service.address
    whole, total = run_short_of_memory(env, 0, 1)
    assert [line.split()[0] for line in whole] == ["OK"] * len(ORDERS)
    assert total > 20

    def one(of):
        at, count = of
        lines, _ = run_short_of_memory(env, at, count)
        said = [line.split(" ", 1) for line in lines]
        assert len(said) == len(ORDERS), (at, count, lines)
        if said[0][0] != "OK":
            assert lines[1:] == ["EINVAL there is no client"] * (len(ORDERS) - 1), (at, lines)
            said = said[:1]
        failed = [(status, text) for status, text in said if status != "OK"]
        assert len(failed) <= count + 1, (at, count, lines)
        for status, text in failed:
            unwritten = status in ("ENOTFOUND", "ETIMEDOUT") and "'k'" in text
            assert unwritten or status == "ENOMEM" and text.endswith("out of memory"), (at, lines)
            assert "after" not in text, (at, text)  # it took no time
        return len(failed)

    cases = [(at, count) for count in IN_A_ROW for at in range(1, total + 1)]
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        failures = list(threads.map(one, cases))
    assert sum(failures) > total // 2
    assert service.wire().renew().status == OK
    assert not service.log.having(" error ")


# ---- the service ----


def address_space(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as text:
        return next(int(line.split()[1]) << 10 for line in text if line.startswith("VmSize"))


def leave_room(service, size):
    """From now on the service gets so much memory more, and then none."""
    most = address_space(service.pid) + size
    resource.prlimit(service.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def fill(wire, name, value):
    """Writes until it is refused; how many were kept, and the status of the one that was not, or
    None if that cost the connection."""
    for number in range(100_000):
        try:
            status = wire.put(f"{name}/{number}", value).status
        except (Closed, ConnectionError):  # while it writes, or reads
            return number, None
        if status != OK:
            return number, status
    raise AssertionError("there is memory without end")


def come(service, count):
    """Newcomers where there is no memory: each is in, is refused in words, or is hung up on. Those
    that are in."""
    wires = []
    for _ in range(count):
        try:
            wire = Wire(service.address)
            status = wire.open().status
            assert status in (OK, ENOMEM)
            if status == OK:
                wires.append(wire)
        except (Closed, ConnectionError):
            pass
    return wires


def delete(wire, key):
    return wire.ask("write", field(2, field(1, 6) + field(3, key)))


@unsanitized
@pytest.mark.parametrize("size", [200, 5000, 60_000, 1_000_000])
def test_a_service_without_memory_refuses_and_goes_on(service, size):
    """Keys fill the service's memory up to what the system allows. A write is refused with
    ENOMEM, or costs its sender the connection; what was kept can be read, newcomers are
    refused, and members renew their leases, from memory that is kept for that. Keys can be
    deleted, and then there is room again."""
    witness, filler = service.wire(), service.wire()
    assert witness.put("precious", "kept", owned=True).status == OK
    leave_room(service, (4 if size < 1000 else 48) * MIB)
    kept, status = fill(filler, "f", b"v" * size)
    assert kept > 10 and status in (None, ENOMEM)
    if status is None:
        assert "out of memory" in service.log.wait_for("connection-refused")
    assert witness.renew().status == OK
    assert witness.get("precious").value == b"kept"
    assert witness.get(f"f/{kept - 1}").value == b"v" * size
    newcomers = come(service, 100)
    assert witness.renew().status == OK
    for number in range(kept):
        assert delete(witness, f"f/{number}").status == OK
    again = service.wire()
    # Small ones: what was given back lies in pieces of the size it had.
    assert all(again.put(f"g/{number}", b"v" * min(size, 1000)).status == OK for number in range(10))
    assert all(wire.renew().status == OK for wire in newcomers)
    assert service.process.poll() is None
