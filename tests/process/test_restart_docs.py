# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/restart.md name what there is, and all of it: fields of the options, settings
with their defaults, and every parameter of the Wrapper that a reader may come from.

behaviour: restart / Options, callbacks and clients
"""

import re

from conftest import ROOT

PAGE = (ROOT / "docs" / "restart.md").read_text()
INCLUDE = ROOT / "include" / "muster"
HEADERS = "".join((INCLUDE / f"{name}.h").read_text() for name in ("restart", "assignment", "client", "status"))

# The parameters of inprocess.Wrapper, and what else its guide has a reader use.
WRAPPER = {
    "store_factory", "store_kwargs", "initialize", "abort", "finalize", "health_check",
    "rank_assignment", "rank_filter", "monitor_thread_interval", "monitor_process_interval",
    "heartbeat_interval", "progress_watchdog_interval", "soft_timeout", "hard_timeout",
    "heartbeat_timeout", "barrier_timeout", "completion_timeout", "last_call_wait",
    "termination_grace_time", "monitor_process_logfile", "monitor_process_pidfile", "enabled",
    "completion", "terminate",
}
# Of the options, but no setting of a run: how the structure grows, and what has a section of its own.
NOT_IN_A_TABLE = {"size"}
UNITS = {"ms": 1, "s": 1000, "m": 60000}


def table(title):
    section = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = [re.split(r"\s*\|\s*", line)[1:-1] for line in re.findall(r"^\|.*\|$", section, re.M)]
    return rows[2:]  # without the head


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def fields():
    """The names in struct muster_restart_options."""
    body = HEADERS.split("struct muster_restart_options {", 1)[1].split("\n};", 1)[0]
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    found = set()
    for declaration in body.split(";"):
        found |= {name.strip(" *\n") for name in re.sub(r"^\s*(const )?(struct )?\w+", "", declaration)
                  .split(",")} - {""}
    return found


def settings():
    """{name: (scope, unit, default)}"""
    rows = re.findall(r'^X\((\w+), (\w+), (\w+), ("[^"]*"|[^,]+),',
                      (ROOT / "src" / "proto" / "settings.def").read_text(), re.M)
    return {name: (scope, unit, default) for scope, name, unit, default in rows}


def variable(cell):
    """The setting that `MUSTER_NAME` or `MUSTER_NAME=0` means."""
    return cell.removeprefix("MUSTER_").split("=")[0].lower()


def test_fields_are_found():
    """The guide on restart names options, settings, defaults, rules and the parameters of the
    Wrapper that a reader comes from. Each is there, with that default, and none is missing."""
    assert {"size", "settle_ms", "soft_timeout_ms", "hard_timeout_ms", "precondition", "abort",
            "health_command", "assignment", "disabled"} <= fields()
    assert len(fields()) == 27


def test_every_field_and_setting_of_the_table_is_there():
    """Every field and setting of the guide's table is in the headers."""
    for field, environment, _, _ in table("Settings"):
        for name in quoted(field):
            outer, _, inner = name.partition(".")
            assert outer in fields(), name
            assert not inner or re.search(rf"\b{inner};", HEADERS), name
        for name in quoted(environment):
            assert variable(name) in settings(), name


def test_every_field_and_setting_is_in_the_table():
    """Every field and setting of the headers is in the guide's table."""
    rows = table("Settings")
    others = table("Coming from the in-process Wrapper of nvidia-resiliency-ext")
    listed = {name.split(".")[0] for row in rows for name in quoted(row[0])}
    listed |= {name for row in others for name in quoted(row[1])}
    listed |= {name for row in table("One attempt") for name in quoted(row[0])}
    assert fields() - NOT_IN_A_TABLE <= listed
    variables = {variable(name) for row in rows for name in quoted(row[1])}
    assert {name for name, (scope, _, _) in settings().items() if scope == "RESTART"} <= variables


def test_the_defaults_of_the_table_are_those_of_the_settings():
    """The defaults of the guide's table are those of the settings."""
    compared = 0
    for _, environment, default, _ in table("Settings"):
        for name in quoted(environment):
            _, unit, value = settings()[variable(name)]
            told = re.fullmatch(r"(\d+)(?: (s|ms|m))?", default)
            if told:
                compared += 1
                assert int(told[1]) * UNITS[told[2] or "ms"] == int(value), name
            elif default == "none" or default == "empty":
                compared += 1
                assert value in ("0", '""'), name
    assert compared >= 12


def test_every_parameter_of_the_wrapper_has_its_row():
    """Every parameter of the Wrapper has its row in the guide."""
    rows = table("Coming from the in-process Wrapper of nvidia-resiliency-ext")
    there = {name for row in rows for name in quoted(row[0])}
    assert WRAPPER <= there
    known = fields() | set(settings())
    for first, here, _, why in rows:
        if here == "gone":
            assert why, f"{first} is gone, and nothing says why"
            continue
        names = quoted(here)
        assert names, first
        for name in names:
            name = re.sub(r"=\d$", "", name)
            if name.startswith("MUSTER_") and variable(name) in settings():
                continue
            if name.startswith("_"):
                name = "muster_restart" + name
            assert name in known or re.search(rf"\b{re.escape(name)}\b", HEADERS), name


def test_every_rule_is_in_the_page_and_in_the_header():
    """Every rule is in the guide and in the header, as the options of restart are compared."""
    source = (ROOT / "src" / "restart" / "shell" / "options.c").read_text()
    (table_of_rules,) = re.findall(r"rules\[\] = \{(.*?)\};", source, re.S)
    checks = re.findall(r"\{(\w+), (\w+), (\w+)\}", table_of_rules)
    assert len(checks) == 6
    names = {"SOFT": "soft_timeout", "HARD": "hard_timeout", "BARRIER": "barrier_timeout",
             "HEALTH": "health_timeout", "SETTLE": "settle", "GRACE": "grace"}
    plain = re.sub(r"[`\s*]+", " ", PAGE)
    header = re.sub(r"[\s*]+", " ", HEADERS)
    for less, besides, more in checks:
        rule = names[less] + (f" + {names[besides]}" if besides != "SPANS" else "") + f" < {names[more]}"
        # hard_timeout < barrier_timeout follows from the one with grace
        if rule != "hard_timeout < barrier_timeout":
            assert rule in plain, rule
            assert rule in header, rule
