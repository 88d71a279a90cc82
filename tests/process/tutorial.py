# SPDX-License-Identifier: Apache-2.0
"""A page of documentation that is typed and compared, block by block.

A block is fenced as ```console, for the reader's first terminal, or ```console NAME for another one;
```console all is typed in each terminal when it is opened. In it

  $ COMMAND     is typed, once the command before it in that terminal has ended;
  ^C            is pressed;
  other lines   are what comes out. `...` stands for anything in its line, alone in its line for any
                number of lines. A block without a command shows what one that still runs says.

Each rank is compared by itself: `[0]: a` and `[1]: b` may come in either order, two lines of one rank
may not. `[...]: a` is a line of whichever rank. Nothing else may come out. What a command has as `...` is typed as it was printed
before: the line that somebody copies."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import termios
import threading

from conftest import WAIT_S

PROMPT = "=== ready ==="
BLOCK = re.compile(r"^```console(?: (\w+))?\n(.*?)^```$", re.M | re.S)
FIRST = "first"
ANYBODY = "[...]: "


def blocks(page):
    """(terminal, its lines) of each block, in the order of the page."""
    return [(name or FIRST, body.splitlines()) for name, body in BLOCK.findall(page)]


def any_of(text):
    return "[^\n]*".join(re.escape(part) for part in text.split("..."))


def speaker(line):
    label = re.match(r"\[\d+\]: ", line)
    return label[0] if label else ""


def matches(shown, said, whole):
    """Whether what was said is what is shown, or, if not whole, begins with it."""
    said = list(said)
    for line in [line for line in shown if line.startswith(ANYBODY)]:
        found = [one for one in said if speaker(one) and re.fullmatch(any_of(line), one)]
        if not found:
            return False
        said.remove(found[0])
    shown = [line for line in shown if not line.startswith(ANYBODY)]
    for who in {speaker(line) for line in shown + said} - {"..."}:
        pattern = "".join(
            r"(?:[^\n]*\n)*" if line == "..." else any_of(line) + "\n"
            for line in shown if line == "..." or speaker(line) == who)
        text = "".join(line + "\n" for line in said if speaker(line) == who)
        if not (re.fullmatch if whole else re.match)(pattern, text):
            return False
    return True


class Terminal:
    """A shell at a terminal of its own; `said` is what came since the last command."""

    def __init__(self, folder, env):
        self.master, slave = pty.openpty()
        modes = termios.tcgetattr(slave)
        modes[1] &= ~termios.OPOST
        modes[3] &= ~(termios.ECHO | termios.ECHOCTL)
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "--noediting", "-i"], cwd=folder,
            env={**env, "PS1": PROMPT + "\n", "PS2": "", "TERM": "dumb"}, start_new_session=True,
            stdin=slave, stdout=slave, stderr=slave,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.shown, self.said, self.ready = [], [], False
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        self.ended("the shell")

    def _read(self):
        rest = b""
        while True:
            try:
                got = os.read(self.master, 65536)
            except OSError:  # the shell is gone
                return
            *lines, rest = (rest + got).split(b"\n")
            with self.changed:
                for line in lines:
                    text = line.decode(errors="replace")
                    self.ready = self.ready or text == PROMPT
                    if text != PROMPT:
                        self.said.append(text)
                self.changed.notify_all()

    def wait(self, holds, what):
        with self.changed:
            ok = self.changed.wait_for(holds, WAIT_S)
            assert ok, f"{what}\nshown:\n  " + "\n  ".join(self.shown) + (
                "\nsaid:\n  " + "\n  ".join(self.said))

    def ended(self, command):
        """The prompt is back, and all that was said is what is shown."""
        self.wait(lambda: self.ready, f"{command}: it does not end")
        assert matches(self.shown, self.said, True), (
            f"{command}:\nshown:\n  " + "\n  ".join(self.shown) + "\nsaid:\n  "
            + "\n  ".join(self.said))

    def type(self, command):
        with self.changed:
            self.shown, self.said, self.ready = [], [], False
        os.write(self.master, command.encode() + b"\n")

    def press(self, key):
        os.write(self.master, key)

    def show(self, lines):
        self.shown += lines
        self.wait(lambda: matches(self.shown, self.said, False), "it does not come")

    def close(self):
        self.shell.send_signal(signal.SIGHUP)  # it hands it on to what runs
        try:
            self.shell.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.shell.kill()
            self.shell.wait()
        self.thread.join(WAIT_S)
        os.close(self.master)


class Page:
    """A reader with as many terminals as the page asks for, each begun in `folder`."""

    def __init__(self, folder, env):
        self.folder, self.env = folder, env
        self.terminals, self.everywhere = {}, []
        self.printed = []  # by all, for who copies a line
        self.commands = {}

    def terminal(self, name):
        if name not in self.terminals:
            self.terminals[name] = Terminal(self.folder, self.env)
            for lines in self.everywhere:
                self.block(name, lines)
        return self.terminals[name]

    def copied(self, command):
        """A command as it was printed."""
        if "..." not in command:
            return command
        for terminal in self.terminals.values():
            for line in terminal.said:
                found = re.search(any_of(command), line)
                if found:
                    return found[0]
        raise AssertionError(f"nobody printed {command}")

    def block(self, name, lines):
        terminal = self.terminal(name)
        at = 0
        while at < len(lines):
            if lines[at].startswith("$ "):
                terminal.ended(self.commands.get(name, "the shell"))
                self.commands[name] = self.copied(lines[at][2:])
                terminal.type(self.commands[name])
                at += 1
            elif lines[at] == "^C":
                terminal.press(b"\x03")
                at += 1
            shown = []
            while at < len(lines) and not lines[at].startswith("$ ") and lines[at] != "^C":
                shown.append(lines[at])
                at += 1
            terminal.show(shown)

    def run(self, page):
        for name, lines in blocks(page):
            if name == "all":
                self.everywhere.append(lines)
                for opened in list(self.terminals) or [FIRST]:
                    self.block(opened, lines) if opened in self.terminals else self.terminal(opened)
            else:
                self.block(name, lines)
        for name, terminal in self.terminals.items():
            terminal.ended(self.commands[name])

    def close(self):
        for terminal in self.terminals.values():
            terminal.close()
