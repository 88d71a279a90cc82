# SPDX-License-Identifier: Apache-2.0
"""A module that is being imported when its function is cancelled; see python_steps.py."""

import python_steps
import time

python_steps.mark("imports")
end = time.monotonic() + 1
while time.monotonic() < end:
    time.sleep(0.01)
number = 5
