# SPDX-License-Identifier: Apache-2.0
"""`muster round`: processes that are members of nothing tell each other values.

behaviour: program / muster round
"""

import json
import signal
import subprocess

import pytest

from conftest import MUSTER, WAIT_S


def come(spawn, name, number, *args):
    return spawn("round", name, "-n", number, *args)


def together(spawn, name, values, *args):
    """One process for each value; what each of them said."""
    all_of_them = [come(spawn, name, len(values), "--value", value, *args) for value in values]
    assert [one.wait() for one in all_of_them] == [0] * len(values), all_of_them[0].log.lines
    assert all(one.log.lines == [] for one in all_of_them)
    return [one.out.lines for one in all_of_them]


@pytest.mark.parametrize("reduce, values, line", [
    ("min", [3, -7, 12, 0], "-7"),
    ("max", [3, -7, 12, 0], "12"),
    ("sum", [3, -7, 12, 0], "8"),
    ("sum", [2**63 - 1, -(2**63), 0, 1], "0"),
    ("equal", ["v 1.2"] * 4, "v 1.2"),
    ("xor", [5, 3, 0, -1], "-7"),
    ("min-double", [0.5, "-1e-3", 7, "inf"], "-0.001"),
    ("max-double", [0.5, "nan", 7, "inf"], "nan"),
])
def test_all_are_told_the_one_result(either_service, spawn, reduce, values, line):
    """As many come to `muster round` as were named, each with a value. All get the one result:
    the least, the largest, the sum, the common text, or a line for each; again and again under
    one name."""
    assert together(spawn, "step", values, "--reduce", reduce) == [[line]] * 4


def test_gather_tells_everyone_everyones(either_service, spawn):
    """As many come to `muster round` as were named, each with a value. All get the one result:
    the least, the largest, the sum, the common text, or a line for each; again and again under
    one name."""
    four = [come(spawn, "hosts", 4, "--index", i, "--value", f"host {i}") for i in (2, 0, 3, 1)]
    assert [one.wait() for one in four] == [0] * 4
    assert all(one.out.lines == [f"{i} host {i}" for i in range(4)] for one in four)


def test_doubles_are_added_in_the_order_of_ranks(either_service, spawn):
    """Numbers are added by `muster round --reduce sum-double`. The result is the sum in the order of
    the places, whatever the order of arrival, with all its digits."""
    values = [0.1, 1e16, 0.2, -1e16]
    in_order = ((values[0] + values[1]) + values[2]) + values[3]
    four = [come(spawn, "loss", 4, "--index", i, "--reduce", "sum-double", "--value", values[i])
            for i in (3, 1, 2, 0)]
    assert [one.wait() for one in four] == [0] * 4
    lines = [one.out.lines for one in four]
    assert lines[0] == lines[1] == lines[2] == lines[3]
    assert [float(line) for line in lines[0]] == [in_order]


def test_one_value_goes_to_all(either_service, spawn):
    """One value goes to all by `muster round --reduce broadcast`: that of rank 0, or of `--root`. A
    root that is no rank is refused with the ranks there are."""
    three = [come(spawn, "token", 3, "--index", i, "--reduce", "broadcast", "--root", 1,
                  "--value", f"of {i}") for i in (2, 0, 1)]
    assert [one.wait() for one in three] == [0] * 3
    assert [one.out.lines for one in three] == [["of 1"]] * 3
    alone = come(spawn, "alone", 1, "--reduce", "broadcast", "--root", 1)
    assert alone.wait() == 1
    assert alone.log.lines == [
        "muster round: round 'alone': the root is rank 1, but the ranks are 0 to 0"]


def test_four_shells(service, env):
    """Scripts call `muster round`. It works from a shell's background and in `$( )`, and as JSON."""
    script = f"""
        for i in 0 1 2; do {MUSTER} round port -n 4 --reduce max --value $i >/dev/null & done
        echo "most: $({MUSTER} round port -n 4 --reduce max --value 3)"
        wait
    """
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True,
                          timeout=WAIT_S)
    assert (done.stdout, done.stderr) == ("most: 3\n", "")


def test_as_json(service, muster):
    """Scripts call `muster round`. It works from a shell's background and in `$( )`, and as JSON."""
    said = lambda *args: json.loads(muster("round", "me", "-n", 1, "--json", *args).stdout)
    common = {"round": "me", "rank": 0, "size": 1, "lost": 0}
    assert said("--value", "a b") == {**common, "reduce": "gather",
                                      "values": [{"rank": 0, "value": "a b"}]}
    assert said("--reduce", "sum", "--value", "-5") == {**common, "reduce": "sum", "value": -5}
    assert said("--reduce", "equal", "--value", "x") == {**common, "reduce": "equal", "value": "x"}
    assert said("--reduce", "equal") == {**common, "reduce": "equal", "value": ""}
    for text, value in ("0.1", 0.1), ("inf", "inf"):
        assert said("--reduce", "sum-double", "--value", text) == {
            **common, "reduce": "sum-double", "value": value}


def test_again_and_again(either_service, spawn):
    """As many come to `muster round` as were named, each with a value. All get the one result:
    the least, the largest, the sum, the common text, or a line for each; again and again under
    one name."""
    for number in range(3):
        assert together(spawn, "step", [number, number], "--reduce", "sum") == [[str(2 * number)]] * 2


