# SPDX-License-Identifier: Apache-2.0
"""Three processes of the service that are one: whichever of them dies, what was answered stays.

behaviour: replicas / Several processes, one service
"""

import contextlib
import datetime
import http.client
import json
import os
import re
import shutil
import socket
import time

import pytest

from conftest import WAIT_S, pause
from running import until
from wire import Wire
from replicas import ENDED, Client, Group, another_boot, clock_ahead, clocks_differ, flip, freeze, identity, thaw

SECRET = "0123456789abcdef0123456789abcdef"
KEPT = 4096  # entries behind a snapshot
STATE_DUE = 64 << 20  # bytes of records that make one due
DIGEST_INPUTS = 10000  # between two digests
MARKED = 777  # bytes of a value that is found in memory
# An election is a twentieth of it, 2 s. Who leads stays when a processor or a disk lets it wait for a moment.
STEADY = ["--lease", "40s"]


@pytest.fixture
def group(env, started, tmp_path):
    """group(flags...): three that are one service, which has a leader."""

    def make(*flags):
        return Group(env, started, tmp_path, 3, [*STEADY, *flags]).begin()

    return make


def moment(line):
    """When the service wrote it, in seconds."""
    return datetime.datetime.fromisoformat(line.split(" ")[0].replace("Z", "+00:00")).timestamp()


def value(muster, addresses, key, **options):
    return muster("key", "get", key, "--addr", addresses, **options).stdout.strip()


def test_a_killed_leader_is_followed_by_another_one(group, muster):
    """The leader is killed. Another replica leads: a key that was put before is there, and a
    session of before goes on without the client's doing."""
    replicas = group()
    client = Client(replicas)
    client.put("before")
    leader = replicas.leader()
    leader.kill()
    client.ask("meanwhile")
    replicas.next_leader(leader)
    client.kept("meanwhile")
    assert value(muster, replicas.list, "before") == "vvv"
    assert value(muster, replicas.list, "meanwhile") == "vvv"
    client.close()


@pytest.mark.skipif(not clocks_differ(), reason="no time namespaces here, or no right to them")
def test_a_session_has_a_whole_lease_at_the_next_leader(env, started, tmp_path, muster):
    """The hosts were started hours apart, so their clocks differ. A session holds a key that goes
    with it, and the leader is killed. At the next leader the key is still there, though that host's
    clock is an hour behind: time goes on from the last entry, and the session has a whole lease."""
    replicas = Group(env, started, tmp_path, 3, STEADY)
    for replica, hours in zip(replicas.replicas, (2, 1, 1)):
        replica.begin(*clock_ahead(hours))
    replicas.all_vote()
    leader = replicas.leader()
    wire = Wire(leader.address)
    assert wire.open().status == 0
    assert wire.put("mine", b"x", owned=True).status == 0
    leader.kill()
    client = Client(replicas)
    client.put("after")
    kept = value(muster, replicas.list, "mine")
    client.close()
    for replica in replicas.replicas:
        replica.kill()  # what started it hears no SIGTERM
    assert kept == "x"


def test_every_replica_may_be_killed_in_turn(group, muster):
    """Five times the leader is killed and started again: every put that was answered is there, and
    each of the replicas has it in its log."""
    replicas = group()
    client = Client(replicas)
    for i in range(5):
        leader = replicas.leader()
        leader.kill()
        client.put(f"key{i}")
        leader.begin()
        leader.log.wait_for("follows", replicas.next_leader(leader).address)
    names = muster("key", "ls", "--addr", replicas.list).stdout.split()
    assert {f"key{i}" for i in range(5)} <= set(names)
    client.close()


def test_a_follower_sends_clients_on(group, muster):
    """A command that has the address of a follower alone is served by the leader."""
    replicas = group()
    for follower in replicas.followers():
        done = muster("key", "put", follower.address, "x", "--addr", follower.address)
        assert done.returncode == 0, done.stderr
        follower.log.wait_for("client-sent-on", replicas.leader().address)
        assert value(muster, replicas.list, follower.address) == "x"


