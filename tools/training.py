# SPDX-License-Identifier: Apache-2.0
"""Runs of the example under `muster run`, followed by what its ranks say: what tools/demo,
tools/soak and tools/soak_preempt share."""
import os
import pathlib
import re
import subprocess
import threading

ROOT = pathlib.Path(__file__).resolve().parent.parent
RANKS = 4
REPORT_EVERY = 20  # steps, as the example does
LIMIT_S = 300      # of one run that nobody waits for, also where the machine is slow and busy
STOP_S = 60        # until one that is told to stop is killed

EVENT = re.compile(r"@(\d+)\.(\d{6}) #(\d+) ([a-z]+) ?(.*)$")
FIELD = re.compile(r"([a-z-]+)=(\S+)")


class Failed(Exception):
    pass


class Event:
    """One line of a rank: when (seconds of the machine's monotonic clock), who, what."""

    def __init__(self, match):
        self.at = int(match[1]) + int(match[2]) / 1e6
        self.index = int(match[3])
        self.name = match[4]
        self.text = match[5]
        self.fields = dict(FIELD.findall(match[5]))

    def number(self, name):
        return int(self.fields[name])


class Run:
    """A run of the example: the events of its ranks in the order in which they came."""

    def __init__(self, command, environment, quiet, stderr=None, code=0):
        self.events = []
        # With which it is to end, one or a tuple; None: with any, its caller looks at `ended`.
        self.codes = code if isinstance(code, tuple) else (code,)
        self.ended = None
        self.late_s = None  # it was stopped after so long
        self.pids = {}  # index: the processes that had this place, one after the other
        self.quiet = quiet
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True,
                                        bufsize=1, env={**os.environ, **environment},
                                        errors="replace")

    def say(self, *words):
        if not self.quiet:
            print(*words, flush=True)

    def follow(self, on_event):
        """Reads until the run ends; `on_event` sees every event as it comes."""
        for line in self.process.stdout:
            match = EVENT.search(line.rstrip("\n"))
            if not match:
                self.say("   ", line.rstrip("\n"))
                continue
            event = Event(match)
            self.events.append(event)
            if event.name == "started":
                self.pids.setdefault(event.index, []).append(event.number("pid"))
            on_event(event)
        self.ended = self.process.wait()
        if self.late_s:  # whatever it ends with then
            raise Failed(f"the run did not end within {self.late_s} s")
        if None not in self.codes and self.ended not in self.codes:
            raise Failed(f"the run ended with {self.ended}")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def expire(self, limit_s):
        self.late_s = limit_s
        self.stop()

    def find(self, name, **fields):
        return [event for event in self.events if event.name == name
                and all(event.fields.get(key) == str(value) for key, value in fields.items())]

    def result(self):
        found = self.find("result")
        if not found:
            raise Failed("the run gave no result")
        return found[-1].fields


def progress(run, event):
    if event.name == "step" and int(event.text.split()[0]) % 200 == 0:
        run.say(f"    step {event.text.replace('bits=', ' bits per character of its batch: ')}")


def command_of(folder_of_programs, steps, folder, *flags, checkpoint=None):
    """The one command that trains the example."""
    command = [str(folder_of_programs / "muster"), "run", "-n", str(RANKS), *map(str, flags), "--",
               str(folder_of_programs / "charlm"), "--steps", str(steps)]
    command += ["--checkpoint", str(checkpoint)] if checkpoint else []
    return command + ([str(folder)] if folder else [])


def train(command, quiet, on_event=None, environment=None, limit=LIMIT_S, stderr=None, code=0):
    run = Run(command, environment or {}, quiet, stderr, code)
    timer = threading.Timer(limit, run.expire, [limit]) if limit else None
    if timer:
        timer.daemon = True
        timer.start()

    def see(event):
        progress(run, event)
        if on_event:
            on_event(run, event)

    try:
        run.follow(see)
    finally:
        if timer:
            timer.cancel()
        run.stop()
    return run


def service_of(pid):
    """The service that a `muster run` has started; None: there is none at present."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            pids = [int(child) for child in children.read().split()]
        return next((child for child in pids if b"\0serve\0" in
                     pathlib.Path(f"/proc/{child}/cmdline").read_bytes()), None)
    except OSError:
        return None