def test_who_is_missing_is_told_at_the_deadline(either_service, spawn):
    """Not all come to `muster round` in time, or one that has come contributes nothing. It ends
    with 124 and one line that says which are missing."""
    three = [come(spawn, "late", 4, "--index", i, "--timeout", "60s") for i in (0, 1)]
    for index in 0, 1:
        either_service.log.wait_for("round/late", f"member-ready #{index}")
    hasty = come(spawn, "late", 4, "--index", 2, "--timeout", "6s")
    assert hasty.wait() == 124
    (line,) = hasty.log.lines
    assert line.startswith("muster round: ") and "round/late" in line
    assert "3 of 4 ranks are ready; missing #3 (never started)" in line
    for one in three:
        one.kill()


def test_who_came_and_contributes_nothing_is_named(serve, spawn):
    """Not all come to `muster round` in time, or one that has come contributes nothing. It ends
    with 124 and one line that says which are missing."""
    service = serve("--lease", "60s")
    frozen = come(spawn, "ice", 2, "--index", 1)
    service.log.wait_for("round/ice", "member-ready #1")
    frozen.signal(signal.SIGSTOP)
    hasty = come(spawn, "ice", 2, "--index", 0, "--timeout", "6s")
    assert hasty.wait() == 124
    (line,) = hasty.log.lines
    assert line.startswith("muster round: round 'ice': 1 of 2 arrived"), line
    assert "missing rank 1 (#1" in line, line
    frozen.kill()


def test_different_texts_are_no_agreement(service, spawn):
    """The texts of `muster round` differ, or a sum is beyond 64 bits. All end with 1 and one
    line."""
    two = [come(spawn, "same", 2, "--reduce", "equal", "--value", value) for value in "ab"]
    assert [one.wait() for one in two] == [1, 1]
    for one in two:
        (line,) = one.log.lines
        assert line.startswith("muster round: round 'same': the contributions differ"), line


def test_a_sum_beyond_64_bits(service, spawn):
    """The texts of `muster round` differ, or a sum is beyond 64 bits. All end with 1 and one
    line."""
    two = [come(spawn, "big", 2, "--reduce", "sum", "--value", value) for value in (2**63 - 1, 1)]
    assert [one.wait() for one in two] == [1, 1]
    assert all("round 'big': " in line for one in two for line in one.log.lines)


def test_who_wants_something_else_is_refused_alone(service, spawn):
    """A caller of `muster round` wants another reduction than the first. It alone is refused."""
    two = [come(spawn, "odd", 2, "--timeout", "5s", "--reduce", reduce, "--value", "1")
           for reduce in ("sum", "max")]
    assert sorted(one.wait() for one in two) in ([1, 1], [1, 124])
    refused = [one for one in two if one.process.returncode == 1]
    assert any("other parameters than the first caller's" in line
               for one in refused for line in one.log.lines)


def test_rounds_and_barriers_are_apart(service, muster, spawn):
    """A round and a barrier have one name. They are independent."""
    waiting = come(spawn, "a", 2)
    assert muster("barrier", "a", "-n", "2", "--timeout", "4s").returncode == 124
    assert muster("round", "a", "-n", "2").returncode == 0
    assert waiting.wait() == 0


@pytest.mark.parametrize("words, line", [
    ((), "usage: muster round NAME -n NUMBER [--reduce gather|min|max|sum|equal|...] [--value VALUE]"),
    (("a",), "usage: muster round NAME -n NUMBER [--reduce gather|min|max|sum|equal|...] "
             "[--value VALUE]"),
    (("a", "-n", 2, "--reduce", "sum"),
     "--reduce sum takes a whole number of 64 bits, not ''"),
    (("a", "-n", 2, "--reduce", "max", "--value", "1.5"),
     "--reduce max takes a whole number of 64 bits, not '1.5'"),
    (("a", "-n", 2, "--reduce", "min", "--value", "9223372036854775808"),
     "--reduce min takes a whole number of 64 bits, not '9223372036854775808'"),
    (("a", "-n", 2, "--index", 2), "--index 2 is none of the places 0 to 1"),
    (("a", "-n", 2, "--reduce", "product"),
     "setting reduce: 'product' is not one of gather, min, max, sum, equal, xor, "
     "sum-double, min-double, max-double, broadcast"),
    (("a", "-n", 2, "--reduce", "min-double", "--value", "1.5x"),
     "--reduce min-double takes a number, not '1.5x'"),
])
def test_wrong_words(muster, words, line):
    """The words of `muster round` make no sense. It prints one line and ends with 2."""
    done = muster("round", *words)
    assert (done.returncode, done.stderr) == (2, f"muster round: {line}\n")


def test_a_rank_may_call_it(service, muster, spawn, env):
    """A rank of a job calls `muster round`. What the launcher told the rank is not taken for the
    command's own place."""
    # What the launcher tells its ranks is not the command's place.
    env.update(MUSTER_INDEX="7", MUSTER_SIZE="8", MUSTER_MIN_SIZE="8", MUSTER_PAGE_FD="9",
               MUSTER_JOB="train", MUSTER_ADDR=service.address)
    waiting = come(spawn, "a", 2)
    assert muster("round", "a", "-n", "2").returncode == 0
    assert waiting.wait() == 0
