# SPDX-License-Identifier: Apache-2.0
"""One run over several nodes: network namespaces with cables that can be cut. What happens to one
node costs its ranks and no more, and the end of the run is told alike on all.

behaviour: nodes / Nodes that come and go
"""

import contextlib
import os
import pathlib
import re
import select
import signal

import pytest

from conftest import WAIT_S, Process
from discovering import pidfds
from nodes import Cluster, Losses, joining, missing
from running import RANK, trained, until, wait_gone
from test_demo import CHARLM, EVENT, HOLD, STEPS, digest, events, folder, result  # noqa: F401

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

SHORT_LEASE_S, LONG_LEASE_S = 4, 10  # who is busy for 0.8 of the short one may be interrupted
SHORT_LEASE = f"{SHORT_LEASE_S}s"
# Where a test is about the service of node 0, or asks that one: of several replicas another one may
# lead at any time, and one that was deposed ends until its run starts it again.
ALONE = ("--replicas", 1)
FURTHER = re.compile(r" replicas now; on a further node: muster run --join (\S+)")
SERVICE_WAIT_S = 5  # a node has no longer to join, either
CUT_S = 1.5  # much less than 0.8 of the long lease; nothing but time can show that nothing happens


@pytest.fixture
def cluster(env):
    """Three machines; more can be added. Everything in them ends with the test."""
    processes = []

    def spawn(words, environment):
        process = Process(words, environment)
        processes.append(process)
        return process

    cluster = None
    try:
        cluster = Cluster(env, spawn)
        cluster.started = processes
        for _ in range(3):
            cluster.add()
        yield cluster
        for process in processes:
            if process.process.poll() is None:
                process.signal(signal.SIGTERM)
        for process in processes:
            process.wait()
        for process in processes:
            assert process.complaints() == []
    finally:
        for process in processes:
            if process.process.poll() is None:
                process.kill()
        if cluster is not None:
            cluster.remove()


