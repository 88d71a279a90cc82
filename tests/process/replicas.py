# SPDX-License-Identifier: Apache-2.0
"""Several `muster serve --replica` that are one service."""

import os
import signal
import subprocess
import time

from conftest import BUILD, WAIT_S, Process, Service, free_port, pause

PUT_LINES = BUILD / "tests/process/put_lines"
ENDED = 76  # the exit status of a replica that is to be started again


class Replica:
    """One of them: its process is started again and again, its address and its folder stay."""

    def __init__(self, group, place):
        self.group = group
        self.address = group.addresses[place]
        self.folder = group.folder / f"replica{place}"
        self.service = None

    def begin(self, *before):
        flags = ["--addr", self.address, "--replica", self.group.list, "--journal", self.folder,
                 *self.group.flags]
        self.service = Replicated(before, flags, self.group.env)
        self.group.started.append(self.service)
        return self

    @property
    def log(self):
        return self.service.log

    def runs(self):
        return self.service is not None and self.service.process.poll() is None

    def kill(self):
        self.service.kill()

    def entries(self):
        """The numbers of its files."""
        return sorted(path.name for path in self.folder.glob("*.entries"))


class Replicated(Service):
    """A service that another program may start, as `unshare` does."""

    def __init__(self, before, flags, env):
        if not before:
            super().__init__(flags, env)
            return
        Process.__init__(self, [*before, BUILD / "bin" / "muster", "serve", *flags], env)
        self.out.wait_for("muster: serving on ")


def leading(replicas):
    """Of pairs of what it is and its process, [that which was elected last, by the terms that they
    tell]; []: none leads now."""
    last, who, process = 0, None, None
    for what, one in replicas:
        for line in one.log.having(" leads term="):
            term = int(line.split("term=")[1].split()[0])
            if term > last:
                last, who, process = term, what, one
    runs = process and process.process.poll() is None and not process.log.having("reason=", "deposed")
    return [who] if runs else []


class Group:
    def __init__(self, env, started, folder, count, flags):
        self.env, self.started, self.folder, self.flags = env, started, folder, flags
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        self.list = ",".join(self.addresses)
        self.replicas = [Replica(self, place) for place in range(count)]

    def begin(self):
        for replica in self.replicas:
            replica.begin()
        self.all_vote()
        return self

    def all_vote(self):
        """Each of them knows it: one that does not gives its vote to nobody."""
        for replica in self.replicas:
            replica.log.wait_for("members", f"voters={len(self.replicas)}")

    def __getitem__(self, place):
        return self.replicas[place]

    def leads(self):
        """None: none leads now."""
        begun = [(replica, replica.service) for replica in self.replicas if replica.service]
        return next(iter(leading(begun)), None)

    def leader(self):
        deadline = time.monotonic() + WAIT_S
        while not (leader := self.leads()):
            assert time.monotonic() < deadline, "nobody leads"
            pause()
        return leader

    def followers(self):
        leader = self.leader()
        return [replica for replica in self.replicas if replica is not leader]

    def next_leader(self, last):
        """Another one than that."""
        deadline = time.monotonic() + WAIT_S
        while (leader := self.leads()) is None or leader is last:
            assert time.monotonic() < deadline, "no other one leads"
            pause()
        return leader

    def begin_ended(self):
        for replica in self.replicas:
            if not replica.runs():
                replica.begin()


class Client(Process):
    """One session, which writes a key on request."""

    def __init__(self, group, addresses=None, **variables):
        env = {**group.env, "MUSTER_ADDR": addresses or group.list}
        super().__init__([PUT_LINES], {**env, **variables}, stdin=-1)
        group.started.append(self)
        self.out.wait_for("open")

    def ask(self, key, size=3):
        self.process.stdin.write(f"{key} {size}\n")
        self.process.stdin.flush()

    def kept(self, key):
        self.out.wait_for(f"{key} kept")

    def put(self, key, size=3):
        self.ask(key, size)
        self.kept(key)

    def fill(self, name, count, size=3):
        """Puts one after the other, and waits as long as it gets on."""
        self.process.stdin.write("".join(f"{name}{i} {size}\n" for i in range(count)))
        self.process.stdin.flush()
        for i in range(99, count, 100):
            self.kept(f"{name}{i}")
        self.kept(f"{name}{count - 1}")

    def close(self):
        self.process.stdin.close()
        assert self.wait() == 0


def freeze(replica):
    replica.service.signal(signal.SIGSTOP)
    while not replica.service.stopped():
        pause()


def thaw(replica):
    os.kill(replica.service.pid, signal.SIGCONT)


def identity(replica):
    """The id under which the present process of it votes."""
    return replica.log.wait_for("replica-begun").split("id=")[1].split()[0]


def another_boot(folder, boot):
    """What starts a program on a host that was started again, as far as that can be read."""
    path = folder / f"boot{boot}"
    path.write_text(f"{boot:08x}-0000-4000-8000-000000000000\n")
    script = f'mount --bind "{path}" /proc/sys/kernel/random/boot_id && exec "$0" "$@"'
    return ["unshare", "--mount", "sh", "-c", script]


SHADOW_BYTES = 1 << 30  # the address sanitizer's own memory is larger


def flip(replica, value):
    """Changes one byte of each copy of the value in the memory of its process."""
    found = 0
    with (open(f"/proc/{replica.service.pid}/maps", encoding="ascii") as maps,
          open(f"/proc/{replica.service.pid}/mem", "r+b", buffering=0) as memory):
        for line in maps:
            place, rights = line.split()[:2]
            first, last = (int(number, 16) for number in place.split("-"))
            if rights.startswith("rw") and "[" not in line.replace("[heap]", "") and last - first < SHADOW_BYTES:
                memory.seek(first)
                content = memory.read(last - first)
                at = content.find(value)
                while at >= 0:
                    memory.seek(first + at)
                    memory.write(b"w")
                    found += 1
                    at = content.find(value, at + len(value))
    assert found > 0


def clock_ahead(hours):
    """What starts a program on a host whose monotonic clock is that much ahead of ours."""
    return ["unshare", "--time", "--fork", "--kill-child", "--monotonic", str(hours * 3600)]


def clocks_differ():
    """Whether that is possible here."""
    try:
        return subprocess.run([*clock_ahead(1), "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False
