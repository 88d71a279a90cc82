# SPDX-License-Identifier: Apache-2.0
"""`muster key`, and how a command finds its service.

behaviour: program / muster key
"""

import json
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import MUSTER, WAIT_S

# ---- the actions ----


def said(done):
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def refused(done, code=1):
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_put_and_get(either_service, muster):
    """A value is put and got by `muster key`. It is printed with a newline, or with `--raw` as it
    is.

    The tests with the fixtures `either_service` and `either_job` run over TLS as well:
    commands and ranks meet, wait, watch and restart as on a Unix socket.
    [security / With the secret]"""
    assert said(muster("key", "put", "phase", "warm up")) == ""
    assert said(muster("key", "get", "phase")) == "warm up\n"
    assert said(muster("key", "get", "--raw", "phase")) == "warm up"


def test_values_are_bytes(either_service, muster):
    """A value comes from stdin and has any bytes in it. It is stored and given back as it is;
    `--json` gives it as base64. [keys / One key] [muster key]"""
    value = bytes(range(256)) * 300
    muster("key", "put", "k", "-", input=value, text=False)
    assert muster("key", "get", "k", "--raw", text=False).stdout == value
    told = json.loads(said(muster("key", "get", "k", "--json")))
    assert told["key"] == "k" and told["revision"] > 0
    import base64

    assert base64.b64decode(told["value"]["base64"]) == value


def test_ages_in_json(service, muster):
    """A key is read, listed or watched. It comes with its age: how long ago it was written, or
    deleted, by the service's time. Every write begins it anew, also one that writes the same.
    [keys / How old a key is]"""
    old, age = "30ms", lambda text: json.loads(text)["age_ms"]
    said(muster("key", "put", "k", "v"))
    assert muster("key", "get", "late", "--wait", old).returncode == 124  # only time makes it older
    assert age(said(muster("key", "get", "k", "--json"))) >= 15
    said(muster("key", "put", "other", "v"))
    k, other = json.loads(said(muster("key", "ls", "--json")))
    assert k["age_ms"] >= other["age_ms"] + 15
    line = said(muster("key", "watch", "--count", "1", "--json"))
    assert json.loads(line)["key"] == "k" and age(line) >= 15


def test_a_value_that_looks_like_a_flag(service, muster):
    """A value looks like a flag. Behind `--` it is a value, and a negative number always is."""
    said(muster("key", "put", "k", "--", "--json"))
    assert said(muster("key", "get", "k")) == "--json\n"
    said(muster("key", "put", "k", "-5"))
    assert said(muster("key", "get", "k")) == "-5\n"


def test_a_missing_key_is_named(service, muster):
    """A key does not exist, or exists when it must not. A read that does not wait fails with
    ENOTFOUND; one line names the key and the exit code is 1. [keys / One key] [muster key]"""
    assert "'nobody'" in refused(muster("key", "get", "nobody"))


def test_get_waits(either_service, muster, spawn):
    """`get --wait` and `wait` wait for keys. They end when the keys are there; at the deadline
    with 124 and one line."""
    waiting = spawn("key", "get", "late", "--wait", "60s")
    said(muster("key", "put", "late", "here"))
    assert waiting.wait() == 0
    assert waiting.out.lines == ["here"]


def test_get_waits_no_longer_than_told(either_service, muster):
    """The key is not written in time. `get --wait` says that no client has written it.
    [keys / Waiting]"""
    line = refused(muster("key", "get", "never", "--wait", "50ms"), 124)
    assert "'never'" in line


def test_insert_refuses_what_exists(service, muster):
    """A key is inserted that exists. It is refused (EEXISTS) and keeps its value; the refusal
    gives the revision that is there. [keys / One key]"""
    said(muster("key", "insert", "k", "first"))
    assert "'k'" in refused(muster("key", "insert", "k", "second"))
    assert said(muster("key", "get", "k")) == "first\n"


def test_compare_and_set(either_service, muster):
    """`cas` meets another revision. It is refused; a revision that is no number is wrong usage."""
    first = said(muster("key", "cas", "k", "0", "one")).strip()
    assert "'k'" in refused(muster("key", "cas", "k", "0", "other"))
    second = said(muster("key", "cas", "k", first, "two")).strip()
    assert int(second) > int(first)
    assert said(muster("key", "get", "k")) == "two\n"
    refused(muster("key", "cas", "k", "soon", "x"), 2)


