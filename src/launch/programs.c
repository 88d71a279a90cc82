/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/programs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "process/spawn.h"

static int find(struct mst_run_program *program)
{
    const char *name = program->arguments[0];
    int error = mst_spawn_find(name, program->path);

    if (error == 0) {
        return 0;
    }
    if (error == EACCES) {
        mst_say("'%s' is not executable", name);
        return MST_EXIT_NOT_EXECUTABLE;
    }
    mst_say("'%s' is not found%s", name, strchr(name, '/') == NULL ? " in PATH" : "");
    return MST_EXIT_NOT_FOUND;
}

int mst_programs_find(const struct mst_run_options *options)
{
    int code = 0;

    for (uint32_t i = 0; i < options->program_count && code == 0; i++) {
        code = find(&options->programs[i]);
    }
    return code;
}

const struct mst_run_program *mst_program_of(const struct mst_run_options *options, uint32_t slot)
{
    uint32_t i = 0;

    while (i + 1 < options->program_count && slot >= options->programs[i].count) {
        slot -= options->programs[i++].count;
    }
    return &options->programs[i];
}

void mst_programs_words(const struct mst_run_options *options, struct mst_words *line)
{
    for (uint32_t i = 0; i < options->program_count; i++) {
        char number[16];

        if (i > 0) {
            mst_words_add(line, ":");
        }
        (void)snprintf(number, sizeof number, "%" PRIu32, options->programs[i].count);
        mst_words_add(line, "-n");
        mst_words_add(line, number);
        mst_words_add(line, "--");
        for (char *const *word = options->programs[i].arguments; *word != NULL; word++) {
            mst_words_add(line, *word);
        }
    }
}
