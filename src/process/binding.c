/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/binding.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- sets of CPUs ---- */

bool mst_cpus_have(const struct mst_cpus *cpus, uint32_t cpu)
{
    return cpu < MST_CPUS_MAX && (cpus->words[cpu / MST_CPUS_WORD] >> cpu % MST_CPUS_WORD & 1) != 0;
}

static void add(struct mst_cpus *cpus, uint32_t cpu)
{
    cpus->words[cpu / MST_CPUS_WORD] |= 1ul << cpu % MST_CPUS_WORD;
}

/* Moves what both have from `from` to `out`. Whether that is any. */
static bool take(struct mst_cpus *out, struct mst_cpus *from, const struct mst_cpus *of)
{
    unsigned long any = 0;

    for (size_t i = 0; i < sizeof out->words / sizeof out->words[0]; i++) {
        out->words[i] = from->words[i] & of->words[i];
        from->words[i] &= ~out->words[i];
        any |= out->words[i];
    }
    return any != 0;
}

static bool is_empty(const struct mst_cpus *cpus)
{
    static const struct mst_cpus none;

    return memcmp(cpus, &none, sizeof none) == 0;
}

int mst_cpus_allowed(struct mst_cpus *out)
{
    *out = (struct mst_cpus){{0}};
    return sched_getaffinity(0, sizeof *out, (cpu_set_t *)(void *)out) == 0 ? 0 : errno;
}

int mst_cpus_use(const struct mst_cpus *cpus)
{
    return sched_setaffinity(0, sizeof *cpus, (const cpu_set_t *)(const void *)cpus) == 0 ? 0
                                                                                          : errno;
}

/* ---- what the kernel says of them ---- */

/* "0-3,8", as the kernel writes lists. False: it is no such list. */
static bool parse(const char *text, struct mst_cpus *out)
{
    *out = (struct mst_cpus){{0}};
    while (*text >= '0' && *text <= '9') {
        char *end;
        unsigned long first = strtoul(text, &end, 10), last = first;

        if (*end == '-') {
            last = strtoul(end + 1, &end, 10);
        }
        if (last >= MST_CPUS_MAX) {
            return false;
        }
        for (unsigned long cpu = first; cpu <= last; cpu++) {
            add(out, (uint32_t)cpu);
        }
        text = *end == ',' ? end + 1 : end;
    }
    return *text == '\n' || *text == '\0';
}

static bool read_list(struct mst_cpus *out, const char *path)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
    text[size > 0 ? size : 0] = '\0';
    return size > 0 && parse(text, out);
}

static bool of_node(const char *system, uint32_t node, struct mst_cpus *out)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/node/node%u/cpulist", system, node);
    return read_list(out, path);
}

static bool of_core(const char *system, uint32_t cpu, struct mst_cpus *out)
{
    char path[PATH_MAX];

    (void)snprintf(path, sizeof path, "%s/cpu/cpu%u/topology/thread_siblings_list", system, cpu);
    return read_list(out, path);
}

/* ---- units ---- */

static bool add_unit(struct mst_binding *binding, const struct mst_cpus *unit)
{
    struct mst_cpus *larger =
        realloc(binding->units, (binding->count + 1) * sizeof *binding->units);

    if (!larger) {
        return false;
    }
    larger[binding->count++] = *unit;
    binding->units = larger;
    return true;
}

/* Of a node's CPUs, in their order. */
static bool add_cores(struct mst_binding *binding, struct mst_cpus *left, const char *system)
{
    struct mst_cpus core, unit;
    bool ok = true;

    for (uint32_t cpu = 0; cpu < MST_CPUS_MAX && ok; cpu++) {
        if (!mst_cpus_have(left, cpu)) {
            continue;
        }
        if (!of_core(system, cpu, &core)) {
            core = (struct mst_cpus){{0}};
        }
        add(&core, cpu);
        ok = take(&unit, left, &core) && add_unit(binding, &unit);
    }
    return ok;
}

static bool add_node(struct mst_binding *binding, enum mst_bind bind, struct mst_cpus *node,
                     const char *system)
{
    return bind == MST_BIND_NUMA ? add_unit(binding, node) : add_cores(binding, node, system);
}

int mst_binding_open(struct mst_binding *out, enum mst_bind bind, const struct mst_cpus *allowed,
                     const char *system)
{
    struct mst_cpus left = *allowed, nodes, of, node;
    char path[PATH_MAX];
    bool ok = true;

    *out = (struct mst_binding){NULL, 0};
    if (bind == MST_BIND_NONE) {
        return 0;
    }
    (void)snprintf(path, sizeof path, "%s/node/online", system);
    if (!read_list(&nodes, path)) {
        nodes = (struct mst_cpus){{0}};
    }
    for (uint32_t i = 0; i < MST_CPUS_MAX && ok; i++) {
        if (mst_cpus_have(&nodes, i) && of_node(system, i, &of) && take(&node, &left, &of)) {
            ok = add_node(out, bind, &node, system);
        }
    }
    if (ok && !is_empty(&left)) { /* of no node */
        node = left;
        ok = add_node(out, bind, &node, system);
    }
    if (!ok) {
        mst_binding_close(out);
    }
    return ok ? 0 : ENOMEM;
}

void mst_binding_close(struct mst_binding *binding)
{
    free(binding->units);
    *binding = (struct mst_binding){NULL, 0};
}

void mst_binding_share(const struct mst_binding *binding, uint32_t number, uint32_t count,
                       struct mst_cpus *out)
{
    uint64_t first = (uint64_t)number * binding->count / count;
    uint64_t end = ((uint64_t)number + 1) * binding->count / count;

    *out = (struct mst_cpus){{0}};
    for (uint64_t i = first; i < (end > first ? end : first + 1); i++) {
        for (size_t word = 0; word < sizeof out->words / sizeof out->words[0]; word++) {
            out->words[word] |= binding->units[i].words[word];
        }
    }
}
