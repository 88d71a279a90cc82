# SPDX-License-Identifier: Apache-2.0
"""The functions that Python workers run for python_coordinator.py."""
import os
import pathlib
import time

from muster import worker


@worker.function
def empty(_):
    return None


@worker.function
def holds(folder):
    """Its first attempt stays until it is killed; the next one returns when it began."""
    began = time.monotonic()
    task = worker.current()
    if task.attempt == 1:
        new = pathlib.Path(folder, f"{task.closure}.new")
        new.write_text(str(os.getpid()))
        new.rename(new.with_suffix(""))
        while not task.cancelled:
            time.sleep(0.1)
    return began
