# SPDX-License-Identifier: Apache-2.0
"""Names and texts that somebody else chose, on their way into what people read: jobs, hosts, rounds,
keys, values, faults, notices, functions and reasons, each of them hostile, through every printer.

behaviour: program / muster key
"""

import json
import os
import re
import signal
import subprocess

import pytest

from conftest import MUSTER, WAIT_S
from running import Run
from test_http import Http
from wire import AGENT, OK, RANK, Wire, field

# What a terminal obeys, what ends a line, what turns one, what is no UTF-8, what a shell expands.
HOSTILE = (b"x\nFORGED line\r\x1b[2J\x1b]0;t\x07\x7f\x9b2J\xc2\x9b2J\xe2\x80\xae\xe2\x80\xa8\xff"
           b"'\"`$(touch FORGED)")
QUOTED = (rb"x\x0aFORGED line\x0d\x1b[2J\x1b]0;t\x07\x7f\x9b2J\xc2\x9b2J\xe2\x80\xae\xe2\x80\xa8\xff"
          b"'\"`$(touch FORGED)")
SOFT = b"x\x9b2J\xc2\x9b2J\xe2\x80\xae\xe2\x80\xa8\xff FORGED"
QUOTED_SOFT = rb"x\x9b2J\xc2\x9b2J\xe2\x80\xae\xe2\x80\xa8\xff FORGED"
OBEYED = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
LEASE = ("--lease", "60s")  # connections of a test renew none


def harmless(out, where):
    """Lines that begin with what the printer says, and hold nothing that a terminal obeys."""
    text = out.decode()  # UTF-8, whole
    if text[:1] in ("{", "["):
        text = text.replace("\x7f", "")  # JSON has it as it is, and a terminal ignores it
    assert not OBEYED.search(text), (where, text)
    assert not re.search(r"^\W*FORGED", text, re.M), (where, text)
    return out


@pytest.fixture
def said(env, started):
    """said(words...): all that the command prints, as bytes, which must be harmless."""

    def run(*words, code=0, **options):
        done = subprocess.run([MUSTER, *words], env=env, capture_output=True, timeout=WAIT_S, **options)
        out = harmless(done.stdout + done.stderr, words)
        assert done.returncode == code, out.decode()
        return out

    return run


def harmed(service, job):
    """A job with a hostile name, in which everybody and everything has one. What is to be kept."""
    first, second, agent, waiting, absent = [Wire(service.address) for _ in range(5)]
    assert first.open_rank(0, 2, job=job, host=HOSTILE).status == OK
    assert second.open_rank(1, 2, job=job, host=HOSTILE).status == OK
    assert agent.open(role=AGENT, index=7, job=job, host=HOSTILE).status == OK
    for index, wire in enumerate((waiting, absent)):
        assert wire.open_rank(index, 2, job=job + b"2", host=HOSTILE).status == OK
    for wire in (first, second, waiting, absent):
        wire.post("join")
    for wire in (first, second, waiting, absent):
        wire.receive()
    assert first.put(HOSTILE, HOSTILE).status == OK
    for reason in (HOSTILE, SOFT):  # ASCII's control characters make it none
        notice = b"level=certain left_ms=60000 source=" + SOFT.split()[0] + b" reason=" + reason
        assert first.put("muster/preempt/notice/0", notice).status == OK
        assert first.put("muster/cluster-status/c", b"oldest=1 oldest_function=" + reason).status == OK
    assert first.ask("fault", field(1, 1) + field(2, 2) + field(3, HOSTILE) + field(4, 0)).status == OK
    lost = field(1, 1) + field(2, os.getpid()) + field(3, 2) + field(4, 9 << 1) + field(5, HOSTILE)
    assert agent.ask("lost", lost).number == 1
    waiting.post("round", field(1, 1) + field(2, HOSTILE))
    assert waiting.renew_behind().status == OK
    return first, second, agent, waiting, absent


