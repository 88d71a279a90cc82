/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_LAUNCHED_H
#define MST_LAUNCH_LAUNCHED_H

/* `srun muster run ...`: a launcher that starts one run per node says all that the line would that
 * node 0 prints for people. */

#include "launch/run.h"

struct mst_launched {
    char job[128];
    char address[300]; /* of node 0 */
    char secret[4096];
};

/* Takes from the launcher's variables what `options` does not say: how many nodes there are, which
 * one this is, where node 0 is, the job's name. The texts live in `launched`. 0, or an exit code
 * after one line. */
int mst_launched_take(struct mst_run_options *options, struct mst_launched *launched);

/* Waits until node 0 has made the secret that the options name. False after one line. */
bool mst_launched_await_secret(const struct mst_run_options *options);

#endif
