/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "rank.h"

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} kinds[] = {
    {"agent", rank_agent},
    {"calls", rank_calls},
    {"fixed", rank_fixed},
    {"hang", rank_hang},
    {"heartbeat", rank_heartbeat},
    {"journal", rank_journal},
    {"loop", rank_loop},
    {"pace", rank_pace},
    {"preempt", rank_preempt},
    {"restart", rank_restart},
    {"run", rank_run},
    {"save", rank_save},
    {"soak", rank_soak},
    {"train", rank_train},
};

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/');
    const char *name = slash ? slash + 1 : argv[0];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            return kinds[i].main(argc, argv);
        }
    }
    (void)fprintf(stderr, "%s: no kind of rank; main.c lists them\n", name);
    return 2;
}
