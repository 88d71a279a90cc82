# SPDX-License-Identifier: Apache-2.0
"""`muster key`, and how a command finds its service."""

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
    assert said(muster("key", "put", "phase", "warm up")) == ""
    assert said(muster("key", "get", "phase")) == "warm up\n"
    assert said(muster("key", "get", "--raw", "phase")) == "warm up"


def test_values_are_bytes(either_service, muster):
    value = bytes(range(256)) * 300
    muster("key", "put", "k", "-", input=value, text=False)
    assert muster("key", "get", "k", "--raw", text=False).stdout == value
    told = json.loads(said(muster("key", "get", "k", "--json")))
    assert told["key"] == "k" and told["revision"] > 0
    import base64

    assert base64.b64decode(told["value"]["base64"]) == value


def test_ages_in_json(service, muster):
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
    said(muster("key", "put", "k", "--", "--json"))
    assert said(muster("key", "get", "k")) == "--json\n"
    said(muster("key", "put", "k", "-5"))
    assert said(muster("key", "get", "k")) == "-5\n"


def test_a_missing_key_is_named(service, muster):
    assert "'nobody'" in refused(muster("key", "get", "nobody"))


def test_get_waits(either_service, muster, spawn):
    waiting = spawn("key", "get", "late", "--wait", "60s")
    said(muster("key", "put", "late", "here"))
    assert waiting.wait() == 0
    assert waiting.out.lines == ["here"]


def test_get_waits_no_longer_than_told(either_service, muster):
    line = refused(muster("key", "get", "never", "--wait", "50ms"), 124)
    assert "'never'" in line


def test_insert_refuses_what_exists(service, muster):
    said(muster("key", "insert", "k", "first"))
    assert "'k'" in refused(muster("key", "insert", "k", "second"))
    assert said(muster("key", "get", "k")) == "first\n"


def test_compare_and_set(either_service, muster):
    first = said(muster("key", "cas", "k", "0", "one")).strip()
    assert "'k'" in refused(muster("key", "cas", "k", "0", "other"))
    second = said(muster("key", "cas", "k", first, "two")).strip()
    assert int(second) > int(first)
    assert said(muster("key", "get", "k")) == "two\n"
    refused(muster("key", "cas", "k", "soon", "x"), 2)


def test_add(either_service, muster):
    assert said(muster("key", "add", "n")) == "1\n"
    assert said(muster("key", "add", "n", "41")) == "42\n"
    assert said(muster("key", "add", "n", "-50")) == "-8\n"
    said(muster("key", "put", "text", "many"))
    refused(muster("key", "add", "text"))
    refused(muster("key", "add", "n", "some"), 2)


def test_append(either_service, muster):
    assert said(muster("key", "append", "log", "ab")) == "2\n"
    assert said(muster("key", "append", "log", "cd")) == "4\n"
    assert said(muster("key", "get", "log")) == "abcd\n"


def test_list_and_delete(either_service, muster):
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


def test_wait_for_several(either_service, muster, spawn):
    waiting = spawn("key", "wait", "a", "b", "--timeout", "60s")
    said(muster("key", "put", "a", ""))
    said(muster("key", "put", "b", ""))
    assert waiting.wait() == 0


def test_wait_for_more_than_a_service_takes(serve, muster):
    serve("--wait-keys-max", "300")
    said(muster("key", "put", "k", ""))
    said(muster("key", "wait", *["k"] * 300))
    assert "300" in refused(muster("key", "wait", *["k"] * 301))


def test_wait_gives_up(service, muster):
    said(muster("key", "put", "a", ""))
    refused(muster("key", "wait", "a", "b", "--timeout", "50ms"), 124)


def test_watch_tells_what_is_and_what_comes(either_service, muster, spawn):
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
    said(muster("key", "put", "k", "v"))
    with open("/dev/full", "w") as full:
        done = subprocess.run([MUSTER, "key", "watch"], env=env, stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=WAIT_S)
    assert done.returncode == 1
    assert done.stderr == "muster key: cannot write to stdout: No space left on device\n"


def test_watch_as_json_continues_after_a_revision(either_service, muster):
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
    assert "no job runs here" in refused(muster("key", "get", "k"))


def test_a_dead_one_is_none(service, muster):
    service.kill()
    assert "no job runs here" in refused(muster("key", "get", "k"))


def test_one_is_the_one(serve, muster):
    serve("--job", "train")
    said(muster("key", "put", "k", "v"))
    assert said(muster("key", "get", "k", "-j", "train")) == "v\n"


def test_several_are_listed(serve, muster):
    one, other = serve("--job", "one"), serve("--job", "other")
    done = muster("key", "get", "k")
    assert done.returncode == 1
    first, *rest = done.stderr.splitlines()
    assert "2 jobs run here, -j says which" in first
    assert rest == [f"  one (process {one.pid})", f"  other (process {other.pid})"]
    said(muster("key", "put", "k", "v", "-j", "other"))
    assert said(muster("key", "get", "k", "--job=other")) == "v\n"
    refused(muster("key", "get", "k", "-jone"))


def test_one_of_very_many(serve, muster, env):
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
    serve("--job", "train")
    done = muster("key", "get", "k", "-j", "trian")
    assert done.returncode == 1
    assert "no service for job 'trian'; these run:" in done.stderr
    assert "  train (process" in done.stderr


