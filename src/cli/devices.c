/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/devices.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS_MAX 65536

unsigned mst_devices_cpus(void)
{
    cpu_set_t *set = CPU_ALLOC(CPUS_MAX);
    unsigned count = 1;

    if (set != NULL && sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS_MAX), set) == 0) {
        count = (unsigned)CPU_COUNT_S(CPU_ALLOC_SIZE(CPUS_MAX), set);
    }
    CPU_FREE(set);
    return count;
}

static bool is_number(const char *text)
{
    return *text != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* /dev/nvidia0 and following; nvidiactl and the like are others. */
static bool is_nvidia(const char *folder, const char *name)
{
    (void)folder;
    return strncmp(name, "nvidia", 6) == 0 && is_number(name + 6);
}

/* A node of the topology is a GPU if it has such an id; a CPU has 0. */
static bool is_amd(const char *folder, const char *name)
{
    char path[PATH_MAX], id[32] = "";
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s/gpu_id", folder, name);
    file = is_number(name) ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return false;
    }
    if (fgets(id, sizeof id, file) == NULL) {
        id[0] = '\0';
    }
    (void)fclose(file);
    return strtoul(id, NULL, 10) != 0;
}

static unsigned count_in(const char *root, const char *below,
                         bool (*is_one)(const char *folder, const char *name))
{
    char folder[PATH_MAX];
    unsigned count = 0;
    DIR *found;

    (void)snprintf(folder, sizeof folder, "%s%s", root, below);
    found = opendir(folder);
    if (found == NULL) {
        return 0;
    }
    for (const struct dirent *one = readdir(found); one != NULL; one = readdir(found)) {
        count += is_one(folder, one->d_name);
    }
    (void)closedir(found);
    return count;
}

unsigned mst_devices_visible(unsigned present, const char *list)
{
    unsigned count = 0;

    if (list == NULL) {
        return present;
    }
    while (*list != '\0') {
        size_t size = strcspn(list, ",");
        bool named = isalpha((unsigned char)*list); /* GPU-..., MIG-... */

        if (!named && (!isdigit((unsigned char)*list) || strtoul(list, NULL, 10) >= present)) {
            return count;
        }
        count++;
        list += size + (list[size] == ',');
    }
    return count;
}

unsigned mst_devices_gpus(const char *root)
{
    unsigned count = count_in(root, "/dev", is_nvidia);

    if (count > 0) {
        return mst_devices_visible(count, getenv("CUDA_VISIBLE_DEVICES"));
    }
    count = count_in(root, "/sys/class/kfd/kfd/topology/nodes", is_amd);
    count = mst_devices_visible(count, getenv("ROCR_VISIBLE_DEVICES"));
    return mst_devices_visible(count, getenv("HIP_VISIBLE_DEVICES"));
}