def test_add(either_service, muster):
    """`add` and `append` are used. They print the sum and the size."""
    assert said(muster("key", "add", "n")) == "1\n"
    assert said(muster("key", "add", "n", "41")) == "42\n"
    assert said(muster("key", "add", "n", "-50")) == "-8\n"
    said(muster("key", "put", "text", "many"))
    refused(muster("key", "add", "text"))
    refused(muster("key", "add", "n", "some"), 2)


def test_append(either_service, muster):
    """`add` and `append` are used. They print the sum and the size."""
    assert said(muster("key", "append", "log", "ab")) == "2\n"
    assert said(muster("key", "append", "log", "cd")) == "4\n"
    assert said(muster("key", "get", "log")) == "abcd\n"


def test_list_and_delete(either_service, muster):
    """Keys are listed in order, with values if asked, bytes that do not print escaped, and
    deleted; deleting an absent one is no error."""
    for name in ("run/b", "run/a", "other"):
        said(muster("key", "put", name, name + "\n"))
    assert said(muster("key", "ls")) == "other\nrun/a\nrun/b\n"
    assert said(muster("key", "ls", "run/", "--values")) == (
        "run/a\trun/a\\x0a\nrun/b\trun/b\\x0a\n"
    )
    assert [row["key"] for row in json.loads(said(muster("key", "ls", "--json")))] == [
        "other",
        "run/a",
        "run/b",
    ]
    said(muster("key", "del", "run/a", "run/b", "absent"))
    assert said(muster("key", "ls")) == "other\n"


def test_delete_a_prefix(either_service, muster):
    """`del --prefix` deletes all keys under a prefix and prints how many; other keys stay. An empty
    prefix is refused, in one line, because muster's own keys are below it. [muster key]
    [keys / Several keys]"""
    for name in ("run/b", "run/a", "runs", "other"):
        said(muster("key", "put", name, "x"))
    assert said(muster("key", "del", "--prefix", "run/")) == "2\n"
    assert said(muster("key", "ls")) == "other\nruns\n"
    assert said(muster("key", "del", "--prefix", "run/")) == "0\n"
    told = json.loads(said(muster("key", "del", "--prefix", "runs", "--json")))
    assert told == {"key": "runs", "deleted": 1}
    assert "must not be empty" in refused(muster("key", "del", "--prefix", ""))
    assert "one NAME" in refused(muster("key", "del", "--prefix", "a", "b"), 2)
    assert said(muster("key", "ls")) == "other\n"


def test_a_deleted_prefix_stays_deleted(serve, muster, tmp_path):
    """The service dies by SIGKILL after the deletion of a prefix and goes on from its journal. The
    keys are gone, and those beside them are there. [service / Its journal]"""
    service = serve("--journal", str(tmp_path / "journal"))
    for name in ("run/b", "run/a", "other"):
        said(muster("key", "put", name, "x"))
    assert said(muster("key", "del", "--prefix", "run/")) == "2\n"
    said(muster("key", "put", "run/a", "new"))
    service.kill()
    service.wait()
    serve("--journal", str(tmp_path / "journal"))
    assert said(muster("key", "ls", "--values")) == "other\tx\nrun/a\tnew\n"


def test_wait_for_several(either_service, muster, spawn):
    """A reader waits for several keys. It is answered when each has existed once, even if not all
    at the same time. [keys / Waiting]"""
    waiting = spawn("key", "wait", "a", "b", "--timeout", "60s")
    said(muster("key", "put", "a", ""))
    said(muster("key", "put", "b", ""))
    assert waiting.wait() == 0


def test_wait_for_more_than_a_service_takes(serve, muster):
    """A command waits for more keys than the service takes in one wait. It is refused with the
    limit. [Variables, limits and very many jobs]"""
    serve("--wait-keys-max", "300")
    said(muster("key", "put", "k", ""))
    said(muster("key", "wait", *["k"] * 300))
    assert "300" in refused(muster("key", "wait", *["k"] * 301))


