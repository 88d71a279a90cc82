# SPDX-License-Identifier: Apache-2.0
"""Ranks that take part in preemption, under the orders of a test: tests/process/rank/preempt.c says
what they understand."""

import os
import signal
import subprocess

from conftest import BUILD, MUSTER, Process
from running import until
from saving import PATIENT

RANK = BUILD / "tests" / "process" / "ranks" / "preempt"


class Rank(Process):
    """A rank, and what it answers. `order` does not wait; `ask` does."""

    def __init__(self, index, env):
        super().__init__([RANK], env, stdin=subprocess.PIPE)
        self.index = index
        self.given = {}

    def order(self, order):
        self.given[order] = self.given.get(order, 0) + 1
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.given[order]

    def answer(self, order):
        """To the last such order."""
        line = self.out.wait_for(order + ":", count=self.given[order])
        return line[len(order) + 2 :]

    def ask(self, order):
        self.order(order)
        return self.answer(order)

    def reached(self, step):
        return self.ask(f"reached {step}")

    def saved(self, step, ms=""):
        return self.ask(f"saved {step} {ms}".rstrip())

    def notice(self):
        """{key: value}; None: there is none."""
        said = self.ask("notice")
        if said == "none":
            return None
        words, reason = said.split(" reason=", 1)
        return {**dict(word.split("=", 1) for word in words.split()), "reason": reason}

    def noticed(self, **wanted):
        """Once it knows of a notice like that."""

        def like():
            notice = self.notice()
            return notice if notice and all(
                notice[key] == str(value) for key, value in wanted.items()) else None

        return until(like)

    def agreed(self, step=None):
        """The step that is agreed, once one is."""
        return int(until(lambda: (n := self.notice()) and n["agreed"] != "-1" and (
            step is None or n["agreed"] == str(step)) and n)["agreed"])

    def stop(self):
        """Frozen when this returns."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "T")

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def end(self):
        self.order("end")
        assert self.wait() == 0, self.log.lines


def start(env, started, service, size, index, **settings):
    rank = Rank(index, {**env, "MUSTER_ADDR": service.address, "MUSTER_INDEX": str(index),
                        "MUSTER_SIZE": str(size), "MUSTER_AGENT": "0",
                        "MUSTER_PROGRAM": str(MUSTER), **PATIENT, **settings})
    started.append(rank)
    return rank


def agree(ranks, what):
    """All are given an order, then all answers are waited for."""
    for rank in ranks:
        rank.order(what)
    return [rank.answer(what) for rank in ranks]
