# SPDX-License-Identifier: Apache-2.0
"""The numbered scenarios of a restart that could differ in Python: python_scenarios.py.

behaviour: python / The scenarios of a restart
"""

import pathlib
import sys

import pytest

from running import Run
from test_python import under
from test_python_restart import ends, env, pytestmark, said  # noqa: F401 (pytest finds them)

RANK = pathlib.Path(__file__).parent / "python_scenarios.py"
REPLACED = ("--max-restarts", 1)


@pytest.fixture
def ran(spawn, muster, tmp_path):
    """ran(scenario, size, flags...): all of its ranks say that all was well; the run, for its lines."""

    def run(scenario, size=2, *flags):
        flags = (*flags, "--min-size", size) if flags else ("--max-restarts", 0)
        job = Run(
            spawn, muster, size, *flags, rank=(*under(), sys.executable, RANK, scenario, tmp_path)
        )
        ends(job)
        assert len(said(job, "well")) == size
        return job

    return run


def attempts(job):
    return {line["attempt"] for line in said(job, "entered")}


@pytest.mark.parametrize(
    "scenario",
    [
        "the_argument_and_the_result",
        "the_view_and_nested_sections",
        "a_precondition_fails",
        "one_run_after_the_other",
        "nothing_is_left",
        "three_failures",
        "a_state_is_a_copy",
        "the_key_space_of_the_generation",
    ],
)
def test_one_process_by_itself(ran, scenario):
    """Scenarios 1, 2, 5, 6, 7, 9, 19 and 20. Arguments are passed again as an attempt left them, and the
    result is returned; view, pings and sections work; what a `precondition` raises is raised,
    without an entry; a run after another one, or after one that was given up, begins at attempt 0;
    a run leaves no thread, descriptor, handler or variable; three failures are attempts 0 to 3; a
    State is a copy; keys of the generation are new in each."""
    ran(scenario)


def test_a_failing_abort_is_logged(ran):
    """Scenario 12. An `abort` callback raises. It is logged, and all begin again."""
    job = ran("abort_fails")
    assert job.log.having("OSError: abort is worn out")


def test_an_assignment_that_raises(ran):
    """Scenario 16. The function that assigns ranks raises at the second attempt. The run ends on all
    ranks after one entry; on the one that called it the exception is the error's cause."""
    job = ran("the_assignment_fails")
    assert sorted(line["cause"] for line in said(job, "raised")) == ["LookupError", "NoneType"]


def test_two_ranks_fail_at_once(ran):
    """Scenario 33. Two ranks raise at the same time, with a `settle`. There is one restart, and both
    are in the record."""
    assert attempts(ran("two_fail_at_once", 3)) == {"0", "1"}


def test_all_ranks_fail_at_once(ran):
    """Scenario 45. All ranks raise. There is one restart, and all are there."""
    job = ran("all_fail", 3)
    assert attempts(job) == {"0", "1"}
    assert len(said(job, "entered", "attempt=1", "size=3")) == 3


def test_a_rank_fails_while_another_finalizes(ran):
    """Scenario 34. A rank raises when another is in `finalize` already. That is the same restart."""
    assert attempts(ran("one_fails_while_others_finalize", 3)) == {"0", "1"}


def test_pings_that_stop(ran):
    """Scenario 47. The function pings once and works on, its interpreter being alive. It is found."""
    job = ran("pings_once")
    assert any("SOFT_TIMEOUT" in line["faults"] for line in said(job, "entered", "attempt=1"))


def test_a_handler_of_sigterm_cleans_up(ran):
    """Scenario 51. A rank is ended at the hard timeout, and Python has a handler of SIGTERM. It comes
    to its end before the others are in the function again."""
    assert attempts(ran("a_handler_of_sigterm", 2, *REPLACED)) == {"0", "1"}


def test_an_exception_in_a_section(ran):
    """Scenario 54. The function raises in a section without a limit. In the next attempt it is in no
    section: it hangs, and is found."""
    job = ran("an_exception_in_a_section")
    assert any("SOFT_TIMEOUT" in line["faults"] for line in said(job, "entered", "attempt=2"))


def test_one_rank_never_ends(ran):
    """Scenario 57. A rank pings for ever when the other is done. After the completion timeout both
    begin again."""
    assert attempts(ran("one_never_ends")) == {"0", "1"}


def test_a_section_is_refused_after_the_interruption(ran):
    """Scenario 64. The function has swallowed its `Restart` and enters an atomic section. `Restart` is
    raised, and nothing of the body runs."""
    assert not said(ran("a_section_after_the_interruption"), "within")


def test_an_exception_in_nested_sections(ran):
    """Scenario 65. The function raises in the inner one of two atomic sections. In the next attempt it
    is in none, and is interrupted."""
    assert attempts(ran("an_exception_in_nested_sections")) == {"0", "1", "2"}


@pytest.mark.parametrize("scenario", ["a_section_without_an_end", "who_always_goes_on"])
def test_who_does_not_leave_is_replaced(ran, scenario):
    """Scenarios 66 and 67. An atomic section never ends, or the function swallows each `Restart`. Its
    process is killed at the hard timeout, and another one takes its place."""
    job = ran(scenario, 2, *REPLACED)
    assert len({line["pid"] for line in said(job, "entered")}) == 3
    assert scenario != "who_always_goes_on" or said(job, "goes")


def test_an_interruption_in_a_destructor(ran):
    """Scenario 68. The function is in a `__del__` when it is told, where the interpreter can only print
    the exception. It comes again."""
    job = ran("in_a_destructor")
    assert len(said(job, "behind")) == 1 and job.log.having("Exception ignored")


def test_with_blocks_in_three_frames(ran):
    """Scenario 69. The function is in `with` blocks of three frames, and raises or is interrupted. Each
    is left once, the innermost first, before `finalize`."""
    ran("with_blocks_in_three_frames")
