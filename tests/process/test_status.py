# SPDX-License-Identifier: Apache-2.0
"""`muster status`: who is here, lost, waiting, and who is missing.

behaviour: program / muster status
"""

import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys

from conftest import MUSTER, WAIT_S
from running import until
from wire import AGENT, OK, RANK, Wire, field

HERE = pathlib.Path(__file__).parent
SOFT_TIMEOUT, UNHEALTHY, AGAIN = 8, 10, 11
NO_RANK = 0xffffffff  # the index in a fault of the ranks that nothing tells apart

# A rank in a process of its own, so that it can be killed.
MEMBER = """
import sys
from wire import RANK, Wire
address, index, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
wire = Wire(address)
assert wire.open_rank(index, size).status == 0
assert wire.ask("join").status == 0
print("in", flush=True)
sys.stdin.read()
"""


def zigzag(number):
    return number << 1 ^ number >> 63


def ranks(service, count, size=None):
    """Connections of ranks 0 to count-1, of which all are ready."""
    wires = []
    for index in range(count):
        wire = Wire(service.address)
        assert wire.open_rank(index, size or count).status == OK
        wire.post("join")
        wires.append(wire)
    return wires


def sealed(service, count):
    wires = ranks(service, count)
    for wire in wires:
        wire.receive()
    return wires


def text(muster, *args):
    done = muster("status", *args)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def told(muster, *args):
    return json.loads("\n".join(text(muster, *args, "--json")))


def test_nobody(service, muster):
    """`muster status` of an empty job: one line says that it has no members."""
    assert text(muster) == ["job default: no rank has joined yet"]
    answer = told(muster)
    assert answer["members"] == []
    assert answer["verdict"] == {"sentence": "no rank has joined yet", "kind": "empty",
                                 "level": "note", "index": None, "since_ms": None}


def test_who_never_came(serve, muster):
    """A job waits for ranks that never came. They are named in one line; `--json` says the same
    for a script."""
    service = serve("--lease", "60s")
    kept = ranks(service, 2, 4)
    lines = text(muster)
    assert re.fullmatch("job default: 2 of 4 ranks wait for the first generation for .* s: "
                        "#2, #3 are missing", lines[0])
    assert lines[1:] == ["no generation yet, 2 of 4 here",
                         "missing: #2 (never came), #3 (never came)", "  2 joining"]
    assert re.fullmatch(rf"  #0             joining  \d\.\d s   node testnode, pid {os.getpid()}",
                        text(muster, "-a")[3])
    assert told(muster)["missing"] == [2, 3]
    assert kept


def test_a_sealed_generation(serve, muster):
    """A generation is sealed. `muster status` says in its first line that all ranks run and since
    when, and sums them; with `-a` each has a line with index, state, since when, node and
    process."""
    service = serve("--lease", "60s")
    kept = sealed(service, 3)
    lines = text(muster)
    assert re.fullmatch(r"job default: all 3 ranks run for \d+\.\d s", lines[0])
    assert re.fullmatch(r"generation 1 for \d+\.\d s, 3 of 3 here", lines[1])
    assert lines[2:] == ["  3 run"]
    for index, line in enumerate(text(muster, "-a")[2:]):
        assert re.fullmatch(rf"  rank {index} \(#{index}\)    present  \d+\.\d s   node testnode, "
                            rf"pid {os.getpid()}", line)
    assert kept


def on_terminal(env, **variables):
    """What it writes to a terminal."""
    master, slave = pty.openpty()
    try:
        subprocess.run([str(MUSTER), "status"], stdout=slave, env=env | variables, timeout=WAIT_S, check=True)
        return os.read(master, 65536).decode()
    finally:
        os.close(master)
        os.close(slave)


