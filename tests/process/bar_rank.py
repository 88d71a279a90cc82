# SPDX-License-Identifier: Apache-2.0
"""A rank with a tqdm bar on stderr and a print without newline and flush on stdout. Each step begins
when the file GO-<step> exists: bar_rank.py GO STEPS."""

import os
import sys
import time

import tqdm


def main():
    go, steps = sys.argv[1], int(sys.argv[2])
    rank = os.environ["RANK"]
    bar = tqdm.tqdm(total=steps, mininterval=0, ncols=60, desc=f"bar of {rank}",
                    bar_format="{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt}")
    for step in range(1, steps + 1):
        while not os.path.exists(f"{go}-{step}"):
            time.sleep(0.01)
        bar.update(1)
        print(f"\rprint of {rank}: step {step}", end="")
        if step % 5 == 0:
            print(f"\nrank {rank} has saved step {step}")
    bar.close()
    print("\nthe end")


main()
