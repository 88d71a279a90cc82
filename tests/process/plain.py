# SPDX-License-Identifier: Apache-2.0
"""A script that knows nothing of muster: it prints its variables, and until the attempt that its first
argument names, rank 1 fails while the others would go on for ever."""

import os
import signal
import sys

attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
for name, value in os.environ.items():
    print(f"attempt {attempt} rank {rank}: {name}={value}", flush=True)
if int(attempt) < int(sys.argv[1]):
    if rank == "1":
        sys.exit(f"rank 1 of attempt {attempt} fails")
    while True:
        signal.pause()
