# SPDX-License-Identifier: Apache-2.0
"""What C takes to group 16,384 places by racks: by the labels of the processes, and by a function of
Python that is called for each place. One rank does it at each restart. Reports lines of JSON, in CPU
time."""
import json
import time

from muster import Group, Place, Shift
from muster._assignment import Made
from muster._muster import ffi, lib

PLACES, RACK, RUNS = 16384, 32, 9


def rack(place):
    return "/".join(place.label.split("/")[:2])


def places():
    """A dead one in each other rack, whose group does not run."""
    return [Place(index, alive=index % (2 * RACK) != 5, previous=index,
                  label=f"pod{index // 512}/rack{index // RACK}/host{index // 8}")
            for index in range(PLACES)]


def times(name, key):
    """Its times, without those of the table: a run has that already. The numbers that came out."""
    made, took = Made([Shift(), Group(RACK, key=key), Shift()]), []
    for _ in range(RUNS):
        table = made.places(places())
        began = time.process_time_ns()
        status = lib.muster_assignment_try(made.assignment, table, PLACES, ffi.NULL)
        took.append((time.process_time_ns() - began) / 1000)
        made.check()
        assert status == lib.MUSTER_OK, status
    took.sort()
    print(json.dumps({"name": name, "n": RUNS, "p50_us": took[RUNS // 2],
                      "p90_us": took[RUNS * 9 // 10]}))
    return [place.number for place in table]


if __name__ == "__main__":
    assert times("label", "label/2") == times("function", rack)