def test_wait_gives_up(service, muster):
    """`get --wait` and `wait` wait for keys. They end when the keys are there; at the deadline
    with 124 and one line."""
    said(muster("key", "put", "a", ""))
    refused(muster("key", "wait", "a", "b", "--timeout", "50ms"), 124)


def test_watch_tells_what_is_and_what_comes(either_service, muster, spawn):
    """`watch` follows a prefix. It shows what is and what comes, ends after `--count` changes,
    and continues after a revision with `--after`."""
    said(muster("key", "put", "w/1", "one"))
    watch = spawn("key", "watch", "w/", "--count", "3")
    watch.out.wait_for("put w/1 one")
    said(muster("key", "put", "elsewhere", "x"))
    said(muster("key", "put", "w/2", "two"))
    watch.out.wait_for("put w/2 two")
    said(muster("key", "del", "w/1"))
    assert watch.wait() == 0
    assert [line.split(" ", 1)[1] for line in watch.out.lines] == [
        "put w/1 one",
        "put w/2 two",
        "delete w/1",
    ]


def test_watch_ends_when_nobody_can_be_told(service, muster, env):
    """The output of `key watch` can no longer be written. It ends with 1, and one line says why."""
    said(muster("key", "put", "k", "v"))
    with open("/dev/full", "w") as full:
        done = subprocess.run([MUSTER, "key", "watch"], env=env, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    assert done.stderr == "muster key: cannot write to stdout: No space left on device\n"


def test_watch_as_json_continues_after_a_revision(either_service, muster):
    """A watch continues after a revision it has seen. It shows only what changed since.
    [watches / Watches]"""
    said(muster("key", "put", "a", "1"))
    revision = json.loads(said(muster("key", "get", "a", "--json")))["revision"]
    said(muster("key", "put", "b", "2"))
    line = said(muster("key", "watch", "--count", "1", "--after", revision, "--json"))
    assert {k: v for k, v in json.loads(line).items() if k not in ("revision", "age_ms")} == {
        "key": "b",
        "value": "2",
        "event": "put",
    }


# ---- limits name themselves ----


def test_over_a_limit(serve, muster):
    """A key, a value or their number is over a limit. One line with the limit."""
    serve("--value-bytes-max", "1024", "--keys-max", "1", "--key-bytes-max", "16")
    assert refused(muster("key", "put", "k", "x" * 1025)).endswith(
        "put 'k': over --value-bytes-max of the service (a value): 1025 bytes asked for, at most "
        "1024; raise it at `muster serve`, or ask for less"
    )
    assert "--key-bytes-max of the service (a key): 17 bytes asked for, at most 16;" in refused(
        muster("key", "put", "x" * 17, "v")
    )
    said(muster("key", "put", "k", "x" * 1024))
    assert "--keys-max of the service (keys of one job): 2 asked for, at most 1;" in refused(
        muster("key", "put", "second", "v")
    )


# ---- finding the service ----


def test_none(muster):
    """No job runs on this machine. One line says so, and the exit code is 1. A socket that a dead
    service left is none. [Finding the job]"""
    assert "no job runs here" in refused(muster("key", "get", "k"))


def test_a_dead_one_is_none(service, muster):
    """No job runs on this machine. One line says so, and the exit code is 1. A socket that a dead
    service left is none. [Finding the job]"""
    service.kill()
    assert "no job runs here" in refused(muster("key", "get", "k"))


def test_one_is_the_one(serve, muster):
    """One job runs on this machine. A command without an address finds it. [Finding the job]"""
    serve("--job", "train")
    said(muster("key", "put", "k", "v"))
    assert said(muster("key", "get", "k", "-j", "train")) == "v\n"


def test_several_are_listed(serve, muster):
    """Several jobs run on this machine. They are listed with their processes, and `-j` says
    which. [Finding the job]"""
    one, other = serve("--job", "one"), serve("--job", "other")
    done = muster("key", "get", "k")
    assert done.returncode == 1
    first, *rest = done.stderr.splitlines()
    assert "2 jobs run here; -j selects one" in first
    assert rest == [f"  one (process {one.pid})", f"  other (process {other.pid})"]
    said(muster("key", "put", "k", "v", "-j", "other"))
    assert said(muster("key", "get", "k", "--job=other")) == "v\n"
    refused(muster("key", "get", "k", "-jone"))


def test_one_of_very_many(serve, muster, env):
    """Very many jobs run here and none is named. As many as fit are looked at, and the answer
    says that there are more. [Variables, limits and very many jobs]"""
    listeners = []
    for i in range(100):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{env['MUSTER_RUNTIME_DIR']}/a{i}.sock")
        listener.listen()
        listeners.append(listener)
    for job in ("0", "z"):
        serve("--job", job)
        said(muster("key", "put", "k", job, "-j", job))
    assert "64 or more jobs run here" in muster("key", "get", "k").stderr
    for listener in listeners:
        listener.close()


def test_one_that_is_not_there_is_told_with_those_that_are(serve, muster):
    """The named job is not there. The line names those that are. [Finding the job]"""
    serve("--job", "train")
    done = muster("key", "get", "k", "-j", "trian")
    assert done.returncode == 1
    assert "no service for job 'trian'; these run:" in done.stderr
    assert "  train (process" in done.stderr


def test_an_address_and_its_jobs(serve, muster, env):
    """An address is given by flag or environment. That service is asked, for the job that flag or
    environment names; the flag goes first. [Finding the job]"""
    service = serve("--addr", "127.0.0.1:0")
    said(muster("key", "put", "k", "a", "--addr", service.address, "-j", "one"))
    env["MUSTER_ADDR"] = service.address
    env["MUSTER_JOB"] = "other"
    said(muster("key", "put", "k", "b"))
    assert said(muster("key", "get", "k")) == "b\n"
    assert said(muster("key", "get", "k", "-j", "one")) == "a\n"


def test_an_address_where_nobody_is(muster, env):
    """No service is at the address. The line names the address. [Finding the job]"""
    address = f"unix:{env['MUSTER_RUNTIME_DIR']}/nobody.sock"
    assert address in refused(muster("key", "get", "k", "--addr", address))


def test_a_service_without_its_state_gives_up_who_waits(serve, muster, spawn):
    """The service is killed and another one, without its state, started while a command waits for
    a key. The command ends: its request was lost, and nothing of it is carried out twice.
    [sessions / The client's side]"""
    service = serve()
    said(muster("key", "put", "k", "v"))
    waiting = spawn("key", "watch")
    waiting.out.wait_for("put k v")  # so it has a session, which the next service knows nothing of
    service.kill()
    serve()
    assert waiting.wait() == 1
    assert "this process was replaced; the job continues without it" in waiting.log.lines[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_harms_nobody(either_service, muster, spawn, number):
    """A command is stopped or killed. No other client notices."""
    watch = spawn("key", "watch")
    said(muster("key", "put", "k", "v"))
    watch.out.wait_for("put k v")
    watch.signal(number)
    watch.wait()
    said(muster("key", "put", "k", "w"))
    assert said(muster("key", "get", "k")) == "w\n"


NOW = "300ms"
BELATED_S = 1.5  # less than the two seconds for names and a farewell
LIMITED = [
    ("key", "get", "k", "--wait", "60s"), ("key", "put", "k", "v"), ("key", "insert", "k", "v"),
    ("key", "cas", "k", "0", "v"), ("key", "add", "n"), ("key", "append", "k", "v"),
    ("key", "del", "k", "l"), ("key", "ls"), ("key", "wait", "k"), ("key", "watch"),
    ("barrier", "b", "-n", "2"), ("round", "r", "-n", "2"),
]


def ended_in_time(processes, began, seconds, lateness):
    """Each at 124, and no later than that, by this clock; on a busy machine, than it lets a process."""
    for process in processes:
        code = process.wait()
        assert code == 124, (process.process.args, code, process.log.lines)
    took = time.monotonic() - began
    assert took < seconds + lateness.spare_s(), (took, lateness.so_far_s())


def test_a_timeout_holds_whatever_the_service_does(serve, muster, spawn, lateness):
    """`--timeout` is given, and the service stands still, before the command connects or later.
    At that time, or half a second later, it ends with 124 and one line; of every command that
    has the flag."""
    assert {words[1] for words in LIMITED if words[0] == "key"} == set(
        re.findall(r"^  ([a-z]+) +(?:[A-Z\[])", muster("key", "--help").stdout, re.M))
    having = {command for command in re.findall(r"^  (\w+)  ", muster("--help").stdout, re.M)
              if "--timeout DURATION" in muster(command, "--help").stdout}
    assert having == {words[0] for words in LIMITED}
    service = serve()
    service.signal(signal.SIGSTOP)
    began = time.monotonic()
    limited = [spawn(*words, "--timeout", NOW) for words in LIMITED]
    ended_in_time(limited, began, 0.3 + 2 * BELATED_S, lateness)  # a dozen of them
    for one in limited:
        (line,) = one.log.lines
        after = float(re.search(r"no service at .* after (\d+\.\d) s \(", line)[1])
        assert after < 3 + lateness.spare_s(), line


def test_a_timeout_holds_where_the_service_stops_in_the_middle(serve, spawn, lateness):
    """`--timeout` is given, and the service stands still, before the command connects or later.
    At that time, or half a second later, it ends with 124 and one line; of every command that
    has the flag."""
    service = serve("--log-level", "debug")
    waiting = [words for words in LIMITED if words[1] in ("get", "wait", "watch", "b", "r")]
    assert len(waiting) == 5
    began = time.monotonic()
    there = [spawn(*words, "--timeout", "4s") for words in waiting]
    service.log.wait_for("connection-accepted", count=len(there))
    service.signal(signal.SIGSTOP)
    ended_in_time(there, began, 4 + BELATED_S, lateness)


def test_a_timeout_holds_while_a_value_is_read(service, muster, spawn, lateness):
    """`--timeout` is given, and stdin does not end, from which a value is read. The command ends
    with 124, and nothing is written."""
    began = time.monotonic()
    reading = spawn("key", "put", "k", "-", "--timeout", NOW, stdin=subprocess.PIPE)
    ended_in_time([reading], began, 0.3 + BELATED_S, lateness)
    assert reading.log.lines == ["muster key: no end of the value on stdin within --timeout; nothing is written"]
    refused(muster("key", "get", "k"))
    assert said(muster("key", "put", "k", "-", "--timeout", "60s", input="v")) == ""
    assert said(muster("key", "get", "k")) == "v\n"


# ---- the help ----


def columns_of(muster, env, *words, **variables):
    done = muster(*words, env={**env, **variables})
    assert done.returncode == 0 and done.stdout.startswith("usage: ")
    return max(map(len, done.stdout.splitlines()))


def test_the_help_fits_the_terminal(muster, env):
    """A user asks for help. No line is longer than it must be: the terminal's width, 80 columns
    where that is not known, 100 at most; `help` before the name of a command is `--help`
    behind it."""
    commands = re.findall(r"^  (\w+) ", muster("help").stdout, re.M)
    assert len(commands) >= 12
    for words in [("--help",), *[(command, "--help") for command in commands]]:
        assert columns_of(muster, env, *words) <= 80
        assert columns_of(muster, env, *words, COLUMNS="100") <= 100
        assert columns_of(muster, env, *words, COLUMNS="60") <= 80  # a title or an example
        assert columns_of(muster, env, *words, COLUMNS="300") <= 100
    assert columns_of(muster, env, "run", "--help", COLUMNS="120") > 90


def test_the_help_of_a_command_is_found_both_ways(muster):
    """A user asks for help. No line is longer than it must be: the terminal's width, 80 columns
    where that is not known, 100 at most; `help` before the name of a command is `--help`
    behind it."""
    assert muster("help", "run").stdout == muster("run", "--help").stdout
    done = muster("help", "rnu")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "muster: unknown command 'rnu'; the nearest is run ('muster --help' lists all)\n"


def test_a_host_that_nobody_knows_is_told_so(muster, env):
    """`--addr` or `MUSTER_ADDR` names an unknown host. One line says that; not that it needs a
    secret, as for a known one elsewhere."""
    for given in (("--addr", "no-such-host.invalid:7777"), ("-j", "x")):
        done = muster("key", "ls", *given, env={**env, "MUSTER_ADDR": "no-such-host.invalid:7777"})
        assert done.returncode == 1
        assert done.stderr.startswith("muster key: open: the host of 'no-such-host.invalid:7777' is not "
                                      "known: "), done.stderr
        assert "secret" not in done.stderr
    assert "needs a secret" in muster("key", "ls", "--addr", "10.1.1.1:7777").stderr
