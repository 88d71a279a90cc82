# SPDX-License-Identifier: Apache-2.0
"""A run over the hosts of a file, started by ssh: three machines with a real sshd each.

behaviour: nodes / Hosts of a file
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import Process
from nodes import missing
from running import RANK, until
from terminal import needs_terminal, terminal  # noqa: F401
from test_nodes import ALONE, SHORT_LEASE, cluster  # noqa: F401

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
WHY_NOT = missing() or (None if SSHD and shutil.which("ssh") else "needs openssh-server")
needs_machines = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
JOB = "listed"


class Hosts:
    """Machines 0 to 2; 1 and 2 have a sshd, which lets in who has the key."""

    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
        shutil.copy(folder / "key.pub", folder / "keys")
        pathlib.Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd wants it to be there
        names = "".join(f"Host {cluster.host(n)}\n HostName {cluster.address(n)}\n" for n in (1, 2))
        (folder / "ssh_config").write_text(
            f"{names}Host *\n IdentityFile {folder}/key\n StrictHostKeyChecking no\n"
            " UserKnownHostsFile /dev/null\n LogLevel ERROR\n")
        self.ssh = f"ssh -F {folder}/ssh_config -o BatchMode=yes"
        for number in (1, 2):
            self.begin_sshd(number)
        self.file = folder / "hosts"
        self.file.write_text("# of this test\n" + "".join(
            f"{cluster.host(number)} slots=2\n" for number in range(3)))

    def begin_sshd(self, number):
        own = self.cluster.environment(number)
        config = self.folder / f"sshd-{number}"
        config.write_text(
            f"HostKey {self.folder}/key\nAuthorizedKeysFile {self.folder}/keys\nStrictModes no\n"
            f"UsePAM no\nPermitRootLogin yes\nPidFile none\n"
            "ClientAliveInterval 1\nClientAliveCountMax 3\n"
            f"SetEnv MUSTER_RUNTIME_DIR={own['MUSTER_RUNTIME_DIR']}"
            f" MUSTER_STATE_DIR={own['MUSTER_STATE_DIR']} ON_HOST=here\n")
        self.cluster.started.append(Process(self.cluster.words(number, SSHD, "-D", "-e", "-f", config), own))
        self.cluster.started[-1].log.wait_for("Server listening")

    def run(self, *words, program=(RANK,)):
        self.first = self.cluster.start(0, "run", "--hostfile", self.file, "--ssh", self.ssh, "-j", JOB,
                                        *words, "--", *program, **self.variables)
        return self.first

    variables = {}

    def order(self, index, generation, what):
        done = self.cluster.muster(0, "key", "put", f"order-{index}-{generation}", what, "-j", JOB)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def hosts(cluster, tmp_path):  # noqa: F811
    return Hosts(cluster, tmp_path)


def entered(process, size, after=0):
    """The ranks of a generation of that size, later than `after`: (its number, {index: pid})."""
    found = {}

    def look():
        for line in process.out.having("entered generation="):
            said = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
            if said["size"] == size and said["generation"] > after:
                found.setdefault(said["generation"], {})[said["index"]] = said["pid"]
        return any(len(ranks) == size for ranks in found.values())

    until(look)
    return next((number, ranks) for number, ranks in found.items() if len(ranks) == size)


@needs_machines
def test_a_file_of_hosts_is_a_run_over_them(hosts):
    """`muster run --hostfile FILE` is typed on one of three hosts. ssh starts the run on the other
    two, with the ranks of `slots=`; all output is here, the ranks join, and the secret is in no
    command line."""
    run = hosts.run()
    _, ranks = entered(run, 6)
    for number in range(3):
        assert {ranks[2 * number], ranks[2 * number + 1]} < set(hosts.cluster.pids(number))
    secret = pathlib.Path(hosts.cluster.env["MUSTER_RUNTIME_DIR"], "home", f"{JOB}.secret").read_bytes().strip()
    for number in range(3):
        for pid in hosts.cluster.pids(number):
            assert secret not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    for index in range(6):
        hosts.order(index, 1, "ok")
    assert run.wait() == 0


@needs_machines
def test_the_cable_of_a_listed_host_is_cut(hosts):
    """The cable of one of three hosts is cut, in a run of two nodes or three. The others go on
    without it, in the same processes, and the run ends well."""
    run = hosts.run("--nnodes", "2:3", "--lease", SHORT_LEASE, "--join-wait", "1s",
                    "--service-wait", "5s", *ALONE)
    number, before = entered(run, 6)
    hosts.cluster.cable(2, "down")
    number, after = entered(run, 4, after=number)
    assert after == {index: before[index] for index in range(4)}
    said = hosts.cluster.muster(0, "status", "-j", JOB)
    assert "node 2 (host-2) lost" in said.stdout
    for index in range(4):
        hosts.order(index, number, "ok")
    assert run.wait() == 0


@needs_machines
def test_what_the_other_hosts_get(hosts):
    """The other hosts run in the folder of the first one, with its `PATH`, its `MUSTER_` settings
    and what `--pass-env` or `-x` names, and with the flags that count on each node; not with what describes
    a host."""
    hosts.variables = {"MUSTER_SOFT_TIMEOUT": "77s", "GIVEN": "it's given", "OTHER": "not given",
                       "B": "b"}
    program = ["sh", "-c", 'echo "$PWD|$PATH|$MUSTER_SOFT_TIMEOUT|$GIVEN|$OTHER|$A$B|$(grep -ac "grace=7[s]" /proc/$PPID/cmdline)|$ON_HOST"; '
                           "cat; test -e /proc/self"]
    run = hosts.run("-n", "1", "--grace", "7s", "--pass-env", "GIVEN", "--no-label", "--tee", "3",
                    "-x", "A=a ", "-x", "B", program=program)
    assert run.wait() == 0
    path = hosts.cluster.env["PATH"]
    for line in [f"{os.getcwd()}|{path}|77s|it's given|not given|a b|0|",
                 f"{os.getcwd()}|{path}|77s|it's given||a b|1|here"]:
        assert line in run.out.lines
    assert len(run.out.lines) == 3


@needs_machines
def test_the_other_hosts_write_files_too(hosts, tmp_path):
    """`--log-dir FOLDER --tee` is typed with a file of hosts. Each host writes the files of its
    ranks, and all output is on the terminal as well."""
    run = hosts.run("-n", "1", "--log-dir", tmp_path / "logs", "--tee",
                    program=["sh", "-c", "echo from $RANK"])
    assert run.wait() == 0
    for index in range(3):
        assert f"[{index}]: from {index}" in run.out.lines
        assert (tmp_path / "logs" / JOB / str(index) / "0" / "stdout.log").read_text() == f"from {index}\n"


@needs_machines
def test_a_host_that_cannot_be_reached_ends_the_run(hosts):
    """One of the hosts lets nobody in. A line names it and its status of ssh, and so does the first cause.
    The run ends with 125 on the others, as no other node can come. With `--nnodes 2:3` it goes on without."""
    hosts.file.write_text("host-0 slots=1\nhost-1\nhost-9\n")
    run = hosts.run()
    assert run.wait() == 125
    run.log.wait_for("node 2 (host-9) did not join: ssh ended with status 255")
    cause = "first cause: node 2 (host-9) did not join: ssh ended with status 255"
    assert run.log.lines[-1] == f"muster run: {cause}"
    run = hosts.run("--nnodes", "2:3", "--join-wait", "1s")
    number, _ = entered(run, 2)
    for index in range(2):
        hosts.order(index, number, "ok")
    assert run.wait() == 0
    run.log.wait_for("node 2 (host-9) did not join: ssh ended with status 255")


@needs_terminal
def test_the_output_of_all_hosts_shares_a_terminal(terminal, tmp_path):  # noqa: F811
    """Two hosts have one rank each, and the first `muster run` stands on a terminal. Neither rank has it
    for itself: the unfinished line of each is in a row of its own, and so it ends."""
    (tmp_path / "hosts").write_text("localhost\nother\n")
    (tmp_path / "ssh").write_text('exec sh -c "$2"\n')  # no host is left out: it is this one
    script = f'printf "bar of $RANK"; until test -e {tmp_path}/over; do sleep 0.1; done; echo " ends"'
    screen = terminal("run", "--hostfile", tmp_path / "hosts", "--ssh", f"sh {tmp_path}/ssh",
                      "--listen", "127.0.0.1:0", "--", "sh", "-c", script)
    rows, _ = screen.sees("bar of 0", "bar of 1")
    assert rows == ["[0]: bar of 0", "[1]: bar of 1"]
    (tmp_path / "over").touch()
    assert screen.ended() == 0
    lines = screen.everything()
    assert {"[0]: bar of 0 ends", "[1]: bar of 1 ends"} < set(lines)
    assert len(lines) == 3 and any("this is node 1 of job" in line for line in lines), lines


@pytest.mark.parametrize("text,words", [
    ("elsewhere\n", ("this machine", "is not in it", "node 0 runs here")),
    ("localhost slots=two\n", ("line 1: no number of ranks 'slots=two'",)),
    ("localhost slots=2\nb slots=3\n", ("line 2: 3 slots, and 2 on a line before",)),
    ("localhost\n\n-oProxyCommand=x\n", ("line 3: no name of a host '-oProxyCommand=x'",)),
    ("localhost\nb\nb\n", ("line 3: a second time the host 'b'",)),
    ("localhost max=2\n", ("line 1: an unknown word 'max=2'", "HOST slots=N")),
])
def test_a_file_that_is_wrong_is_refused(muster, tmp_path, text, words):
    """The file of hosts is wrong, or without this machine. One line names the file, the line and
    what is expected."""
    file = tmp_path / "hosts"
    file.write_text(text)
    done = muster("run", "--hostfile", file, "--", "true")
    assert done.returncode == 125 and len(done.stderr.splitlines()) == 1, done.stderr
    for word in (str(file), *words):
        assert word in done.stderr


def test_flags_that_contradict_a_file_are_refused(muster, tmp_path):
    """`--hostfile` is given with more nodes than hosts, without a file, with `--join`, with an
    ssh that is not there, or with the input for a rank of another host. One line says what to do."""
    file = tmp_path / "hosts"
    file.write_text("localhost\n")
    done = muster("run", "--hostfile", file, "--nnodes", 2, "--", "true")
    assert done.returncode == 125 and "lists 1 host" in done.stderr
    done = muster("run", "--hostfile", tmp_path / "none", "--", "true")
    assert done.returncode == 125 and "No such file" in done.stderr
    done = muster("run", "--hostfile", file, "--join", "a:1", "-j", "x", "--", "true")
    assert done.returncode == 2 and "leave out --join" in done.stderr
    file.write_text("localhost\nnowhere.invalid\n")
    done = muster("run", "--hostfile", file, "-n", 2, "--input", 2, "--", "true")
    assert done.returncode == 2 and "for a rank of this host, 0 to 1" in done.stderr
    done = muster("run", "--hostfile", file, "--ssh", "no-such-ssh", "--listen", "127.0.0.1:0", "--", "true")
    assert done.returncode == 125 and "'no-such-ssh' for nowhere.invalid cannot be started" in done.stderr
