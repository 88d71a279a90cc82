/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PROCESS_BINDING_H
#define MST_PROCESS_BINDING_H

/* Which CPUs each process of this machine may use. The CPUs that this process may use (its cpuset
 * and its affinity) are grouped into units: cores with their hardware threads, or NUMA nodes. The
 * units are shared out evenly in their order; a unit is never divided, but processes share one
 * where there are fewer units than processes. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MST_CPUS_MAX 8192u
#define MST_CPUS_WORD (8 * sizeof(unsigned long))

/* As the kernel takes it. */
struct mst_cpus {
    unsigned long words[MST_CPUS_MAX / MST_CPUS_WORD];
};

enum mst_bind { MST_BIND_NONE = 0, MST_BIND_CORE = 1, MST_BIND_NUMA = 2 };

struct mst_binding {
    struct mst_cpus *units;
    uint32_t count; /* 0: processes are not bound */
};

/* Where the kernel describes them; a test has a folder of its own. */
#define MST_BINDING_SYSTEM "/sys/devices/system"

/* The CPUs of this process, and of a child before it runs its program. 0 or an error number. */
int mst_cpus_allowed(struct mst_cpus *out);
int mst_cpus_use(const struct mst_cpus *cpus);

bool mst_cpus_have(const struct mst_cpus *cpus, uint32_t cpu);

/* Groups `allowed`. Without a description of cores or nodes each CPU is a core, and all are one
 * node. 0 or an error number; free it with mst_binding_close. */
int mst_binding_open(struct mst_binding *out, enum mst_bind bind, const struct mst_cpus *allowed,
                     const char *system);
void mst_binding_close(struct mst_binding *binding);

/* What process `number` of `count` may use. */
void mst_binding_share(const struct mst_binding *binding, uint32_t number, uint32_t count,
                       struct mst_cpus *out);

#endif