def test_a_client_learns_the_addresses_of_all(group):
    """A client has the address of the leader alone. The leader is killed, and the client goes on
    with the next one."""
    replicas = group()
    leader = replicas.leader()
    client = Client(replicas, leader.address)
    client.put("before")
    leader.kill()
    client.put("after")
    client.close()


def test_a_lost_follower_costs_nothing(group):
    """A follower is killed. Puts are answered as before, and the leader stays. The follower is
    started again and has them all: it leads after the other two were killed and one came back."""
    replicas = group()
    client = Client(replicas)
    leader = replicas.leader()
    first, second = replicas.followers()
    first.kill()
    for i in range(100):
        client.put(f"key{i}")
    assert replicas.leader() is leader
    first.begin()
    first.log.wait_for("follows", leader.address)
    client.put("again")
    second.kill()
    client.put("with-the-first")
    client.close()


def status_of(replicas, muster):
    return json.loads(muster("status", "--addr", replicas.list, "--json").stdout)["service"]


def nobody_is_behind(told):
    return told["here"] == len(told["replicas"]) and all(each["behind"] == 0 for each in told["replicas"])


def test_status_says_how_the_replicas_are(group, muster):
    """`muster status` says which replica leads, how many are here, and how far each other one is
    behind; `--json` which process leads, on which host, and which vote. A follower is killed: it is
    away, and the others are here."""
    replicas = group()
    client = Client(replicas)
    client.put("first")
    leader, (one, other) = replicas.leader(), replicas.followers()

    def holds(wanted):
        return until(lambda: (now := status_of(replicas, muster)) and wanted(now) and now)

    told = holds(nobody_is_behind)
    assert told["leader"] == leader.address and told["of"] == 3
    assert (told["host"], told["pid"]) == (socket.gethostname(), leader.service.pid)
    assert [each["votes"] for each in told["replicas"]] == [True] * 3
    assert {each["address"]: each["leads"] for each in told["replicas"]} == {
        replica.address: replica is leader for replica in replicas.replicas}
    one.kill()
    told = holds(lambda now: now["here"] == 2)
    assert [each["address"] for each in told["replicas"] if not each["here"]] == [one.address]
    text = muster("status", "--addr", replicas.list).stdout
    assert re.search(rf"^service: {leader.address} leads, 2 of 3 replicas, .*\b{one.address} is away", text, re.M), text
    assert re.search(rf"^service: .*, {other.address} is \d+ entr(y|ies) behind", text, re.M), text
    client.close()


def test_a_leader_that_slept_ends(group, muster):
    """The leader is stopped by a signal for longer than an election takes, and goes on then: it
    ends with status 76, says that it was deposed, and nothing that it was asked is done twice."""
    replicas = group()
    client = Client(replicas)
    client.put("before")
    leader = replicas.leader()
    freeze(leader)
    client.ask("meanwhile")
    replicas.next_leader(leader)
    client.kept("meanwhile")
    thaw(leader)
    assert leader.service.wait() == ENDED
    leader.log.wait_for("deposed", "is to be started again")
    leader.begin()
    client.put("after")
    names = muster("key", "ls", "--addr", replicas.list).stdout.split()
    assert {"before", "meanwhile", "after"} <= set(names)
    client.close()


def test_without_a_majority_nothing_is_answered(group):
    """Two of three are killed. A put is not answered, and the third ends as a leader. One of the
    two comes back: the put is answered then."""
    replicas = group()
    client = Client(replicas)
    client.put("before")
    leader = replicas.leader()
    first, second = replicas.followers()
    first.kill()
    second.kill()
    client.ask("alone")
    assert leader.service.wait() == ENDED
    assert not client.out.having("alone")
    leader.begin()
    first.begin()
    client.kept("alone")
    client.close()