def test_colours_are_for_terminals_that_want_them(serve, muster, env):
    """`muster status` writes to a terminal. The verdict has a colour, unless `NO_COLOR` is set or
    `TERM` is `dumb`; in a pipe it has none."""
    kept = sealed(serve("--lease", "60s"), 2)
    plain = {key: value for key, value in env.items() if key != "NO_COLOR"}
    good = "job default: \033[1;32mall 2 ranks run for "
    assert on_terminal(plain, TERM="xterm").startswith(good)
    for variables in ({"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}):
        assert "\033" not in on_terminal(plain, **variables)
    assert "\033" not in "".join(text(muster))
    assert kept


def test_who_waits_at_which_round(serve, muster):
    """A rank waits at a round. The line of the rank says at which, and the round's line which
    ranks are missing."""
    service = serve("--lease", "60s")
    first, *_ = sealed(service, 2)
    first.post("round", field(1, 1) + field(2, "epoch"))
    assert first.renew_behind().status == OK  # so it has been taken in
    lines = text(muster, "-a")
    assert lines[3].endswith(", waits at 'epoch' 0")
    assert re.fullmatch(r"round 'epoch' 0: 1 of 2 arrived, open for \d+\.\d s, missing: "
                        r"rank 1 \(#1, node testnode\)", lines[2])
    answer = told(muster)
    assert answer["rounds"][0].pop("since_ms") >= 0
    assert answer["rounds"] == [
        {"name": "epoch", "number": 0, "arrived": 1, "expected": 2, "first_missing": 1,
         "missing": [1], "awaited": 0, "awaited_ms": 0}
    ]
    assert answer["members"][0]["since_ms"] >= 0 and answer["since_ms"] >= 0
    assert answer["members"][0]["waits_at"] == "epoch"
    assert answer["members"][1]["waits_at"] is None


LARGE = 64


def stuck(serve):
    """All but one wait in a round, of a job that has been restarted and has waiters elsewhere."""
    service = serve("--lease", "60s")
    kept = sealed(service, LARGE)
    assert kept[5].ask("fault", fault(1, code=7, words="nan in layer 3")).status == OK
    for wire in kept:
        wire.post("round", field(1, 1) + field(2, "seal") + field(6, 1) + field(9, 1))
    for wire in kept:
        wire.receive()
    for number in range(12):
        kept[number].post("round", field(1, 2) + field(2, f"aside-{number}"))
    for index, wire in enumerate(kept):
        if index != 7:
            wire.post("round", field(1, 2) + field(2, "epoch"))
    for wire in kept:
        assert wire.renew_behind().status == OK
    return service, kept


def test_what_a_large_job_hangs_on_is_in_the_first_line(serve, muster):
    """A large job hangs: all but one wait in a round, or a hang was found. The first line of
    `muster status` says it: who waits for whom since when, or the interruption and its cause. The
    rank that they wait for has a line; the others are sums. Of more than eight rounds the rest are
    a number. `-a` lists every member."""
    service, kept = stuck(serve)
    hung = (rf"job default: {LARGE - 1} of {LARGE} wait in 'epoch' for \d+\.\d s: "
            r"rank 7 \(#7\) on testnode has not come")
    until(lambda: re.fullmatch(hung, text(muster)[0]))  # a second old
    lines = text(muster)
    assert re.fullmatch(rf"generation 2 for .*, {LARGE} of {LARGE} here; 1 restart(, which took .*)?",
                        lines[1])
    assert re.fullmatch(rf"round 'epoch' 0: {LARGE - 1} of {LARGE} arrived, open for .*, missing: "
                        r"rank 7 \(#7, node testnode\)", lines[2])
    assert len([line for line in lines if line.startswith("round ")]) == 8
    assert "and 5 more rounds (--json has all)" in lines
    assert len(told(muster)["rounds"]) == 13
    members = [line for line in lines if line.startswith("  ")]
    assert members[0].startswith("  rank 7 (#7)") and "epoch" not in members[0]
    assert members[1:] == [f"  {LARGE - 1} wait at 'epoch' 0"]
    assert sum(line.startswith("  rank ") for line in text(muster, "-a")) == LARGE
    hang = "made no progress for 9 s: blocked in read"
    assert service.wire().ask("fault", fault(2, kind=SOFT_TIMEOUT, words=hang, about=7)).number == 1
    assert re.match(r"job default: interrupted for .*: rank 7 \(#7\) on testnode " + hang,
                    text(muster)[0])
    assert kept


def test_a_place_that_was_lost_and_left_has_no_dangling_words(serve, muster):
    """A place was lost, is taken again, and left. How often it was lost is said; how it was lost
    only where it is known."""
    service = serve("--lease", "60s")
    kept = sealed(service, 2)
    agent = service.wire()
    body = field(1, 1) + field(2, os.getpid()) + field(3, 2) + field(4, 9 << 1)
    assert agent.ask("lost", body).number == 1
    again = Wire(service.address)
    assert again.open_rank(1, 2).status == OK
    (line,) = [line for line in text(muster) if ", lost 1 time" in line]
    assert not line.endswith((" ", ",")), line
    assert line.endswith(", lost 1 time") or ", last killed by signal 9" in line
    again.post("leave")
    again.receive()
    (line,) = [line for line in text(muster) if ", lost 1 time" in line]
    assert line.endswith(", lost 1 time"), line
    assert kept


def test_a_killed_rank_is_silent_then_lost(serve, muster):
    """A lease is not renewed. The member is lost. Whether still connected or coming back, it is
    refused (EFENCED) with the generation the job is in. [sessions / Silence and coming back]"""
    service = serve("--lease", "6s")
    rank = subprocess.Popen(
        [sys.executable, "-c", MEMBER, service.address, "1", "2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": str(HERE)},
    )
    service.log.wait_for("member-ready #1")
    survivor = ranks(service, 1, 2)[0]  # only now: it does not renew
    survivor.receive()
    assert rank.stdout.readline() == b"in\n"
    rank.send_signal(signal.SIGKILL)
    rank.wait()
    service.log.wait_for("member-lost #1", "cause=lease", meanwhile=survivor.renew)
    survivor.renew()
    answer = told(muster)
    one = answer["members"][1]
    assert (one["index"], one["state"], one["cause"], one["pid"]) == (1, "lost", "lease", rank.pid)
    assert 1 in answer["missing"]
    survivor.renew()
    line = [line for line in text(muster) if line.startswith("missing: ")][0]
    assert "#1 (silent for longer than the lease, node testnode)" in line


def test_silence_is_told(serve, muster):
    """A rank is silent, and then lost. `muster status` says for how long, then the cause."""
    service = serve("--lease", "60s")
    first, second = sealed(service, 2)
    second.close()
    service.log.wait_for("member-silent #1")
    lines = text(muster)
    assert re.fullmatch(r"job default: rank 1 \(#1\) on testnode is silent for \d+\.\d s", lines[0])
    assert re.match(r"  rank 1 \(#1\) +silent +\d+\.\d s +node testnode, pid \d+, last heard "
                    r"\d+\.\d s ago", lines[2])
    assert first


def test_other_jobs_of_the_service_are_named(serve, muster):
    """The service has other jobs. `muster status` names them, with the flag that shows them."""
    service = serve("--lease", "60s")
    other = Wire(service.address)
    assert other.open_rank(0, 2, job="other").status == OK
    (line,) = [line for line in text(muster) if line.startswith("also here: ")]
    assert line.startswith("also here: job other, generation 0, 1 of 2 (")
    lines = text(muster, *line.split("(")[1].rstrip(")").split())
    assert lines[0].startswith("job other: 1 of 2 ranks waits for the first generation for ")
    assert {job["job"] for job in told(muster)["jobs"]} >= {"other"}


def test_an_agents_word_is_shown(serve, muster):
    """An agent has reported a death. `muster status` shows signal and last words."""
    service = serve("--lease", "60s")
    kept = sealed(service, 2)
    agent = service.wire()
    body = field(1, 1) + field(2, os.getpid()) + field(3, 2) + field(4, 9 << 1) + field(5, "oops\n\033[2J")
    assert agent.ask("lost", body).number == 1
    lines = text(muster)
    words = r"oops\x0a\x1b[2J"
    assert re.fullmatch(r"job default: interrupted for .* s: rank 1 \(#1\) on testnode was killed by "
                        r"signal 9 \(Killed\): " + re.escape(words), lines[0])
    assert lines[2] == "missing: #1 (killed by signal 9 (Killed), node testnode)"
    assert any("lost" in line and f": {words}" in line for line in lines[3:])
    assert kept and RANK == 1


def node(service, number, host, indices, size):
    """An agent and its ranks, which are ready."""
    wires = [Wire(service.address) for _ in range(1 + len(indices))]
    assert wires[0].open(role=AGENT, index=number, host=host).status == OK
    for wire, index in zip(wires[1:], indices):
        assert wire.open_rank(index, size, host=host, node=number).status == OK
        wire.post("join")
    return wires


def test_a_lost_node_is_told_as_one(serve, muster):
    """A whole node is lost. One line names it with the ranks it took, and each host that lost
    something has a line: how often, or how many ranks alone."""
    service = serve("--lease", "6s")
    survivor = ranks(service, 1, 4)[0]
    lost = node(service, 1, "b3", [1, 2], 4)
    alone = Wire(service.address)
    assert alone.open_rank(3, 4, host="c4").status == OK
    alone.post("join")
    survivor.receive()
    assert not any(line.startswith("host ") for line in text(muster))
    for wire in [*lost, alone]:
        wire.close()
    service.log.wait_for("node-lost node=1", "host=b3 ranks=2 cause=lease", meanwhile=survivor.renew)
    service.log.wait_for("member-lost #3", meanwhile=survivor.renew)
    survivor.renew()
    lines = text(muster)
    assert re.fullmatch(r"job default: interrupted for .* s: rank \d \(#\d\) on (b3|c4) was silent for "
                        "longer than the lease", lines[0])
    assert lines[2] == "missing: #3 (silent for longer than the lease, node c4)"
    assert re.fullmatch(r"node 1 \(b3\) lost, last heard \d+\.\d s ago: ranks #1, #2", lines[3])
    assert lines[4:6] == ["host b3: lost 1 time", "host c4: 1 rank lost there alone"]
    survivor.renew()
    answer = told(muster)
    assert answer["missing"] == [1, 2, 3]
    assert [member["node"] for member in answer["members"]] == [None, 1, 1, None, None]
    assert answer["hosts"] == [
        {"host": "testnode", "losses": 0, "rank_losses": 0, "members": 1},
        {"host": "b3", "losses": 1, "rank_losses": 0, "members": 0},
        {"host": "c4", "losses": 0, "rank_losses": 1, "members": 0},
    ]


def fault(generation, kind=0, code=0, words="", about=None):
    """A FAULT of the caller, or an agent's about `about`, an index of the pid of this process."""
    body = field(1, generation) + field(2, zigzag(code)) + field(3, words) + field(4, kind)
    return body + (field(5, os.getpid()) + field(6, about) if about is not None else b"")


def seal(wires, generation=1):
    """All stand at the seal of that generation; the last one's answer is the next one's."""
    for wire in wires:
        wire.post("round", field(1, generation) + field(2, "seal") + field(6, 1) + field(9, 1))
    for wire in wires:
        wire.receive()


def test_the_last_restart_is_told_in_one_line(serve, muster):
    """`muster status` says since when the generation runs, in one line what ended the one
    before, the first cause with its words, and in the first what has befallen it since; `--json`
    and `/status.json` list all that is kept. [generations / Faults of a generation]"""
    service = serve("--lease", "60s")
    kept = sealed(service, 3)
    watcher = service.wire()
    assert not any("interrupted" in line or "began after" in line for line in text(muster))
    stuck = "made no progress for 9 s: blocked in read\n, its peers at 9"
    assert watcher.ask("fault", fault(1, kind=SOFT_TIMEOUT, words=stuck, about=2)).number == 1
    assert kept[0].ask("fault", fault(1, code=7, words="nan in layer 3")).status == OK
    first = r"made no progress for 9 s: blocked in read\x0a, its peers at 9"
    assert re.fullmatch(r"job default: interrupted for .* s: rank 2 \(#2\) on testnode " +
                        re.escape(first), text(muster)[0])
    seal(kept)
    lines = text(muster)
    assert re.fullmatch(r"job default: all 3 ranks run for \d+\.\d s", lines[0])
    assert re.fullmatch(r"generation 2 for \d+\.\d s, 3 of 3 here; 1 restart(, which took .* s)?",
                        lines[1])
    assert lines[2] == "generation 2 began after rank 2 (#2, node testnode) " + first
    assert kept[1].ask("fault", fault(2, kind=AGAIN, words="asked for a restart")).status == OK
    lines = text(muster)
    assert re.fullmatch(r"job default: interrupted for .* s: rank 1 \(#1\) on testnode asked for a "
                        "restart", lines[0])
    assert lines[2].startswith("generation 2 began after ")


def grow(service, wires, generation, index):
    """One more is let in, and they are in the next generation."""
    newcomer = Wire(service.address)
    assert newcomer.open_rank(index, index).status == OK
    newcomer.post("join")
    seal(wires, generation)
    newcomer.receive()
    return newcomer


def test_the_verdict_of_a_hang_comes_before_what_ranks_wait_for_now(serve, muster):
    """A hang was found, the job goes on, and ranks wait in rounds again. The third line still
    says which rank made no progress and where; the rounds come behind it."""
    service = serve("--lease", "60s")
    kept = sealed(service, 3)
    hang = "made no progress for 9 s: blocked in read"
    assert service.wire().ask("fault", fault(1, kind=SOFT_TIMEOUT, words=hang, about=2)).number == 1
    seal(kept)
    for number in range(12):
        kept[0].post("round", field(1, 2) + field(2, f"step-{number}"))
    assert kept[0].renew_behind().status == OK
    lines = text(muster)
    assert lines[2] == "generation 2 began after rank 2 (#2, node testnode) " + hang
    assert lines[3].startswith("round 'step-")
    kept.append(grow(service, kept, 2, 3))
    kept[3].post("round", field(1, 3) + field(2, "step-0"))
    assert kept[3].renew_behind().status == OK
    lines = text(muster)
    assert lines[2] == "generation 1 ended after rank 2 (#2, node testnode) " + hang
    assert lines[3].startswith("round 'step-0")


def test_a_growth_is_not_said_to_be_for_an_older_fault(serve, muster):
    """A generation only grew, long after a fault. The fault is shown with the number of the
    generation that it ended."""
    service = serve("--lease", "60s")
    kept = sealed(service, 3)
    assert kept[1].ask("fault", fault(1, code=7, words="nan")).status == OK
    seal(kept)
    rank = "rank 1 (#1, node testnode) failed: code 7: nan"
    assert text(muster)[2] == "generation 2 began after " + rank
    kept.append(grow(service, kept, 2, 3))
    lines = text(muster)
    assert re.fullmatch(r"generation 3 for .* s, 4 of 3 here; 1 restart(, which took .* s)?", lines[1])
    assert lines[2] == "generation 1 ended after " + rank


def kinds(lines):
    """What each line is of, without the length of lists."""
    words = ["member" if line.startswith("  ") else line.split()[0] for line in lines]
    return [word for i, word in enumerate(words) if words[i - 1:i] != [word]]


def test_the_sample_in_the_guide_has_the_order_of_the_output(serve, muster):
    """The page on operations shows an output of `muster status`. Its lines come in the order of
    the real one. [The documentation]"""
    service = serve("--lease", "60s")
    kept = sealed(service, 3)
    body = field(1, 2) + field(2, os.getpid()) + field(3, 2) + field(4, 9 << 1)
    assert service.wire().ask("lost", body).number == 1
    seal(kept[:2])
    kept[0].post("round", field(1, 2) + field(2, "epoch"))
    assert kept[0].renew_behind().status == OK
    guide = (HERE.parent.parent / "docs" / "operations.md").read_text()
    (sample,) = re.findall(r"^```\n(job train: .*?)```$", guide, re.M | re.S)
    assert kinds(sample.splitlines()) == kinds(text(muster))


def test_faults_are_listed_as_json(serve, muster):
    """`muster status` says in one line since when the generation runs and what ended the one
    before, the first cause with its words, and in another what has befallen it since; `--json`
    and `/status.json` list all that is kept. [generations / Faults of a generation]"""
    service = serve("--lease", "60s")
    kept = sealed(service, 3)
    agent = Wire(service.address)
    assert agent.open(role=AGENT, index=4).status == OK
    assert told(muster)["faults"] == []
    assert kept[1].ask("fault", fault(1, kind=UNHEALTHY, code=-4, words="disk")).status == OK
    body = field(1, 2) + field(2, os.getpid()) + field(3, 9) + field(4, zigzag(15))
    assert agent.ask("lost", body).number == 1
    seal(kept[:2])
    assert kept[0].ask("fault", fault(2)).status == OK
    hang = "made no progress for 9 s: all stand at step 6: any of them"
    assert agent.ask("fault", fault(2, kind=SOFT_TIMEOUT, words=hang, about=NO_RANK)).number == 1
    faults = told(muster)["faults"]
    assert all(item.pop("after_ms") >= 0 and item.pop("ago_ms") >= 0 for item in faults)
    same = {"incarnation": 1, "pid": os.getpid(), "host": "testnode", "node": None}
    of_no_rank = dict.fromkeys(("state", "index", "rank", *same))
    assert faults == [
        {"generation": 1, "cause": "unhealthy", "code": -4, "text": "disk", "state": "present",
         "index": 1, "rank": 1, "told_by": None, **same},
        {"generation": 1, "cause": "hard-timeout", "code": 15, "text": "", "state": "lost",
         "index": 2, "rank": 2, "told_by": 4, **same},
        {"generation": 2, "cause": "fault", "code": 0, "text": "", "state": "present",
         "index": 0, "rank": 0, "told_by": None, **same},
        {"generation": 2, "cause": "soft-timeout", "code": 0, "text": hang, "told_by": 4,
         **of_no_rank},
    ]
