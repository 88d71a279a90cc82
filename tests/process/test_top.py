# SPDX-License-Identifier: Apache-2.0
"""`muster top`: the job on a terminal, refreshed.

behaviour: program / muster top
"""

import os
import re
import signal

import pytest

from conftest import MUSTER, Process
from running import until
from terminal import needs_terminal, terminal  # noqa: F401
from wire import OK, Wire, field

RANKS, NODES, HUNG = 64, 8, 61
SOON = ("--interval", "100ms")


def rank(service, index, size, host):
    wire = Wire(service.address)
    assert wire.open_rank(index, size, host=host).status == OK
    wire.post("join")
    return wire


def hanging(service):
    """64 ranks on 8 nodes, of which one does not come to the round of the others."""
    wires = [rank(service, index, RANKS, f"b{index // (RANKS // NODES)}") for index in range(RANKS)]
    for wire in wires:
        wire.receive()
    for index, wire in enumerate(wires):
        if index != HUNG:
            wire.post("round", field(1, 1) + field(2, "epoch"))
    return wires


def pid_of(one):
    """Of the muster top in that terminal."""
    pane = one.tmux("display-message", "-p", "#{pane_pid}").strip()
    with open(f"/proc/{pane}/task/{pane}/children", encoding="ascii") as children:
        return int(children.read().split()[-1])


def alternate(one):
    return one.tmux("display-message", "-p", "#{alternate_on}").strip() == "1"


@needs_terminal
def test_the_rank_that_hangs_is_on_the_first_screen(serve, terminal):  # noqa: F811
    """64 ranks run on 8 nodes, and one hangs. On a terminal of 80 x 24 `muster top` names it in the
    verdict and in the first row of the table. The terminal gets another size, and the screen
    follows; keys sort, filter, open and close; `q` ends it, and the terminal shows what it showed
    before."""
    kept = hanging(serve("--lease", "600s"))
    one = terminal("top", *SOON, script="echo before; {run}", columns=80, rows=24)
    one.sees("63 of 64 wait in 'epoch' for ", "rank 61 (#61) on b7 has not come")
    lines = one.screen()
    assert len(lines) == 24 and all(len(line) <= 80 for line in lines)
    assert lines[0].startswith("job default  generation 1 for ")
    assert "b0 ........ b1 ........" in lines[2] and "b7 .....?.." in lines[3]
    assert lines[5].startswith(">rank 61 (#61)    present ")
    assert alternate(one)
    one.resize(120, 40)
    until(lambda: len(one.screen()) == 40 and any("q quit" in line for line in one.screen()[-1:]))
    one.resize(60, 12)
    until(lambda: len(one.screen()) == 12 and one.screen()[-1].startswith("q quit"))
    one.resize(80, 24)
    one.types("s")
    one.sees(">rank 0 (#0)", "sort: index")
    one.types("Down", "Down")
    one.sees(">rank 2 (#2)")
    one.types("/", "b3", "Enter")
    one.sees("filter: b3 (8 of 64)", ">rank 24 (#24)")
    one.types("Enter")
    one.sees("rank 24 (#24): present for ", "waits at 'epoch' 0")
    one.types("Escape")
    one.sees(">rank 24 (#24)")
    one.types("h")
    one.sees("escape  close, or forget the filter")
    one.types("q")
    assert one.ended() == 0
    assert not alternate(one) and one.screen()[0] == "before" and len(one.screen()) == 2
    assert kept


@needs_terminal
@pytest.mark.parametrize("number", [None, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV],
                         ids=["ctrl-c", "term", "hangup", "crash"])
def test_the_terminal_is_as_it_was_on_every_way_out(serve, terminal, number):  # noqa: F811
    """`muster top` is ended by Ctrl-C or by a signal, also one of a crash. The terminal is as it was:
    its screen, and that it echoes what is typed."""
    kept = hanging(serve("--lease", "600s"))
    one = terminal("top", *SOON, script="trap : INT; echo before; {run}; stty -a | grep -o ' [-]*echo '")
    one.sees("rank 61 (#61) on b7 has not come")
    if number is None:
        one.types("C-c")
    else:
        os.kill(pid_of(one), number)
    one.ended()
    assert not alternate(one) and one.screen()[0] == "before", one.screen()
    assert " echo" in one.screen(), one.screen()
    assert kept


@needs_terminal
def test_it_is_stopped_and_goes_on(serve, terminal):  # noqa: F811
    """Ctrl-Z stops `muster top`: the shell has its terminal. It continues, and draws its screen
    anew."""
    kept = hanging(serve("--lease", "600s"))
    one = terminal("top", *SOON, script="set -m; echo before; {run}; echo stopped; read; fg >/dev/null")
    one.sees("rank 61 (#61) on b7 has not come")
    one.types("C-z")
    one.sees("before", "stopped")
    assert not alternate(one)
    one.types("Enter")
    one.sees("rank 61 (#61) on b7 has not come")
    assert alternate(one)
    one.types("q")
    assert one.ended() == 0
    assert kept


@needs_terminal
def test_it_follows_a_service_that_is_started_again(serve, terminal, tmp_path):  # noqa: F811
    """The service is killed. `muster top` says since when and keeps the last picture; the service is
    started again, and it goes on."""
    flags = ("--journal", tmp_path / "j", "--lease", "600s", "--addr", f"unix:{tmp_path}/s")
    service = serve(*flags)
    kept = hanging(service)
    one = terminal("top", *SOON, "--addr", service.address)
    one.sees("rank 61 (#61) on b7 has not come")
    service.kill()
    one.sees("the service was last seen ", ">rank 61 (#61)")
    serve(*flags)
    one.sees(" is silent for ")  # so are all, after that
    one.types("q")
    assert one.ended() == 0
    assert kept


def test_elsewhere_it_prints_a_status_at_each_change(serve, started, env):
    """stdout is no terminal. `muster top` prints the status, and again when something changes, and no
    control character."""
    service = serve("--lease", "600s")
    kept = [rank(service, 0, 2, "b0")]
    top = Process([MUSTER, "top", *SOON], env)
    started.append(top)
    top.out.wait_for("job default: 1 of 2 ranks waits for the first generation")
    kept.append(rank(service, 1, 2, "b1"))
    top.out.wait_for("job default: all 2 ranks run")
    kept[1].close()
    top.out.wait_for("job default: rank 1 (#1) on b1 is silent for ")
    assert len([line for line in top.out.lines if line.startswith("job ")]) <= 4
    assert not any(re.search(r"[\x00-\x08\x0b-\x1f]", line) for line in top.out.lines)
    top.signal(signal.SIGINT)
    assert top.wait() == -signal.SIGINT
