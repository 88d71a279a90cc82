# SPDX-License-Identifier: Apache-2.0
"""A real terminal: a program in tmux, and what a user would see of it."""

import contextlib
import shlex
import shutil
import subprocess
import time

import pytest

from conftest import MUSTER, WAIT_S, pause

TMUX = shutil.which("tmux")
needs_terminal = pytest.mark.skipif(TMUX is None, reason="tmux is not installed (tools/deps --test)")
ENDED = "[ended "


def lines_of(text):
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n").split("\n")


class Terminal:
    """A server of tmux of its own, with one window, in which bash runs a script. It ends with `close`,
    if not before."""

    def __init__(self, folder, env, script, columns=100, rows=30):
        self.socket = folder / "tmux"
        script += "; echo [ended $?]; exec sleep infinity"
        self.env = {**env, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        self.env.pop("TMUX", None)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "cat")
        self.tmux("set-option", "-g", "window-size", "manual")
        self.tmux("respawn-pane", "-k", "--", "bash", "-c", script)

    def tmux(self, *arguments):
        done = subprocess.run([TMUX, "-u", "-S", self.socket, *map(str, arguments)], env=self.env,
                              capture_output=True, timeout=WAIT_S, check=True)
        return done.stdout.decode()

    def screen(self):
        """The lines on the screen, without the empty ones at the end."""
        return lines_of(self.tmux("capture-pane", "-p"))

    def everything(self):
        """Also those that have left it at the top; a line that was too long for a row is one."""
        lines = lines_of(self.tmux("capture-pane", "-p", "-J", "-S", "-"))
        return lines[:-1] if lines[-1].startswith(ENDED) else lines

    def sees(self, *texts, patience_s=WAIT_S):
        """Waits until each text is in a line on the screen; returns that line of each, and when."""
        deadline = time.monotonic() + patience_s
        while True:
            lines = self.screen()
            found = [next((line for line in lines if text in line), None) for text in texts]
            if None not in found:
                return found, time.monotonic()
            assert time.monotonic() < deadline, "\n".join([f"{texts} are not on:", *lines])
            pause()

    def types(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", columns, "-y", rows)

    def ended(self):
        """Waits for the script's end; the exit status of its last command."""
        self.sees(ENDED)
        return int(self.screen()[-1].removeprefix(ENDED).rstrip("]"))

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):  # its server has ended
            self.tmux("kill-server")


@pytest.fixture
def terminal(env, tmp_path):
    """terminal(arguments of muster...) starts it on a terminal of 100 columns and 30 rows; `script`
    is what the shell does with {run}."""
    open_ones = []

    def start(*arguments, script="{run}", variables=None, **options):
        words = shlex.join([str(word) for word in (MUSTER, *arguments)])
        one = Terminal(tmp_path, {**env, **(variables or {})}, script.replace("{run}", words), **options)
        open_ones.append(one)
        return one

    yield start
    for one in open_ones:
        one.close()