class Nodes:
    """A run of one program on the first machines of a cluster, each a process in `on`."""

    def __init__(self, cluster, program, *flags, count=3, nnodes=None, others=(), **variables):
        self.cluster = cluster
        self.job = "over-all"
        self.variables = variables
        first = cluster.start(0, "run", "--nnodes", nnodes or count, "-n", 2, "-j", self.job,
                              *flags, "--", *program, **variables)
        self.on, self.started = [first], [first]
        self.words = joining(first)
        for number in range(1, count):
            self.join(number, "--node-rank", number, *others)

    def join(self, number, *more):
        words = joining(self.on[0], *more)
        process = self.cluster.start(number, "run", *words, **self.variables)
        self.on.append(process)
        self.started.append(process)
        return process

    def lines(self, *words):
        return [line for process in self.on for line in process.out.having(*words)]

    def told(self):
        return "\n".join(line for process in self.on for line in
                         ["----", *process.out.lines, *process.log.lines])

    def generations(self):
        """{generation: {index: what its rank said when it entered the function}}"""
        found = {}
        for line in self.lines("entered generation="):
            values = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)}
            found.setdefault(values["generation"], {})[values["index"]] = values
        return found

    def entered(self, size, generation=1):
        """Waits until a generation, this or a later one, has so many ranks in the function."""

        def whole():
            return [ranks for number, ranks in sorted(self.generations().items())
                    if number >= generation and len(ranks) == size]

        out = self.on[-1].out  # a line may come on any node: look again at least so often
        for _ in range(WAIT_S * 20):
            if whole():
                return whole()[-1]
            with out.changed:
                out.changed.wait(0.05)
        raise AssertionError(self.told())

    def socket(self):
        return f"unix:{self.cluster.directories[0]}/{self.job}.sock"

    def place(self):
        """Flags by which a command finds the service: also while it is on its way back, and at
        whichever replica leads. On a busy machine that need not be the one of node 0."""
        at = self.words.index("--join") + 1
        further = [FURTHER.search(line)[1] for process in self.started
                   for line in process.log.having(" replicas now; ")]
        access = self.words[at + 1:self.words.index("-j")]  # --secret-file and its file, or --insecure
        return ["--addr", ",".join([self.socket(), *(further or [self.words[at]])[-1:]]), *access,
                "--timeout", f"{WAIT_S}s"]

    def order(self, index, generation, what):
        done = self.cluster.muster(0, "key", "put", f"order-{index}-{generation}", what,
                                   "-j", self.job, *self.place())
        assert done.returncode == 0, done.stderr

    def end(self, ranks):
        """All of a generation are told to return."""
        for index, rank in ranks.items():
            self.order(index, rank["generation"], "ok")

    def codes(self):
        return [process.wait() for process in self.on]

    def services(self):
        """The pids of the run's service, a child of node 0's run: none while it is started again."""
        def words(pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")
            return ""

        return [pid for pid in self.cluster.pids(0) if "\0serve\0" in words(pid)]

    def service(self):
        (service,) = until(self.services)
        return service


def all_well(nodes, ranks):
    """Who is too busy for the service for most of a short lease interrupts all once more: the order
    is then given again."""
    done, out = max(rank["generation"] for rank in ranks.values()), nodes.on[-1].out
    nodes.end(ranks)
    for _ in range(WAIT_S * 20):
        newest = max(nodes.generations())
        if newest > done and len(nodes.generations()[newest]) == len(ranks):
            nodes.end(nodes.generations()[newest])
            done = newest
        if all(process.process.poll() is not None for process in nodes.on):
            break
        with out.changed:
            out.changed.wait(0.05)
    assert nodes.codes() == [0] * len(nodes.on), nodes.told()


# ---- what a run over several nodes is ----


def test_the_ranks_of_all_nodes_are_one_job(cluster):
    """Three nodes with two ranks each run one program. The ranks are numbered node by node. RANK,
    LOCAL_RANK, GROUP_RANK, MUSTER_NODE, WORLD_SIZE and the first node's MASTER_ADDR and
    MASTER_PORT are alike what torchrun sets. [A run over several nodes]"""
    names = ("RANK LOCAL_RANK GROUP_RANK MUSTER_NODE WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR "
             "MASTER_PORT MUSTER_INDEX").split()
    shown = " ".join(f"{name}=${name}" for name in names)
    nodes = Nodes(cluster, ["sh", "-c", f"echo {shown}"])
    assert nodes.codes() == [0, 0, 0], nodes.told()
    ranks = {}
    for line in nodes.lines("RANK="):
        values = dict(re.findall(r"(\w+)=(\S+)", line))
        ranks[int(values["RANK"])] = values
    assert sorted(ranks) == list(range(6))
    for rank, values in ranks.items():
        assert values["MUSTER_INDEX"] == str(rank)
        assert values["LOCAL_RANK"] == str(rank % 2)
        assert values["GROUP_RANK"] == values["MUSTER_NODE"] == str(rank // 2)
        assert (values["WORLD_SIZE"], values["LOCAL_WORLD_SIZE"]) == ("6", "2")
        assert values["MASTER_ADDR"] == cluster.address(0)
    assert len({values["MASTER_PORT"] for values in ranks.values()}) == 1


def test_the_line_to_type_holds_for_words_with_blanks(cluster):
    """The program's arguments hold blanks or quotes. The line to type quotes them for the shell.
    [A run over several nodes]"""
    nodes = Nodes(cluster, ["sh", "-c", "exit 0"], count=1, nnodes="2")
    line = nodes.on[0].log.wait_for("2 nodes: on the other 1: muster run --join")
    typed = line[line.index("muster run --join") + len("muster run "):]
    other = cluster.spawn(cluster.words(1, "sh", "-c", f'exec "$0" run {typed}',
                                        cluster.muster_path()), cluster.environment(1))
    assert (other.wait(), nodes.on[0].wait()) == (0, 0)


def test_a_node_may_say_its_number(cluster):
    """A node says its number (`--node-rank`). It gets that number, unless a living node has it:
    then it is refused with that node. Without, a node gets the lowest free one.
    [A run over several nodes]"""
    nodes = Nodes(cluster, [RANK], count=1, nnodes="3")
    nodes.join(1, "--node-rank", 2)
    nodes.join(2, "--node-rank", 1)
    ranks = nodes.entered(6)
    assert nodes.on[1].out.having("index=4") and nodes.on[2].out.having("index=2")
    taken = cluster.start(cluster.add(), "run", *joining(nodes.on[0], "--node-rank", 1))
    assert taken.wait() == 125
    assert "host-2" in taken.log.lines[-1]
    all_well(nodes, ranks)


def test_the_weights_do_not_depend_on_how_many_nodes_there_are(cluster, digest, folder):  # noqa: F811
    """The training example runs on three nodes. It comes to the same weights as alone.
    [A run over several nodes]"""
    nodes = Nodes(cluster, [CHARLM, "--steps", STEPS, folder])
    trained(nodes.on[0], STEPS)
    assert nodes.codes() == [0, 0, 0], nodes.told()
    assert result(nodes.on[0])["digest"] == digest


def step(number, count=3, **more):
    """What srun sets for the one task of a node; Slurm knows the nodes by their numbers here."""
    hosts = f"10.77.0.[1-{count}]"
    return {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": str(number),
            "SLURM_NODEID": str(number), "SLURM_LOCALID": "0", "SLURM_NTASKS": str(count),
            "SLURM_STEP_NUM_TASKS": str(count), "SLURM_STEP_NUM_NODES": str(count),
            "SLURM_STEP_NODELIST": hosts, "SLURM_JOB_NODELIST": hosts, "SLURM_NNODES": str(count),
            "SLURM_STEP_TASKS_PER_NODE": f"1(x{count})", **more}


def test_a_step_of_slurm_needs_no_flags(cluster):
    """`srun` starts one run per node, with the same words on each. No flag is needed: nodes,
    numbers, meeting place and the job's name come from Slurm, the secret is in the shared
    home, and any node may be first. [A run over several nodes]"""
    words = ("run", "-n", 2, "--", "sh", "-c", "echo at $RANK of $WORLD_SIZE in $MUSTER_JOB")
    on = [cluster.start(number, *words, **step(number)) for number in (2, 1, 0)]
    codes = [process.wait() for process in on]
    assert codes == [0, 0, 0], [process.log.lines for process in on]
    said = sorted(line for process in on for line in process.out.having("at "))
    assert said == [f"[{rank}]: at {rank} of 6 in slurm-4711.0" for rank in range(6)]
    assert not any(process.log.having("muster run --join") for process in on)
    assert os.listdir(cluster.environment(0)["MUSTER_STATE_DIR"]) == []


def test_a_step_of_slurm_may_begin_with_fewer_nodes(cluster):
    """`srun` starts runs with `--nnodes 2:3`, and one node is missing. After `--join-wait` (30 s)
    the job begins without it. [A run over several nodes]"""
    words = ("run", "-n", 1, "--nnodes", "2:3", "--join-wait", "300ms", "-j", "some", "--", RANK)
    on = [cluster.start(number, *words, **step(number)) for number in (0, 2)]
    for process in on:
        process.out.wait_for("entered generation=1", "size=2")
    for index in (0, 2):
        done = cluster.muster(0, "key", "put", f"order-{index}-1", "ok", "-j", "some")
        assert done.returncode == 0, done.stderr
    assert [process.wait() for process in on] == [0, 0]


def test_a_batch_script_of_several_nodes_is_told_what_to_do(cluster):
    """A run is started in a batch script of several nodes, without `srun`. One line says how to
    start it; it ends with 125. [A run over several nodes]"""
    outside = {key: value for key, value in step(0).items() if "STEP" not in key}
    process = cluster.start(0, "run", "-n", 1, "--", "true", **outside)
    assert process.wait() == 125
    assert "srun --ntasks-per-node=1 muster run" in process.log.lines[-1]


def test_every_node_finds_the_job(cluster):
    """A command without `--addr` is typed on any of the nodes. It finds the job: node 0 has the
    service's socket, the others a file with its address and where the secret is, for this user
    only. [A run over several nodes]"""
    nodes = Nodes(cluster, [RANK])
    ranks = nodes.entered(6)
    for number in range(3):
        said = cluster.muster(number, "status", "-a")
        assert said.returncode == 0, said.stderr
        assert said.stdout.count("present") >= 6, said.stdout
    assert cluster.muster(1, "key", "put", "who", "node 1").returncode == 0
    assert cluster.muster(2, "key", "get", "who", "-j", nodes.job).stdout == "node 1\n"
    (note,) = [name for name in os.listdir(cluster.directories[1]) if ".journal" not in name]
    mode = os.stat(os.path.join(cluster.directories[1], note)).st_mode
    assert (note, mode & 0o777) == (f"{nodes.job}.addr", 0o600)
    killed = cluster.muster(1, "chaos", "kill", 2)
    assert killed.returncode == 0 and "sent to #2" in killed.stdout, killed.stderr
    nodes.on[1].log.wait_for("#2", "starting it again")
    ranks = nodes.entered(6, generation=2)
    for verb in "kill", "freeze":
        away = cluster.muster(2, "chaos", verb, 2)
        assert away.returncode == 1 and "runs on host-1; this is host-2" in away.stderr
    cut = cluster.muster(2, "chaos", "cut", 2)
    assert cut.returncode == 0 and "the network of #2 " in cut.stdout, cut.stderr
    all_well(nodes, ranks)
    assert "no job runs here" in cluster.muster(1, "status").stderr


def test_what_a_killed_run_said_of_its_service_counts_no_more(cluster):
    """`muster run` of a node without the service was killed. Its file no longer counts, and the
    next run writes it anew. [A run over several nodes]"""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, count=2)
    nodes.entered(4)
    nodes.on.pop().kill()
    assert os.listdir(cluster.directories[1]) == [f"{nodes.job}.addr"]
    said = cluster.muster(1, "status")
    assert said.returncode == 1 and "no job runs here" in said.stderr
    nodes.entered(2, generation=2)
    nodes.join(1)
    ranks = nodes.entered(4, generation=3)
    assert cluster.muster(1, "status").returncode == 0
    all_well(nodes, ranks)


# ---- who is not let in ----


def test_a_node_that_says_otherwise_is_refused(cluster):
    """A node is given other numbers than the run has. One line names both; it ends with 125, and
    the run waits for another. [Refused nodes]"""
    nodes = Nodes(cluster, ["true"], count=1, nnodes="2")
    words = nodes.words
    for flags, mine, theirs in ((["-n", 3], "3 ranks per node", "2"),
                                (["--nnodes", 4], "4 nodes", "2"),
                                (["--min-size", 3], "3 ranks at least", "0")):
        done = cluster.muster(1, "run", *words[:words.index("-n")], *flags, "--", "true")
        assert done.returncode == 125
        said = done.stderr.splitlines()[-1]
        assert f"told {mine}" in said and f"has {theirs}" in said, said
    assert cluster.start(1, "run", *words).wait() == 0
    assert nodes.on[0].wait() == 0


def test_one_node_too_many_is_refused(cluster):
    """One node more than `--nnodes` comes. It is refused as not needed, and ends with 125.
    [Refused nodes]"""
    nodes = Nodes(cluster, [RANK])
    ranks = nodes.entered(6)
    late = cluster.start(cluster.add(), "run", *nodes.words)
    assert late.wait() == 125
    assert "has its 3 nodes already" in late.log.lines[-1]
    all_well(nodes, ranks)


def test_keys_that_no_node_writes_change_nothing(cluster):
    """A client of the job writes the keys of the run itself, with texts or numbers that no node
    writes. The nodes of the run go on as if nothing had been written. A node that joins is
    refused with the key and its value, and ends with 125. [Refused nodes]"""
    nodes = Nodes(cluster, [RANK], count=2)
    ranks = nodes.entered(4)
    for name, value in (("run/end", "0 4294967305"), ("run/end", "soon"), ("run/end", "0"),
                        ("run/cause", "text"), ("run/all", "1"), ("run/all", "x 0 0 0"),
                        ("run/finished/x", "1"), ("run/finished/4294967296", "1"),
                        ("run/life/x", "why"), ("run/life/4294967297", "why"),
                        ("run-node/2", "done 0"), ("run-node/x", "done 0"),
                        ("run-node/18446744073709551615", "runs 0"),
                        ("run-node/0", "done"), ("run-node/1", "waits -1")):
        done = cluster.muster(0, "key", "put", f"muster/{name}", value, "-j", nodes.job)
        assert done.returncode == 0, done.stderr
    all_well(nodes, ranks)


@pytest.mark.parametrize(("key", "value", "why"), [
    ("nproc", "two", "has the key muster/run/nproc = 'two', which no node writes"),
    ("max_restarts", "4294967297", "has the key muster/run/max_restarts = '4294967297', which no"),
    ("master_port", "65536", "has the key muster/run/master_port = '65536', which no node writes"),
    ("join_wait", "1s", "has the key muster/run/join_wait = '1s', which no node writes"),
    ("nodes_max", "1000000", "on 1000000 nodes with 2 processes each, which no node writes"),
    ("size", "0", "says that it has 0 ranks, on 3 nodes with 2 processes each"),
])
def test_a_run_that_is_none_is_not_joined(cluster, key, value, why):
    """A job has keys of a run that describe none. A node that joins is refused with the key and
    the reason, and ends with 125. [Refused nodes]"""
    nodes = Nodes(cluster, [RANK], count=1, nnodes=3)
    done = cluster.muster(0, "key", "put", f"muster/run/{key}", value, "-j", nodes.job)
    assert done.returncode == 0, done.stderr
    refused = nodes.join(1)
    assert refused.wait() == 125
    (line,) = refused.log.lines
    assert line.startswith("muster run: the run at ") and why in line, line
    nodes.on[0].signal(signal.SIGTERM)


def test_a_host_to_be_avoided_is_kept_out(cluster):
    """A host is to be avoided, by its name or address. Node 0's `--avoid` and the node's own both
    keep it out, before any rank starts; it ends with 125. [Refused nodes]"""
    nodes = Nodes(cluster, ["true"], "--avoid", "host-2,10.77.0.4", count=1, nnodes="2")
    cluster.add()
    for number, name in ((2, "host-2"), (3, "10.77.0.4")):
        done = cluster.muster(number, "run", *nodes.words)
        assert done.returncode == 125
        assert f"told to avoid {name}" in done.stderr
        assert "[" not in done.stdout
    done = cluster.muster(1, "run", "--avoid", "host-7,host-1", *nodes.words)
    assert (done.returncode, done.stdout) == (125, "")
    assert "kept out of the run by --avoid" in done.stderr
    assert cluster.start(1, "run", *nodes.words).wait() == 0
    assert nodes.on[0].wait() == 0


@pytest.mark.parametrize("name", ["host-0", "10.77.0.1"])
def test_node_0_keeps_itself_out_too(cluster, name):
    """A host is to be avoided, by its name or address. Node 0's `--avoid` and the node's own both
    keep it out, before any rank starts; it ends with 125. [Refused nodes]"""
    done = cluster.muster(0, "run", "--nnodes", 2, "--avoid", name, "--", "true")
    assert (done.returncode, done.stdout) == (125, "")
    assert "this node (host-0) is kept out of the run by --avoid" in done.stderr


def test_node_0_of_a_step_cannot_be_avoided(cluster):
    """All nodes of a Slurm step get `--avoid` for the first one. The first one keeps out; the
    others do not wait for it, but say that the service would be there, and end with 125.
    [Refused nodes]"""
    on = [cluster.start(number, "run", "--avoid", "host-0,10.77.0.1", "--", "true", **step(number))
          for number in range(3)]
    assert [process.wait() for process in on] == [125, 125, 125]
    assert "this node (host-0) is kept out" in on[0].log.lines[-1]
    for process in on[1:]:
        assert "the service of the run would be on 10.77.0.1, which is node 0" in process.log.lines[-1]


def test_a_service_that_is_not_there_is_waited_for_and_named(cluster):
    """Node 0 cannot be reached. It is tried for `--service-wait` (10 minutes), then named; the
    run ends with 125. [Refused nodes]"""
    done = cluster.muster(1, "run", "--join", "10.77.0.1:9", "-j", "any", "--service-wait", "300ms",
                          "--insecure", "--", "true")
    assert done.returncode == 125
    assert "10.77.0.1:9" in done.stderr.splitlines()[-1]


def test_all_addresses_that_were_tried_are_named(cluster):
    """A node is given several addresses with `--join`, and a service is at none. All of them are
    named; the run ends with 125. [Refused nodes]"""
    several = "10.77.0.1:9,10.77.0.3:9,[::1]:9"
    done = cluster.muster(1, "run", "--join", several, "-j", "any", "--service-wait", "300ms",
                          "--insecure", "--", "true")
    assert done.returncode == 125
    assert several in done.stderr.splitlines()[-1]


def test_one_of_several_addresses_is_to_be_avoided(cluster):
    """A node is given several addresses with `--join`, and `--avoid` names one of their hosts. It
    is refused with that one, for the service may be there. [Refused nodes]"""
    done = cluster.muster(1, "run", "--join", "10.77.0.3:9,10.77.0.1:9", "-j", "any", "--insecure",
                          "--avoid", "10.77.0.1", "--", "true")
    assert done.returncode == 125
    assert "the service of the run would be on 10.77.0.1, which is node 0" in done.stderr


def test_a_wrong_secret_is_refused(cluster, tmp_path):
    """A node's secret is wrong, or it has none. One line says so, and it ends with 125; nothing
    else happens to the run. [Refused nodes]"""
    nodes = Nodes(cluster, ["true"], count=1, nnodes="2")
    wrong = tmp_path / "wrong"
    wrong.write_text("0123456789abcdef" * 2)
    wrong.chmod(0o600)
    words = ["--secret-file" if word == "--secret-file" else word for word in nodes.words]
    words[words.index("--secret-file") + 1] = str(wrong)
    done = cluster.muster(1, "run", *words)
    assert (done.returncode, done.stdout) == (125, "")
    (line,) = done.stderr.splitlines()
    assert "secret" in line
    at = words.index("--secret-file")
    done = cluster.muster(1, "run", *words[:at], *words[at + 2:])
    assert (done.returncode, done.stdout) == (125, "")
    (line,) = done.stderr.splitlines()
    assert "secret" in line
    assert cluster.start(1, "run", *nodes.words).wait() == 0
    assert nodes.on[0].wait() == 0


def test_without_a_secret_only_if_asked(cluster):
    """The network is trusted. `--insecure` on all nodes does without a secret; none is made.
    [Refused nodes]"""
    nodes = Nodes(cluster, [RANK], "--insecure", count=2)
    assert "--insecure" in nodes.words and "--secret-file" not in nodes.words
    all_well(nodes, nodes.entered(4))
    assert not os.path.exists(cluster.environment(0)["MUSTER_STATE_DIR"])


def test_a_variable_opens_no_run_to_everybody(cluster):
    """`MUSTER_INSECURE` is set, and `--insecure` not typed. A secret is made: a variable opens no
    run to everybody. [Refused nodes]"""
    first = cluster.start(0, "run", "--nnodes", 2, "--", "true", MUSTER_INSECURE="1")
    words = joining(first)
    assert "--secret-file" in words and "--insecure" not in words
    assert cluster.start(1, "run", *words).wait() == 0
    assert first.wait() == 0


def test_a_node_joins_by_several_addresses(cluster):
    """A node is given two addresses with `--join`, and the service is at the second. It enters the
    run, and a command on that machine finds the job through both. [Refused nodes]"""
    first = cluster.start(0, "run", "--nnodes", "2", "-n", 1, "-j", "two", "--", "sleep", "1000")
    words = joining(first)
    at = words.index("--join") + 1
    words[at] = f"10.77.0.3:9,{words[at]}"
    second = cluster.start(1, "run", *words)
    second.log.wait_for("this is node 1 of job 'two'")
    found = cluster.muster(1, "exec", "-j", "two", "--", "printenv", "MUSTER_ADDR")
    assert found.stdout == words[at] + "\n", found.stderr
    first.signal(signal.SIGTERM)
    assert first.wait() == second.wait()


def test_wrong_usage_is_said(muster):
    """Flags of a run over several nodes contradict each other. That is wrong usage: 2.
    [Refused nodes]"""
    for flags, word in ((["--nnodes", "2:1"], "MIN:MAX"), (["--nnodes", "x"], "MIN:MAX"),
                        (["--node-rank", "1"], "--join"), (["--join", "1.2.3.4:5"], "-j"),
                        (["--join", "1.2.3.4:5,6.7.8.9", "-j", "x"], "'6.7.8.9' has no port"),
                        (["--join", ",".join(17 * ["1.2.3.4:5"]), "-j", "x"], "one too many"),
                        (["--nnodes", "2", "--size", "3"], "--size")):
        done = muster("run", *flags, "--", "true")
        assert done.returncode == 2 and word in done.stderr, done.stderr


# ---- nodes that come and go ----


def test_a_node_that_comes_late_enters_at_the_next_generation(cluster):
    """A fourth node joins a run with `--nnodes 3:4`. Its ranks enter at the next generation; no
    rank is killed for it."""
    nodes = Nodes(cluster, [RANK], "--join-wait", "500ms", nnodes="3:4")
    ranks = nodes.entered(6)
    assert {rank["generation"] for rank in ranks.values()} == {1}
    nodes.join(cluster.add())
    ranks = nodes.entered(8, generation=2)
    assert len({rank["iteration"] for rank in ranks.values()}) == 1 and ranks[6]["iteration"] > 0
    all_well(nodes, ranks)


def silenced(nodes, number):
    """When the ranks of that node stopped, by the clock that all namespaces share."""
    return [float(re.search(r"@([\d.]+)", line)[1])
            for line in nodes.on[number].out.having(" told generation=1")]


def test_a_cut_cable_costs_the_ranks_of_that_node_40(cluster, digest, folder):  # noqa: F811
    """The cable of one node is cut, while rank 0 stands still and the others wait in recv. Its
    ranks stop by themselves before they are lost, which is one step for all of them; the
    others go on without. When the cable is back the node kills its ranks, says so, and comes
    back as a newcomer, for which rank 0 waits. The result is the same.
    [Nodes that come and go] [restart]"""
    nodes = Nodes(cluster, [CHARLM, "--steps", STEPS, folder], "--lease", f"{LONG_LEASE_S}s", *ALONE,
                  CHARLM_HOLD=f"{HOLD},{STEPS // 2}")
    nodes.on[0].out.wait_for(" holding ")
    losses = Losses(nodes.socket(), nodes.job, LONG_LEASE_S)
    cluster.cable(2, "down")
    nodes.on[0].out.wait_for("entered generation=2", "size=4")
    cluster.cable(2, "up")
    for process in nodes.on:
        process.out.wait_for(" told generation=1", count=2)
    told = silenced(nodes, 2)
    assert len(told) == 2
    ((given_up, lost),) = losses.close()
    assert lost == {("agent", 2), ("rank", 4), ("rank", 5)}
    assert max(told) < given_up
    assert max(told) < min(silenced(nodes, 0) + silenced(nodes, 1))
    nodes.on[2].log.wait_for("node 2 (host-2) was given up", "its 2 ranks are killed",
                             "comes back as a newcomer (1 of 3)")
    nodes.on[2].log.wait_for("this is node 2", count=2)
    trained(nodes.on[0], STEPS)
    assert nodes.codes() == [0, 0, 0], nodes.told()
    assert result(nodes.on[0])["digest"] == digest
    sizes = {int(event["generation"]): event["size"] for event in events(nodes.on[0], "entered")}
    assert (sizes[1], sizes[2]) == ("6", "4")  # both in one step
    # Its ranks come back one by one, and a generation may be over before it is entered here.
    assert sizes[min(number for number in sizes if number > 2)] in ("5", "6")
    for number in (0, 1):
        assert not nodes.on[number].log.having("starting it again")


def test_a_cable_cut_for_a_moment_is_not_noticed_41(cluster, digest, folder):  # noqa: F811
    """A cable is cut for less than 0.8 of the lease. Nothing happens: no loss is reported, no
    rank is interrupted, its data is late, and the result is the same. [Nodes that come and go]
    [restart]"""
    nodes = Nodes(cluster, [CHARLM, "--steps", STEPS, folder], "--lease", f"{LONG_LEASE_S}s", *ALONE)
    losses = Losses(nodes.socket(), nodes.job, LONG_LEASE_S)
    nodes.on[0].out.wait_for(" running ")
    cluster.cable(2, "down")
    select.poll().poll(CUT_S * 1000)
    assert not nodes.on[0].out.having(" result ")
    cluster.cable(2, "up")
    trained(nodes.on[0], STEPS)
    assert nodes.codes() == [0, 0, 0], nodes.told()
    assert losses.close() == []
    assert result(nodes.on[0])["digest"] == digest
    for process in nodes.on:
        assert len(events(process, "started")) == len(events(process, "entered")) == 2
        assert {event["generation"] for event in events(process, "entered")} == {"1"}
        assert events(process, "told") == []
    assert not any(process.log.having(word) for process in nodes.on
                   for word in ("starting it again", "given up", "does not answer"))


def test_another_node_takes_the_place_of_a_lost_one(cluster):
    """A node is lost for good, and another one joins. It takes the lost one's number and places."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE)
    nodes.entered(6)
    nodes.on[2].kill()
    nodes.on[0].out.wait_for("entered generation=", "size=4")
    late = cluster.start(cluster.add(), "run", *nodes.words)
    nodes.on[2] = late
    ranks = nodes.entered(6, generation=2)
    number = int(re.search(r"this is node (\d)", late.log.wait_for("this is node"))[1])
    assert late.out.having(f"index={2 * number}") and late.out.having(f"index={2 * number + 1}")
    all_well(nodes, ranks)


def test_a_killed_run_costs_the_ranks_of_its_node_38(cluster):
    """`muster run` of a node is killed. Its ranks die with it and are lost with the node; the
    others go on. [Nodes that come and go] [restart]"""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE)
    nodes.entered(6)
    nodes.on[1].kill()
    ranks = nodes.entered(4, generation=2)
    nodes.on = [nodes.on[0], nodes.on[2]]
    all_well(nodes, ranks)
    assert not nodes.on[0].log.having("starting it again")


def test_a_killed_run_of_node_0_costs_the_ranks_of_its_node(cluster):
    """`muster run` of node 0 is killed. Its ranks die with it and are lost with the node. Its
    service goes on for the others, unwatched, and ends after them."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, *ALONE)
    nodes.entered(6)
    nodes.on[0].process.kill()  # its output goes on: it is the service's too
    ranks = nodes.entered(4, generation=2)
    ends = pidfds(cluster.pids(0))
    nodes.on = nodes.on[1:]
    all_well(nodes, ranks)
    wait_gone(*ends)
    assert os.listdir(cluster.directories[0]) == []
    assert os.listdir(cluster.environment(0)["MUSTER_STATE_DIR"]) == []  # nor the secret


def test_a_killed_service_costs_nobody_anything(cluster):
    """The service of a run over several nodes is killed. Node 0 starts it again, from its journal
    and at the same address, where the others look for it. No rank notices."""
    nodes = Nodes(cluster, [RANK])
    ranks = nodes.entered(6)
    os.kill(nodes.service(), signal.SIGKILL)
    all_well(nodes, ranks)
    assert list(nodes.generations()) == [1]


def test_restarts_are_counted_over_all_nodes(cluster):
    """Ranks of several nodes fail. `--max-restarts` counts over all nodes, and never one more,
    also when they fail at once: the service decides which is the last one. A node that comes
    back counts as one."""
    nodes = Nodes(cluster, [RANK], "--max-restarts", 1)
    ranks = nodes.entered(6)
    nodes.order(5, ranks[5]["generation"], "exit 3")
    ranks = nodes.entered(6, generation=2)
    until(lambda: sum(len(process.log.having("(1 of 1)")) for process in nodes.on) == 1)
    nodes.order(2, ranks[2]["generation"], "exit 4")
    assert nodes.codes() == [4, 4, 4], nodes.told()
    assert sum(len(process.log.having("1 of 1 restart is used")) for process in nodes.on) == 1


def test_a_node_that_may_not_come_back_ends_with_1(cluster):
    """A node whose cable was cut may come back, and no restart is left. It ends with 1 and says
    why in its last line; the others go on."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, "--max-restarts", 0)
    nodes.entered(6)
    nodes.on[0].log.wait_for("; 3 vote")  # two of two do not outlive a cable
    cluster.cable(1, "down")
    ranks = nodes.entered(4, generation=2)
    cluster.cable(1, "up")
    cut = nodes.on.pop(1)
    assert cut.wait() == 1
    assert cut.log.having("is not started again: 0 of 0 restarts are used")
    assert cut.log.lines[-1].endswith(
        "node 1 (host-1) ended without the others: it was given up, and no restart is left")
    all_well(nodes, ranks)


def test_restarts_of_several_nodes_at_once_are_not_too_many(cluster):
    """Ranks of several nodes fail. `--max-restarts` counts over all nodes, and never one more,
    also when they fail at once: the service decides which is the last one. A node that comes
    back counts as one."""
    nodes = Nodes(cluster, [RANK], "--max-restarts", 3, "--min-size", 1)
    ranks = nodes.entered(6)
    for process in nodes.on:
        process.signal(signal.SIGSTOP)
    for rank in ranks.values():
        if rank["index"] != 0:
            os.kill(rank["pid"], signal.SIGKILL)
    for process in nodes.on:
        process.signal(signal.SIGCONT)
    ranks = nodes.entered(4, generation=2)
    for number in (1, 2, 3):
        until(lambda: sum(len(process.log.having(f"starting it again ({number} of 3)"))
                          for process in nodes.on) == 1)
    until(lambda: sum(len(process.log.having("3 of 3 restarts are used"))
                      for process in nodes.on) == 2)
    all_well(nodes, ranks)


@pytest.mark.parametrize("least, left", [(5, 5), (6, None)])
def test_how_many_are_left_is_counted_over_all_nodes(cluster, least, left):
    """A rank fails, `--max-restarts` is used up, and `--min-size` is set. Its node counts the
    ranks that are left on all nodes, though only node 0 follows all of them: the run goes on
    with enough, else it ends."""
    nodes = Nodes(cluster, [RANK], "--max-restarts", 0, "--min-size", least)
    ranks = nodes.entered(6)
    nodes.order(3, ranks[3]["generation"], "exit 7")
    if left is None:
        codes = nodes.codes()  # 7, or of another that could not go on without it and was faster
        assert codes in ([7, 7, 7], [1, 1, 1]), nodes.told()
    else:
        nodes.on[1].log.wait_for(f"going on without #3: {left} are left, {least} are enough")
        all_well(nodes, nodes.entered(5, generation=2))


def test_node_0_that_stood_still_comes_back_too(cluster):
    """`muster run` of node 0 stands still for longer than the lease. It is lost like any node,
    and comes back as a newcomer; its service goes on meanwhile."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, "--avoid", "host-9", count=2)
    nodes.entered(4)
    nodes.on[0].signal(signal.SIGSTOP)
    nodes.on[1].out.wait_for("entered generation=", "size=2")
    nodes.on[0].signal(signal.SIGCONT)
    nodes.on[0].log.wait_for("node 0 (host-0) was given up", "comes back as a newcomer (1 of 3)")
    all_well(nodes, nodes.entered(4, generation=2))


def test_a_signal_while_node_0_comes_back_leaves_no_secret(cluster):
    """Node 0 gets a signal to stop while it comes back. It stops, and removes the secret."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, count=2)
    nodes.entered(4)
    nodes.on[0].signal(signal.SIGSTOP)
    nodes.on[1].out.wait_for("entered generation=", "size=2")
    service = nodes.service()
    nodes.on[0].signal(signal.SIGCONT)
    nodes.on[0].log.wait_for("comes back as a newcomer")
    os.kill(service, signal.SIGSTOP)  # so that it does not come far
    nodes.on[0].signal(signal.SIGTERM)
    assert nodes.on[0].process.wait(WAIT_S) == 143  # its output goes on: it is the service's too
    with contextlib.suppress(ProcessLookupError):  # it came further than that, and ended its service
        os.kill(service, signal.SIGCONT)
    assert os.listdir(cluster.environment(0)["MUSTER_STATE_DIR"]) == []


# ---- when node 0 cannot be reached ----


def test_a_lost_node_0_is_waited_for_and_then_named(cluster):
    """Node 0's cable is cut for good, and the service has no replicas. The others say that it does
    not answer, wait for `--service-wait`, then end with 125 and say why in the last line; node 0
    goes on alone if it may."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, "--replicas", 1, nnodes="1:3",
                  others=("--service-wait", f"{SERVICE_WAIT_S}s"))
    for number in (1, 2):
        nodes.on[number].log.wait_for("this is node")
    nodes.entered(6)
    cluster.cable(0, "down")
    for number in (1, 2):
        process = nodes.on[number]
        assert process.wait() == 125
        assert process.log.having("does not answer; the ranks have stopped and wait for it")
        assert process.log.having(f"did not answer for {SERVICE_WAIT_S}.0 s (--service-wait); this node ends")
        assert process.log.lines[-1].endswith(
            f"node {number} (host-{number}) ended without the others: the service did not answer")
    nodes.on = nodes.on[:1]
    all_well(nodes, nodes.entered(2, generation=2))


