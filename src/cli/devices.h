/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_DEVICES_H
#define MST_CLI_DEVICES_H

#include <stdint.h>

#include "cli/cli.h"

/* How many processors of a kind a process of this machine may use, for --nproc-per-node. */

/* CPUs that this process may run on. */
unsigned mst_devices_cpus(void);

/* GPUs of NVIDIA, or if there are none of AMD, as far as *_VISIBLE_DEVICES allows. `root` is "", or
 * a folder that stands for it. */
unsigned mst_devices_gpus(const char *root);

/* Of `present` GPUs those that a list such as "0,1" or "GPU-uuid" leaves; NULL: all. What follows
 * an entry that names none counts no more, as CUDA has it. */
unsigned mst_devices_visible(unsigned present, const char *list);

/* What is given for --nproc-per-node: a number, or the kind of processors that are counted. OK, or
 * an exit code after one line. */
int mst_devices_count(const struct mst_cli *cli, const char *text, uint32_t *out);

#endif
