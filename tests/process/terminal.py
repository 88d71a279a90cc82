# SPDX-License-Identifier: Apache-2.0
"""A real terminal: a program in tmux, and what a user would see of it."""

import contextlib
import shutil
import subprocess
import time

import pytest

from conftest import WAIT_S, pause

TMUX = shutil.which("tmux")
needs_terminal = pytest.mark.skipif(TMUX is None, reason="tmux is not installed (tools/deps --test)")


class Terminal:
    """A server of tmux of its own, with one window. The program ends with `close`, if not before."""

    def __init__(self, folder, env, arguments, columns=100, rows=30):
        self.socket = folder / "tmux"
        self.env = {**env, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        self.env.pop("TMUX", None)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", columns, "-y", rows, "cat")
        self.tmux("set-option", "-g", "remain-on-exit", "on")
        self.tmux("set-option", "-g", "window-size", "manual")
        self.tmux("respawn-pane", "-k", "--", *arguments)

    def tmux(self, *arguments):
        done = subprocess.run([TMUX, "-u", "-S", self.socket, *map(str, arguments)], env=self.env,
                              capture_output=True, timeout=WAIT_S, check=True)
        return done.stdout.decode()

    def screen(self):
        """The lines on the screen, without the empty ones at the end."""
        return self.tmux("capture-pane", "-p").rstrip("\n").split("\n")

    def everything(self):
        """Also those that have left it at the top; a line that was too long for a row is one."""
        return self.tmux("capture-pane", "-p", "-J", "-S", "-").rstrip("\n").split("\n")

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
        """Waits for the program's end; its exit status, or 128 and its signal."""
        deadline = time.monotonic() + WAIT_S
        while True:
            dead, status, number = self.tmux(
                "display-message", "-p", "#{pane_dead}:#{pane_dead_status}:#{pane_dead_signal}"
            ).strip().split(":")
            if dead == "1":
                return int(status) if status else 128 + int(number)
            assert time.monotonic() < deadline, "\n".join(self.everything())
            pause()

    def close(self):
        with contextlib.suppress(subprocess.CalledProcessError):  # its server has ended
            self.tmux("kill-server")