def test_all_of_them_are_started_again(group, muster):
    """All three are killed and started again on this host: what was put is there."""
    replicas = group()
    client = Client(replicas)
    client.put("before")
    for replica in replicas.replicas:
        replica.kill()
    replicas.begin_ended()
    client.put("after")
    assert value(muster, replicas.list, "before") == "vvv"
    client.close()


@pytest.mark.parametrize("which", ["the first", "a follower"])
def test_a_replica_without_its_folder_joins_as_a_new_one(group, which):
    """A replica is killed and its folder removed. It is added again, under another id: a vote that
    it has forgotten was given under the one before. Nothing that was answered is lost, whichever
    of them it is."""
    replicas = group()
    client = Client(replicas)
    client.put("before")
    lost = replicas[0] if which == "the first" else replicas.followers()[0]
    lost.kill()
    client.put("meanwhile")
    before = identity(lost)
    shutil.rmtree(lost.folder)
    lost.begin()
    replicas.next_leader(lost).log.wait_for("members", "voters=3", lost.address, count=2)
    lost.log.wait_for("members", "voters=3", lost.address)
    assert not lost.log.having("founds-group")
    assert identity(lost) != before
    other = next(one for one in replicas.followers() if one is not lost)
    other.kill()
    client.put("with-the-new-one")
    client.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show a process another boot id")
def test_a_host_that_was_started_again_forgets_its_votes_with_its_id(group, tmp_path):
    """The host of a replica is started again, and there is no `--sync`: its log may have lost a
    vote. The replica throws it away, says so, and joins under another id, so the forgotten vote
    cannot be given again. Nothing that was answered is lost."""
    replicas = group()
    client = Client(replicas)
    client.put("before")
    lost = replicas.followers()[0]
    lost.kill()
    before = identity(lost)
    lost.begin(*another_boot(tmp_path, 1))
    lost.log.wait_for("replica-log-of-another-boot")
    lost.log.wait_for("members", "voters=3", lost.address)
    assert identity(lost) != before
    next(one for one in replicas.followers() if one is not lost).kill()
    client.put("with-the-new-one")
    client.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can show a process another boot id")
def test_with_sync_all_hosts_may_be_started_again(group, muster, tmp_path):
    """The same with `--sync`, of all three hosts at once: each has its id and its votes, and what
    was answered is there."""
    replicas = group("--sync")
    client = Client(replicas)
    client.put("before")
    for replica in replicas.replicas:
        replica.kill()
    before = [identity(replica) for replica in replicas.replicas]
    for replica in replicas.replicas:
        replica.begin(*another_boot(tmp_path, 1))
    client.put("after")
    assert [identity(replica) for replica in replicas.replicas] == before
    assert not any(replica.log.having("of-another-boot") for replica in replicas.replicas)
    assert value(muster, replicas.list, "before") == "vvv"
    client.close()


