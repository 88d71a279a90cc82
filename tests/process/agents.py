# SPDX-License-Identifier: Apache-2.0
"""A `muster agent --front`, and the processes that it serves."""

import json


class Agent:
    """An agent that listens."""

    def __init__(self, spawn, *flags):
        self.process = spawn("agent", *flags)
        self.log = self.process.log
        self.line = self.process.out.wait_for("=127.0.0.1")
        self.variables = dict(word.split("=", 1) for word in self.line.split())
        ports = [self.variables.get("JAX_COORDINATOR_ADDRESS", "").split(":")[-1], self.variables.get("MASTER_PORT")]
        self.port = int(ports[0] or ports[1])


def ended():
    """A list, for a fixture: the processes in it are killed at the end."""
    processes = []
    yield processes
    for process in processes:
        process.kill()


def members(muster, job="default"):
    status = json.loads(muster("status", "-j", job, "-a", "--json").stdout)
    return {m["index"]: m for m in status["members"] if m["role"] == "rank"}
