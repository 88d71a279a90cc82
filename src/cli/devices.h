/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLI_DEVICES_H
#define MST_CLI_DEVICES_H

/* How many processors of a kind a process of this machine may use, for --nproc-per-node. */

/* CPUs that this process may run on. */
unsigned mst_devices_cpus(void);

/* GPUs of NVIDIA, or if there are none of AMD, as far as *_VISIBLE_DEVICES allows. `root` is "", or
 * a folder that stands for it. */
unsigned mst_devices_gpus(const char *root);

/* Of `present` GPUs those that a list such as "0,1" or "GPU-uuid" leaves; NULL: all. What follows
 * an entry that names none counts no more, as CUDA has it. */
unsigned mst_devices_visible(unsigned present, const char *list);

#endif
