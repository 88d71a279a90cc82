/* SPDX-License-Identifier: Apache-2.0 */
/* How CPUs are shared out, by what a machine's /sys says of them.
 *
 * behaviour: run / The CPUs of a run */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/binding.h"

/* Two nodes with two cores each, of two hardware threads: 0 and 4, 1 and 5 on node 0; 2 and 6, 3
 * and 7 on node 1. */
enum { CPUS = 8, CORES = 4 };

static char root[] = "/tmp/binding-XXXXXX";

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    for (const char *at = folder; at; at = strchr(at + 1, '/')) {
        (void)snprintf(path, sizeof path, "%s/%.*s", root, (int)(at - folder), folder);
        (void)mkdir(path, 0700);
    }
    (void)snprintf(path, sizeof path, "%s/%s", root, folder);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/%s/%s", root, folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static int make_machine(void **state)
{
    char folder[64], text[32];

    (void)state;
    assert_non_null(mkdtemp(root));
    put("node", "online", "0-1\n");
    put("node/node0", "cpulist", "0-1,4-5\n");
    put("node/node1", "cpulist", "2-3,6-7\n");
    for (int cpu = 0; cpu < CPUS; cpu++) {
        (void)snprintf(folder, sizeof folder, "cpu/cpu%d/topology", cpu);
        (void)snprintf(text, sizeof text, "%d,%d\n", cpu % CORES, cpu % CORES + CORES);
        put(folder, "thread_siblings_list", text);
    }
    return 0;
}

static int remove_machine(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    return system(command); /* NOLINT(cert-env33-c): of a folder of our own */
}

static struct mst_cpus set_of(unsigned bits)
{
    return (struct mst_cpus){{bits}};
}

/* What each of `count` processes may use, as bits. */
static void expect(enum mst_bind bind, unsigned allowed, const char *system, uint32_t count,
                   const unsigned *wanted)
{
    struct mst_cpus cpus = set_of(allowed);
    struct mst_binding binding;

    assert_int_equal(mst_binding_open(&binding, bind, &cpus, system), 0);
    for (uint32_t i = 0; i < count; i++) {
        mst_binding_share(&binding, i, count, &cpus);
        assert_int_equal(cpus.words[0], wanted[i]);
        for (size_t word = 1; word < sizeof cpus.words / sizeof cpus.words[0]; word++) {
            assert_int_equal(cpus.words[word], 0);
        }
    }
    mst_binding_close(&binding);
}

/* Cores are shared out among processes. Their hardware threads stay together, and a process has
 * neighbours of one NUMA node. */
static void cores_are_shared_out_whole(void **state)
{
    (void)state;
    expect(MST_BIND_CORE, 0xff, root, 1, (unsigned[]){0xff});
    expect(MST_BIND_CORE, 0xff, root, 2, (unsigned[]){0x33, 0xcc});
    expect(MST_BIND_CORE, 0xff, root, 3, (unsigned[]){0x11, 0x22, 0xcc});
    expect(MST_BIND_CORE, 0xff, root, 4, (unsigned[]){0x11, 0x22, 0x44, 0x88});
}

/* There are more processes than cores. Several use one, evenly. */
static void more_processes_than_cores_share(void **state)
{
    (void)state;
    expect(MST_BIND_CORE, 0xff, root, 8,
           (unsigned[]){0x11, 0x11, 0x22, 0x22, 0x44, 0x44, 0x88, 0x88});
    expect(MST_BIND_CORE, 0x20, root, 3, (unsigned[]){0x20, 0x20, 0x20});
}

/* Some CPUs may not be used. They are in no share, and a core of which one thread may be used
 * counts as a core. */
static void what_may_not_be_used_is_in_no_share(void **state)
{
    (void)state;
    expect(MST_BIND_CORE, 0x1e, root, 4, (unsigned[]){0x02, 0x10, 0x04, 0x08});
    expect(MST_BIND_NUMA, 0x0c, root, 2, (unsigned[]){0x0c, 0x0c});
}

/* NUMA nodes are shared out among processes. */
static void nodes_are_shared_out(void **state)
{
    (void)state;
    expect(MST_BIND_NUMA, 0xff, root, 1, (unsigned[]){0xff});
    expect(MST_BIND_NUMA, 0xff, root, 2, (unsigned[]){0x33, 0xcc});
    expect(MST_BIND_NUMA, 0xff, root, 4, (unsigned[]){0x33, 0x33, 0xcc, 0xcc});
}

/* The kernel describes neither cores nor nodes, as in some containers. Each CPU counts as a core,
 * and all are one node. */
static void without_a_description_each_cpu_is_a_core(void **state)
{
    (void)state;
    expect(MST_BIND_CORE, 0x0f, "/nowhere", 2, (unsigned[]){0x03, 0x0c});
    expect(MST_BIND_NUMA, 0x0f, "/nowhere", 2, (unsigned[]){0x0f, 0x0f});
}

/* A description that is no list, or has CPUs beyond all. It counts as none. */
static void a_strange_description_counts_as_none(void **state)
{
    (void)state;
    put("cpu/cpu0/topology", "thread_siblings_list", "nonsense\n");
    put("cpu/cpu1/topology", "thread_siblings_list", "1-99999\n");
    expect(MST_BIND_CORE, 0x33, root, 4, (unsigned[]){0x01, 0x02, 0x10, 0x20});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cores_are_shared_out_whole),
        cmocka_unit_test(more_processes_than_cores_share),
        cmocka_unit_test(what_may_not_be_used_is_in_no_share),
        cmocka_unit_test(nodes_are_shared_out),
        cmocka_unit_test(without_a_description_each_cpu_is_a_core),
        cmocka_unit_test(
            a_strange_description_counts_as_none), /* the last: it changes the machine */
    };

    return cmocka_run_group_tests(tests, make_machine, remove_machine);
}
