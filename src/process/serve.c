/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/descriptors.h"

enum { WORDS_OWN = 5 }; /* muster serve --addr ADDR --parent */

/* exec takes words that it might change, and changes none. */
static char *word(const char *text)
{
    union {
        const char *in;
        char *out;
    } both = {.in = text};

    return both.out;
}

static int start(struct mst_served *served, const struct mst_serve *how, int input)
{
    char *words[WORDS_OWN + MST_SERVE_FLAGS_MAX + 1] = {
        word(how->name != NULL ? how->name : how->program), word("serve"), word("--addr"),
        word(how->addr)};
    struct mst_spawn spawn = {.program = how->program,
                              .arguments = words,
                              .environment = how->environment,
                              .input = input,
                              .out = MST_SPAWN_NOWHERE, /* for no reader of ours */
                              .error = MST_SPAWN_OURS};
    unsigned count = 4;
    pid_t pid;
    int error;

    if (!how->detaches) {
        words[count++] = word("--parent");
    }
    for (unsigned i = 0; i < MST_SERVE_FLAGS_MAX && how->flags[i] != NULL; i++) {
        words[count++] = word(how->flags[i]);
    }
    memcpy(spawn.given, how->given, sizeof spawn.given);
    error = how->tied ? mst_spawn_tied(&spawn, 0, false, &pid) : mst_spawn(&spawn, &pid);
    if (error == 0) {
        mst_child_adopt(&served->child, pid);
    }
    return error;
}

int mst_serve(struct mst_served *served, const struct mst_serve *how)
{
    int ends[2], error;

    *served = (struct mst_served){.child = {.pidfd = -1}, .line = -1};
    if (how->detaches) {
        return start(served, how, MST_SPAWN_NOWHERE);
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return errno;
    }
    ends[1] = mst_descriptor_beyond_streams(ends[1]); /* what is printed there would stop it */
    error = ends[1] < 0 ? errno : start(served, how, ends[0]);
    (void)close(ends[0]);
    if (error == 0) {
        served->line = ends[1];
    } else if (ends[1] >= 0) {
        (void)close(ends[1]);
    }
    return error;
}