def fill(client):
    """More entries than are kept behind a snapshot, and then more bytes than make one due."""
    client.fill("small", KEPT + 100)
    client.fill("large", STATE_DUE // 1000000 + 2, 1000000)


def test_a_follower_that_is_far_behind_gets_a_snapshot(group, muster):
    """A follower is killed, and then more is put than the logs keep. Started again, it goes on
    from the leader's snapshot, and what was put is there when it serves with one other."""
    replicas = group()
    client = Client(replicas)
    client.put("before")
    leader = replicas.leader()
    first, second = replicas.followers()
    first.kill()
    fill(client)
    while not list(leader.folder.glob("*.state")):
        pause()
    first.begin()
    first.log.wait_for("snapshot-loaded")
    first.log.wait_for("follows", leader.address)
    second.kill()
    client.put("after")
    leader.kill()
    second.begin()
    client.put("at-the-next")
    names = muster("key", "ls", "--addr", replicas.list).stdout.split()
    assert {"before", "after", "at-the-next", "small7", "large7"} <= set(names)
    client.close()


def test_a_state_that_differs_is_thrown_away(group, muster):
    """A bit of a value flips in the memory of a follower. The next digest shows it: the follower
    says so in one line, ends with status 76, and removes its state. It comes again under another
    id with the state of the leader, and its digests are the leader's."""
    replicas = group()
    client = Client(replicas)
    client.put("marked", MARKED)
    follower = replicas.followers()[0]
    client.put("confirmed")
    client.put("applied")
    until(lambda: nobody_is_behind(status_of(replicas, muster)))  # a put waits for one follower alone
    flip(follower, b"v" * MARKED)
    client.fill("key", DIGEST_INPUTS)
    follower.log.wait_for("replica-differs", "thrown away")
    assert follower.service.wait() == ENDED
    assert len(follower.log.having("replica-differs")) == 1
    assert follower.entries() == []
    before = identity(follower)
    follower.begin()
    follower.log.wait_for("members", "voters=3", follower.address)
    assert identity(follower) != before
    client.fill("more", DIGEST_INPUTS)
    assert not any(one.log.having("replica-differs") for one in replicas.replicas)
    client.close()


def test_a_large_state_is_not_compared_all_the_time(group):
    """To compare the state reads all of it, and nothing is served meanwhile. With a large one that
    takes at most a hundredth of the time, however many requests come."""
    replicas = group("--log-level", "debug")
    client = Client(replicas)
    began = time.time()
    client.fill("large", 600, 64000)
    for part in range(4):
        client.fill(f"key{part}.", DIGEST_INPUTS)
    digests = [(moment(line), int(re.search(r"took=(\d+)us", line)[1]) / 1e6)
               for line in replicas.leader().log.having("digest inputs=")]
    assert digests or replicas.leader().log.having("digest-left-out")
    share = 0
    for when, took in digests:  # each line is written after its digest: so from before the first one
        assert when - began > 99 * share
        share += took
    client.close()


class Watched(Group):
    """With the HTTP port of each."""

    def begin(self):
        self.flags = ["--http", "127.0.0.1:0", *STEADY]
        return super().begin()

    def ask(self, replica, path):
        line = replica.service.out.wait_for("muster: health and metrics on ")
        place = line.split("http://")[1]
        with contextlib.closing(http.client.HTTPConnection(place, timeout=60)) as port:
            port.request("GET", path)
            answer = port.getresponse()
            return answer.status, answer.read().decode()

    def wait_for(self, replica, path, holds):
        deadline = time.monotonic() + WAIT_S
        while not holds(*(said := self.ask(replica, path))):
            assert time.monotonic() < deadline, said
            pause()


def test_the_metrics_and_the_health_of_replicas(env, started, tmp_path):
    """A leader and a follower that knows it are ready; a follower whose leader is lost, with no
    majority left, is not. The metrics say which of them leads, how many vote and answer, how far
    the last is behind, and how long commits took."""
    replicas = Watched(env, started, tmp_path, 3, STEADY).begin()
    leader = replicas.leader()
    follower, other = replicas.followers()
    client = Client(replicas)
    client.put("x")
    for replica in replicas.replicas:
        replicas.wait_for(replica, "/readyz", lambda status, _: status == 200)
    text = replicas.ask(follower, "/metrics")[1]
    assert "muster_leader 0\n" in text and "muster_replica_leads 0\n" in text and "muster_replica_voters 3\n" in text
    assert "\nmuster_replica_lag_entries " not in text
    replicas.wait_for(leader, "/metrics", lambda _, text: "muster_replica_lag_entries 0\n" in text)
    replicas.wait_for(leader, "/metrics", lambda _, text: "muster_replica_heard 3\n" in text)
    text = replicas.ask(leader, "/metrics")[1]
    assert "muster_leader 1\n" in text and "muster_replica_leads 1\n" in text
    assert re.search(r"\nmuster_replica_commit_seconds_count [1-9]", text)
    other.kill()
    client.fill("key", 50)
    replicas.wait_for(leader, "/metrics", lambda _, text: "muster_replica_heard 2\n" in text and
                      "muster_replica_lag_entries 0\n" not in text)
    leader.kill()
    replicas.wait_for(follower, "/readyz", lambda status, text: status == 503 and
                      "no replica is known to lead" in text)
    other.begin()
    replicas.next_leader(leader)
    replicas.wait_for(follower, "/readyz", lambda status, _: status == 200)
    client.close()


def test_replicas_speak_tls(group, muster, tmp_path):
    """With a secret the replicas prove it to each other: a put is there after the leader was
    killed. A replica with another secret is refused, and says why."""
    secrets = [tmp_path / "one", tmp_path / "other"]
    for path, text in zip(secrets, (SECRET, SECRET[::-1])):
        path.touch(mode=0o600)
        path.write_text(text)
    replicas = group("--secret-file", secrets[0])
    client = Client(replicas, MUSTER_SECRET_FILE=str(secrets[0]))
    client.put("before")
    leader = replicas.leader()
    leader.kill()
    client.put("after")
    stranger = leader
    replicas.flags = [*STEADY, "--secret-file", secrets[1]]
    stranger.begin()
    stranger.log.wait_for("replica-unreachable", "secret")
    client.put("still")
    client.close()


def test_the_first_start_needs_all_of_them(env, started, tmp_path, muster):
    """Two of three new replicas are started. None of them founds a group, and a put is not
    answered; when the third is started, it is."""
    replicas = Group(env, started, tmp_path, 3, STEADY)
    for replica in replicas.replicas[:2]:
        replica.begin()
    replicas[0].log.wait_for("waits-to-found", "not all of")
    replicas[0].log.wait_for("replica-connected", replicas[1].address)
    done = muster("key", "put", "x", "1", "--timeout", "500ms", "--addr", replicas[0].address)
    assert done.returncode != 0
    assert replicas.leads() is None
    replicas[2].begin()
    replicas.leader().log.wait_for("members", "voters=3")
    assert muster("key", "put", "x", "1", "--addr", replicas.list).returncode == 0


def test_a_group_of_one_grows(env, started, tmp_path, muster):
    """A group of one serves. Two more replicas that name it are added and become voters, and the
    first one is killed: the key that was put first is there."""
    replicas = Group(env, started, tmp_path, 3, STEADY)
    lists = [replicas.addresses[0], replicas.list, replicas.list]
    replicas.flags = [*STEADY, "--replicas", "3"]
    for replica, known in zip(replicas.replicas, lists):
        replicas.list = known
        replica.begin()
        if replica is replicas[0]:
            assert muster("key", "put", "x", "1", "--addr", known).returncode == 0
    replicas.all_vote()
    replicas[0].kill()
    replicas.next_leader(replicas[0])
    assert value(muster, replicas.list, "x") == "1"


@pytest.mark.parametrize("flags, line", [
    (["--replica", "127.0.0.1:1"], "--replica needs a folder for its log: --journal DIR"),
    (["--replicas", "3"], "--replicas needs the addresses of the replicas: --replica"),
    (["--replica", "127.0.0.1:1,127.0.0.1:2", "--journal", "x"], "which is none of them"),
    (["--replica", "127.0.0.1:9,127.0.0.1:2", "--journal", "x"], "1, 3 or 5 replicas vote"),
    (["--replica", "127.0.0.1:9", "--replicas", "4", "--journal", "x"], "1, 3 or 5 replicas"),
    (["--replica", "127.0.0.1", "--journal", "x"], "--replica 127.0.0.1: "),
    (["--replica", "10.0.0.1:9", "--journal", "x"], "needs a secret"),
])
def test_flags_of_replicas_that_make_no_sense_are_refused(muster, flags, line, tmp_path):
    """Flags of replicas that are incomplete or contradict each other: the service is refused with
    one line."""
    done = muster("serve", "--addr", "127.0.0.1:9", *flags, cwd=tmp_path)
    assert done.returncode == 2 and line in done.stderr, done.stderr
    assert len(done.stderr.splitlines()) == 1