def test_an_address_and_its_jobs(serve, muster, env):
    service = serve("--addr", "127.0.0.1:0")
    said(muster("key", "put", "k", "a", "--addr", service.address, "-j", "one"))
    env["MUSTER_ADDR"] = service.address
    env["MUSTER_JOB"] = "other"
    said(muster("key", "put", "k", "b"))
    assert said(muster("key", "get", "k")) == "b\n"
    assert said(muster("key", "get", "k", "-j", "one")) == "a\n"


def test_an_address_where_nobody_is(muster, env):
    address = f"unix:{env['MUSTER_RUNTIME_DIR']}/nobody.sock"
    assert address in refused(muster("key", "get", "k", "--addr", address))


def test_a_service_without_its_state_gives_up_who_waits(serve, muster, spawn):
    """It cannot know what became of their requests, so nothing is carried out a second time."""
    service = serve()
    said(muster("key", "put", "k", "v"))
    waiting = spawn("key", "watch")
    waiting.out.wait_for("put k v")  # so it has a session, which the next service knows nothing of
    service.kill()
    serve()
    assert waiting.wait() == 1
    assert "given up" in waiting.log.lines[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_command_harms_nobody(either_service, muster, spawn, number):
    watch = spawn("key", "watch")
    said(muster("key", "put", "k", "v"))
    watch.out.wait_for("put k v")
    watch.signal(number)
    watch.wait()
    said(muster("key", "put", "k", "w"))
    assert said(muster("key", "get", "k")) == "w\n"


NOW = "300ms"
BELATED_S = 1.5  # a slow machine, and less than the two seconds for names and a farewell
LIMITED = [
    ("key", "get", "k", "--wait", "60s"), ("key", "put", "k", "v"), ("key", "insert", "k", "v"),
    ("key", "cas", "k", "0", "v"), ("key", "add", "n"), ("key", "append", "k", "v"),
    ("key", "del", "k", "l"), ("key", "ls"), ("key", "wait", "k"), ("key", "watch"),
    ("barrier", "b", "-n", "2"), ("round", "r", "-n", "2"),
]


def ended_in_time(processes, began, seconds):
    """Each at 124, and no later than that, by this clock."""
    for process in processes:
        code = process.wait()
        assert code == 124, (process.process.args, code, process.log.lines)
    assert time.monotonic() - began < seconds


def test_a_timeout_holds_whatever_the_service_does(serve, muster, spawn):
    """Each command that has one, at a service that stands still before it connects."""
    assert {words[1] for words in LIMITED if words[0] == "key"} == set(
        re.findall(r"^  ([a-z]+) +(?:[A-Z\[])", muster("key", "--help").stdout, re.M))
    having = {command for command in re.findall(r"^  (\w+)  ", muster("--help").stdout, re.M)
              if "--timeout DURATION" in muster(command, "--help").stdout}
    assert having == {words[0] for words in LIMITED}
    service = serve()
    service.signal(signal.SIGSTOP)
    began = time.monotonic()
    limited = [spawn(*words, "--timeout", NOW) for words in LIMITED]
    ended_in_time(limited, began, 0.3 + 2 * BELATED_S)  # a dozen of them
    for one in limited:
        (line,) = one.log.lines
        assert re.search(r"no service at .* after [0-2]\.\d s \(", line), line


def test_a_timeout_holds_where_the_service_stops_in_the_middle(serve, spawn):
    service = serve("--log-level", "debug")
    waiting = [words for words in LIMITED if words[1] in ("get", "wait", "watch", "b", "r")]
    assert len(waiting) == 5
    began = time.monotonic()
    there = [spawn(*words, "--timeout", "2s") for words in waiting]
    service.log.wait_for("connection-accepted", count=len(there))
    service.signal(signal.SIGSTOP)
    ended_in_time(there, began, 2 + BELATED_S)


def test_a_timeout_holds_while_a_value_is_read(service, muster, spawn):
    began = time.monotonic()
    reading = spawn("key", "put", "k", "-", "--timeout", NOW, stdin=subprocess.PIPE)
    ended_in_time([reading], began, 0.3 + BELATED_S)
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
    """Nobody says how wide it is: 80. No line is longer than it must be, of any command."""
    commands = re.findall(r"^  (\w+) ", muster("help").stdout, re.M)
    assert len(commands) >= 12
    for words in [("--help",), *[(command, "--help") for command in commands]]:
        assert columns_of(muster, env, *words) <= 80
        assert columns_of(muster, env, *words, COLUMNS="100") <= 100
        assert columns_of(muster, env, *words, COLUMNS="60") <= 80  # a title or an example
        assert columns_of(muster, env, *words, COLUMNS="300") <= 100
    assert columns_of(muster, env, "run", "--help", COLUMNS="120") > 90


def test_the_help_of_a_command_is_found_both_ways(muster):
    assert muster("help", "run").stdout == muster("run", "--help").stdout
    done = muster("help", "rnu")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "muster: unknown command 'rnu'; the nearest is run ('muster --help' lists all)\n"


def test_a_host_that_nobody_knows_is_told_so(muster, env):
    """Not that it needs a secret, which one that is known and elsewhere does."""
    for given in (("--addr", "no-such-host.invalid:7777"), ("-j", "x")):
        done = muster("key", "ls", *given, env={**env, "MUSTER_ADDR": "no-such-host.invalid:7777"})
        assert done.returncode == 1
        assert done.stderr.startswith("muster key: open: the host of 'no-such-host.invalid:7777' is not "
                                      "known: "), done.stderr
        assert "secret" not in done.stderr
    assert "needs a secret" in muster("key", "ls", "--addr", "10.1.1.1:7777").stderr