def test_a_node_that_is_done_does_not_wait_for_a_lost_service_for_ever(cluster):
    """Node 0 is lost for good, and the ranks of another node had ended well before. That node
    cannot know how the others end, and ends with 125."""
    program = 'test "$GROUP_RANK" = 1 && exit 0; exec tail -f /dev/null'
    nodes = Nodes(cluster, ["sh", "-c", program], "--lease", SHORT_LEASE, count=2,
                  others=("--service-wait", f"{SERVICE_WAIT_S}s"))
    nodes.on[1].log.wait_for("this is node 1")
    cluster.cable(0, "down")
    assert nodes.on[1].wait() == 125
    assert "ended without the others: the service did not answer" in nodes.on[1].log.lines[-1]
    nodes.on[0].signal(signal.SIGTERM)
    assert nodes.on[0].wait() != 0


def test_a_service_that_hangs_does_not_hold_node_0_for_ever(cluster):
    """The service hangs, and node 0 gets a signal to stop. Whether the others have gone cannot be
    asked: it waits for them 10 seconds, then kills the service."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE, count=2)
    nodes.entered(4)
    os.kill(nodes.service(), signal.SIGSTOP)
    nodes.on[0].log.wait_for("does not answer")
    nodes.on[0].signal(signal.SIGTERM)
    assert nodes.on[0].wait() == 143
    assert "stopped by signal 15" in nodes.on[0].log.lines[-1]
    assert os.listdir(cluster.environment(0)["MUSTER_STATE_DIR"]) == []


def test_killed_runs_of_all_nodes_leave_no_process(cluster):
    """`muster run` is killed on all nodes at once. No process of them is left."""
    nodes = Nodes(cluster, [RANK], "--lease", SHORT_LEASE)
    nodes.entered(6)
    left = [os.pidfd_open(pid) for number in range(3) for pid in cluster.pids(number)
            if pid not in {process.pid for process in nodes.on}]
    assert len(left) >= 3 * 3  # keepers and ranks, and the service
    for process in nodes.on:
        process.process.kill()
    wait_gone(*left)


# ---- the end, alike on all nodes ----


def test_the_first_cause_is_told_on_all_nodes(cluster):
    """A rank fails and is not started again. All nodes end, with its status, and with the same
    last line: which rank, on which node, how. [The end]"""
    nodes = Nodes(cluster, [RANK], "--max-restarts", 0)
    ranks = nodes.entered(6)
    nodes.order(3, ranks[3]["generation"], "exit 7")
    assert nodes.codes() == [7, 7, 7], nodes.told()
    said = {process.log.lines[-1] for process in nodes.on}
    assert len(said) == 1, said
    line = said.pop()
    assert "first cause: rank 3 (#3" in line and "on host-1 ended with status 7" in line
    assert 'its last line on stderr: "order: exit 7"' in line


@pytest.mark.parametrize("number", [0, 2])
def test_a_signal_to_one_node_ends_all(cluster, number):
    """A user types Ctrl-C on one node. The ranks of all nodes get the signal, and all runs say
    where it came from. [The end]"""
    nodes = Nodes(cluster, [RANK])
    nodes.entered(6)
    nodes.on[number].signal(signal.SIGINT)
    codes = nodes.codes()
    for process in nodes.on:
        assert f"stopped by signal 2 (Interrupt) on host-{number}" in process.log.lines[-1]
    assert codes == [130, 130, 130], codes


def test_a_node_that_is_done_waits_for_the_others(cluster):
    """The ranks of one node are done. Its run waits for the others, and ends as they do.
    [The end]"""
    program = 'test "$GROUP_RANK" = 2 && exec "$0"; echo quick'
    nodes = Nodes(cluster, ["sh", "-c", program, "cat"], "--max-restarts", 0)
    nodes.on[2].log.wait_for("this is node 2")
    assert nodes.codes() == [0, 0, 0], nodes.told()
    nodes = Nodes(cluster, ["sh", "-c", 'test "$GROUP_RANK" = 2 || exit 0; echo last; exit 9'],
                  "--max-restarts", 0, count=2, nnodes="3")
    for process in nodes.on:
        process.log.wait_for("OMP_NUM_THREADS")
        assert process.process.poll() is None
    nodes.join(2, "--node-rank", 2)
    assert nodes.codes() == [9, 9, 9], nodes.told()
    assert all("first cause: #" in process.log.lines[-1] for process in nodes.on)


def test_nothing_is_left(cluster):
    """A run over several nodes is over. Neither a process nor a socket nor the secret is left.
    [The end]"""
    nodes = Nodes(cluster, ["true"])
    assert nodes.codes() == [0, 0, 0], nodes.told()
    for number in range(3):
        assert os.listdir(cluster.directories[number]) == []
        until(lambda number=number: cluster.pids(number) == [])
    home = cluster.environment(0)["MUSTER_STATE_DIR"]
    assert os.listdir(home) == []
