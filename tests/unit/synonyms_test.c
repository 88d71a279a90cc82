/* SPDX-License-Identifier: Apache-2.0 */
/* Flags of other launchers: the table is sound, and the values that only they have are read.
 *
 * behaviour: run / Flags of other launchers */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/devices.h"
#include "cli/synonyms.h"

bool mst_cli_listed(const char *list, const char *word)
{
    size_t size = strlen(word);

    for (; *list; list += strcspn(list, " ")) {
        list += strspn(list, " ");
        if (strcspn(list, " ") == size && strncmp(list, word, size) == 0) {
            return true;
        }
    }
    return false;
}

static void streams(const char *text, const char *expected)
{
    bool all = false, none = false;
    const char *found = "refused";

    if (mst_synonym_streams(text, &all, &none)) {
        found = all ? "all" : none ? "none" : "some";
    }
    assert_string_equal(found, expected);
}

/* torchrun numbers the streams of its ranks: 0 none, 3 both, 1 and 2 one of them, also by local
 * rank. Anything else is no such number. */
static void the_number_of_streams_is_read(void **state)
{
    static const char *const none[] = {"", "4", "-1", "33", "x", "3x", "./3", "true"};

    (void)state;
    streams("3", "all");
    streams("0", "none");
    streams("1", "some");
    streams("2", "some");
    streams("0:1,1:3", "some");
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        streams(none[i], "refused");
    }
}

/* `-x` sets a variable, also to nothing and to what holds a "="; a name alone changes nothing. What
 * is no name is refused. */
static void a_variable_is_set(void **state)
{
    static const char *const none[] = {"", "=", "=x", "1A=x", "A-B=x", "A B"};

    (void)state;
    assert_true(mst_synonym_export("SYNONYM_A=1"));
    assert_string_equal(getenv("SYNONYM_A"), "1");
    assert_true(mst_synonym_export("SYNONYM_A=b=c d"));
    assert_string_equal(getenv("SYNONYM_A"), "b=c d");
    assert_true(mst_synonym_export("SYNONYM_A="));
    assert_string_equal(getenv("SYNONYM_A"), "");
    assert_true(mst_synonym_export("SYNONYM_B"));
    assert_null(getenv("SYNONYM_B"));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_false(mst_synonym_export(none[i]));
    }
}

/* A list of visible GPUs hides the others. It ends at the first entry that names none. */
static void visible_gpus_are_counted(void **state)
{
    static const struct {
        const char *list;
        unsigned count; /* of 4 */
    } lists[] = {{NULL, 4},
                 {"", 0},
                 {"0", 1},
                 {"3,1", 2},
                 {"0,4", 1},
                 {"-1", 0},
                 {"0,-1,1", 1},
                 {"GPU-8932f937", 1},
                 {"0,1,", 2},
                 {"0,,1", 1},
                 {"MIG-1,MIG-2,MIG-3,MIG-4,MIG-5", 5}};

    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        assert_int_equal(mst_devices_visible(4, lists[i].list), lists[i].count);
    }
    assert_true(mst_devices_cpus() >= 1);
}

static void make(const char *root, const char *path, const char *text)
{
    char whole[256];
    FILE *file;

    (void)snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            (void)mkdir(whole, 0700);
            *at = '/';
        }
    }
    file = fopen(whole, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A machine has GPUs of NVIDIA, or of AMD. Those are counted that programs may open, not the
 * control devices and the CPUs beside them. */
static void gpus_are_counted(void **state)
{
    char root[] = "/tmp/mst-devices-XXXXXX", command[64];

    (void)state;
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES") | unsetenv("ROCR_VISIBLE_DEVICES") |
                         unsetenv("HIP_VISIBLE_DEVICES"),
                     0);
    assert_non_null(mkdtemp(root));
    assert_int_equal(mst_devices_gpus(root), 0);
    make(root, "/sys/class/kfd/kfd/topology/nodes/0/gpu_id", "0\n");
    make(root, "/sys/class/kfd/kfd/topology/nodes/1/gpu_id", "51200\n");
    make(root, "/sys/class/kfd/kfd/topology/nodes/2/gpu_id", "7\n");
    make(root, "/sys/class/kfd/kfd/topology/nodes/12/gpu_id", "8\n");
    make(root, "/sys/class/kfd/kfd/topology/nodes/x/gpu_id", "9\n");
    assert_int_equal(mst_devices_gpus(root), 3);
    assert_int_equal(setenv("HIP_VISIBLE_DEVICES", "1,2", 1), 0);
    assert_int_equal(mst_devices_gpus(root), 2);
    make(root, "/dev/nvidiactl", "");
    make(root, "/dev/nvidia-uvm", "");
    make(root, "/dev/nvidia0", "");
    make(root, "/dev/nvidia10", "");
    assert_int_equal(mst_devices_gpus(root), 2);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "1", 1), 0);
    assert_int_equal(mst_devices_gpus(root), 1);
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): of this test alone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_number_of_streams_is_read),
        cmocka_unit_test(a_variable_is_set),
        cmocka_unit_test(visible_gpus_are_counted),
        cmocka_unit_test(gpus_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
