# SPDX-License-Identifier: Apache-2.0
"""The only process of a run that stands on a terminal has a terminal of its own: it is as if the
program had been started without `muster run`.

behaviour: run / A terminal for one rank
"""

import os
import re
import signal
import sys

import pytest

from running import RANK
from terminal import needs_terminal, terminal  # noqa: F401

pytestmark = needs_terminal
# pylint: disable=redefined-outer-name

ISATTY = "import os; print('tty', *[os.isatty(fd) for fd in range(3)], flush=True)"


def python(script, *arguments):
    return ("--", sys.executable, "-c", script, *arguments)


def test_the_program_sees_a_terminal(terminal):  # noqa: F811
    """One rank runs on a terminal. Its streams are a terminal, /dev/tty is that one, it has the size
    of the user's, and the rank writes without a label."""
    script = ISATTY + "; print('size', *os.get_terminal_size()); open('/dev/tty', 'w').write('there\\n')"
    screen = terminal("run", *python(script))
    assert screen.ended() == 0
    assert screen.everything() == ["tty True True True", "size 100 30", "there"]


def test_a_new_size_is_passed_on(terminal):  # noqa: F811
    """The user resizes the window. The program gets SIGWINCH, and its terminal has the new size."""
    script = ("import os, signal\n"
              "def resized(*_): size = os.get_terminal_size(); print('now', *size, flush=True); "
              "size[0] == 81 and os._exit(0)\n"
              "signal.signal(signal.SIGWINCH, resized); print('ready', flush=True)\n"
              "while True: signal.pause()")
    screen = terminal("run", *python(script))
    screen.sees("ready")
    screen.resize(81, 20)
    screen.sees("now 81 20")
    assert screen.ended() == 0


def test_what_is_typed_is_edited_and_echoed_once(terminal):  # noqa: F811
    """The program asks, and the user corrects the answer before Enter. The program gets the
    corrected line; the screen has it once."""
    screen = terminal("run", "--", "sh", "-c", 'printf "name? "; read x; echo hello $x')
    screen.sees("name?")
    screen.types("mu", "BSpace", "e", "Enter")
    screen.sees("hello me")
    assert screen.ended() == 0
    assert screen.everything() == ["name? me", "hello me"]


def test_the_users_terminal_echoes_nothing_from_the_start(terminal):  # noqa: F811
    """The program starts. The user's own terminal is raw by then, so what is typed at once is
    echoed once, by the program's terminal."""
    screen = terminal("run", "--", "sh", "-c", "stty -a -F $OUTER | grep -ow -e -icanon -e -echo | tr '\\n' ' '",
                      script="export OUTER=$(tty); {run}")
    assert screen.ended() == 0
    assert screen.everything() == ["-icanon -echo"]


def test_ctrl_c_ends_the_run_and_the_terminal_is_as_before(terminal):  # noqa: F811
    """Ctrl-C is typed. The run is stopped by SIGINT as ever, exit code 130, and the terminal has the
    modes that it had before."""
    screen = terminal("run", "--", "sh", "-c", "echo runs; exec sleep 100",
                      script="stty -g > /dev/shm/$$; {run}; echo code $?; "
                             "stty -g | cmp - /dev/shm/$$ && echo same; rm /dev/shm/$$")
    screen.sees("runs")
    screen.types("C-c")
    screen.sees("code 130", "same")
    assert [line for line in screen.everything() if line.startswith("muster run: ")] == [
        "muster run: Interrupt: stopping within 5.0 s; once more kills at once",
        "muster run: stopped by signal 2 (Interrupt)"]


def test_a_program_in_raw_mode_gets_every_key(terminal):  # noqa: F811
    """The program reads keys in raw mode, as an editor or a debugger does. It gets Ctrl-C and Ctrl-Z
    as keys, and the run goes on."""
    script = ("import os, sys, termios, tty; modes = termios.tcgetattr(0); tty.setraw(0)\n"
              "print('raw', end='', flush=True)\n"
              "keys = b''\nwhile len(keys) < 3: keys += os.read(0, 1)\n"
              "termios.tcsetattr(0, termios.TCSADRAIN, modes); print(keys, flush=True)")
    screen = terminal("run", *python(script))
    screen.sees("raw")
    screen.types("C-c", "C-z", "x")
    screen.sees(r"b'\x03\x1ax'")
    assert screen.ended() == 0