def test_no_printer_of_a_name_lets_a_terminal_obey_it(serve, said, env, tmp_path):
    """Jobs, hosts, keys, rounds, faults, notices or reasons have names that a terminal would
    obey, that forge a line or turn it round. Every command, the log, the metrics, JSON and the
    report show such bytes as `\\xNN`; letters of any language stay."""
    service = serve("--http", "127.0.0.1:0", "--log-level", "debug", "--record", tmp_path / "r", *LEASE)
    http = Http(service)
    kept = harmed(service, HOSTILE)
    place = ("--addr", service.address, "-j", HOSTILE)
    status = said("status", "-a", *place)
    for what in (b"job " + QUOTED + b": interrupted for ", b"node " + QUOTED, b": " + QUOTED + b"\n",
                 b"also here: job " + QUOTED + b"2", b": " + QUOTED_SOFT + b" ("):
        assert what in status, (what, status.decode())
    status = said("status", "--addr", service.address, "-j", HOSTILE + b"2")
    for what in (b"waits at '" + QUOTED + b"' 0", b"round '" + QUOTED + b"' 0: 1 of 2"):
        assert what in status, (what, status.decode())
    json.loads(said("status", *place, "--json"))
    assert QUOTED in said("key", "ls", *place).replace(b"\\\\", b"\\")
    said("key", "ls", "--values", *place)
    said("key", "ls", "--values", "--json", *place)
    said("key", "watch", "--count", "3", *place)
    said("key", "watch", "--count", "3", "--json", *place)
    said("key", "cas", HOSTILE, "77", "v", *place, code=1)
    said("key", "get", HOSTILE + b"none", *place, code=1)
    said("preempt", *place, "--reason", HOSTILE, "--json")
    said("preempt", *place, "--in", "30s")
    said("preempt", *place, "9", code=1)
    said("preempt", *place, "--withdraw")
    said("chaos", "kill", "1", *place, code=1)
    said("chaos", "cut", "0", "--for", "50ms", *place)
    said("chaos", "random", "--count", "1", "--rate", "20/s", "--kinds", "cut", *place)
    said("barrier", HOSTILE, "-n", "2", "--timeout", "50ms", *place, code=124)
    said("status", "-j", HOSTILE, code=1)
    said(HOSTILE, code=2)
    for shell in ("bash", "zsh", "fish"):
        for words in (("status", "-j", ""), ("key", *place, "get", ""), ("preempt", *place, "")):
            said("completion", shell, *words)
    for path in ("/metrics", "/status.json", "/readyz", "/status.json?job=x"):
        harmless(http.get(path)[2].encode(), path)
    for wire in kept:
        wire.close()
    service.signal(signal.SIGTERM)
    assert service.wait() == 0
    harmless("\n".join(service.log.lines).encode(), "log")
    assert any(QUOTED.decode()[:20] in line for line in service.log.lines)
    said("replay", tmp_path / "r")
    said("replay", tmp_path / "r", "--json")


def test_a_command_that_is_offered_means_the_name_and_nothing_else(serve, said, env, tmp_path):
    """`muster status` offers a command for another job, whose name a shell would expand. Pasted
    into bash, it finds that job and runs nothing else."""
    service = serve(*LEASE)
    other = Wire(service.address)
    assert other.open_rank(0, 2, job=HOSTILE).status == OK
    line = next(line for line in said("status").split(b"\n") if line.startswith(b"also here: "))
    flags = line[line.index(b"(--addr") + 1 : -1]
    done = subprocess.run(["bash", "-c", b'"$0" status ' + flags, MUSTER], env=env, cwd=tmp_path,
                          capture_output=True, timeout=WAIT_S)
    assert done.stdout.startswith(b"job " + QUOTED + b": "), done
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("order", [b"fail", b"abort"])
def test_what_a_rank_says_of_its_end_is_quoted_by_the_run(spawn, muster, said, tmp_path, order):
    """A rank's last words hold bytes that a terminal would obey. `muster run`, its service and
    `--report` quote them."""
    report = tmp_path / "report"
    run = Run(spawn, muster, 2, "--max-restarts", "0", "--report", report)
    ranks = run.entered()
    generation = ranks[0]["generation"]
    said("key", "put", f"order-0-{generation}", order + b" 7 " + HOSTILE, "-j", run.job)
    if order == b"fail":
        run.all_well(run.entered(generation + 1))
    else:
        assert run.run.wait() == 1
        assert rb"\\x9b2J\\xc2\\x9b2J" in harmless(report.read_bytes(), "report")
    assert rb"\x9b2J\xc2\x9b2J" in harmless("\n".join(run.log.lines).encode(), "run")