def test_ctrl_z_stops_the_run_and_the_shell_has_its_terminal(terminal):  # noqa: F811
    """Ctrl-Z is typed. `muster run` is stopped, and the shell's terminal has its modes; in the
    foreground again it passes on what is typed."""
    screen = terminal("run", "--", "sh", "-c", 'read x; echo got $x; read x; echo got $x',
                      script="stty -g > /dev/shm/$$; set -m; {run}; "
                             "stty -g | cmp - /dev/shm/$$ && echo same; rm /dev/shm/$$; fg")
    screen.types("one", "Enter")
    screen.sees("got one")
    screen.types("C-z")
    screen.sees("same")
    screen.types("two", "Enter")
    screen.sees("got two")
    assert screen.ended() == 0


def test_streams_that_are_no_terminal_stay_so(terminal, tmp_path):  # noqa: F811
    """Output or errors are redirected. The program sees a terminal where the user has one, and none
    elsewhere; what is redirected has the label."""
    screen = terminal("run", *python(ISATTY), script=f"{{run}} > {tmp_path}/out")
    assert screen.ended() == 0
    assert (tmp_path / "out").read_text() == "[0]: tty True False True\n"


def test_the_input_may_be_for_no_rank(terminal):  # noqa: F811
    """`--input none` on a terminal. The program reads nothing; its output is a terminal."""
    screen = terminal("run", "--input", "none", *python(ISATTY + "; print('read', input.__name__)"))
    screen.sees("tty False True True")
    assert screen.ended() == 0


@pytest.mark.parametrize("flags", [("-n", 2), ("--log-dir", "logs", "--tee")])
def test_there_is_none_for_several_or_with_files(terminal, tmp_path, flags):  # noqa: F811
    """There are several ranks, or `--log-dir` is given, whose files have byte for byte what was
    written. No rank has a terminal."""
    flags = [tmp_path / flag if flag == "logs" else flag for flag in flags]
    screen = terminal("run", "-j", "files", *flags, *python(ISATTY))
    assert screen.ended() == 0
    assert "[0]: tty False False False" in screen.everything()
    if "-n" not in flags:
        log = tmp_path / "logs/files/0/0/stdout.log"
        assert log.read_bytes() == b"tty False False False\n"


def test_a_rank_that_fails_has_its_last_words_there(terminal, tmp_path):  # noqa: F811
    """The rank fails. The last line quotes the last line on its terminal, begins in a row of its
    own, and the report has the lines; nothing of the rank's output is missing."""
    screen = terminal("run", "--max-restarts", 0, "--report", tmp_path / "report", "--", "sh", "-c",
                      "seq 1000; printf 'no memory' >&2; exit 3")
    assert screen.ended() == 3
    lines = screen.everything()
    assert lines[:1001] == [*map(str, range(1, 1001)), "no memory"]
    assert lines[-1].startswith("muster run: first cause: ")
    assert lines[-1].endswith('; its last line on its terminal: "no memory"')
    assert '"1000",' in (tmp_path / "report").read_text()


def test_a_replacement_has_a_terminal_too(terminal, muster):  # noqa: F811
    """The rank is killed and replaced. Its replacement has a terminal, which echoes what is typed,
    and ours is as before at the end."""
    screen = terminal("run", "-j", "again", "--", RANK,
                      script="stty -g > /dev/shm/$$; {run}; "
                             "stty -g | cmp - /dev/shm/$$ && echo same; rm /dev/shm/$$")
    (line,), _ = screen.sees("entered generation=1 ")
    os.kill(int(re.search(r"pid=(\d+)", line)[1]), signal.SIGKILL)
    (line,), _ = screen.sees("entered generation=2 ")
    screen.types("typed", "Enter")
    screen.sees("typed")
    muster("key", "put", "order-0-2", "ok", "-j", "again")
    screen.sees("same")
