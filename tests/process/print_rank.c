/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 1 of two prints numbers to stdout, a line each, through stdio and its buffer. Rank 0 asks
 * for a restart at each line of its stdin, and both are done after RESTARTS of them. What happens
 * is told on stderr, each line in one write: stdio is what is tested.
 *
 *   print_rank INDEX RESTARTS */
#define _GNU_SOURCE
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "muster/muster.h"

enum { LOOK_EVERY = 16 };

struct rank {
    uint64_t restarts;
    unsigned long lines; /* of which printf said that they are printed */
};

static void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void tell(const char *format, ...)
{
    char line[128];
    va_list list;
    int size;

    va_start(list, format);
    size = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    if (write(STDERR_FILENO, line, (size_t)size) != size) {
        abort();
    }
}

static muster_status on_abort(muster_restart *restart, void *arg)
{
    struct muster_view view;

    (void)arg;
    muster_restart_view(restart, &view);
    tell("interrupted %llu\n", (unsigned long long)view.iteration);
    return MUSTER_OK;
}

static muster_status print(muster_restart *restart, struct rank *rank)
{
    muster_status status = MUSTER_OK;

    while (status == MUSTER_OK) {
        for (int i = 0; i < LOOK_EVERY; i++) {
            if (printf("%lu\n", rank->lines) > 0) {
                rank->lines++;
            }
        }
        status = muster_restart_check(restart);
    }
    return status;
}

static muster_status ask(muster_restart *restart)
{
    struct pollfd orders = {.fd = STDIN_FILENO, .events = POLLIN};
    char order;

    while (poll(&orders, 1, -1) <= 0) {
        muster_status status = muster_restart_check(restart);

        if (status != MUSTER_OK) {
            return status;
        }
    }
    return read(STDIN_FILENO, &order, 1) == 1 ? muster_restart_again(restart) : MUSTER_EFAILED;
}

static muster_status function(muster_restart *restart, void *arg)
{
    struct rank *rank = arg;
    struct muster_view view;
    muster_status status = MUSTER_OK;

    muster_restart_view(restart, &view);
    tell("entered %llu\n", (unsigned long long)view.iteration);
    if (view.iteration < rank->restarts) {
        status = view.rank == 0 ? ask(restart) : print(restart, rank);
    }
    tell("left %llu\n", (unsigned long long)view.iteration);
    return status;
}

int main(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_restart_options how = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_restart_hook abort_hook = {.call = on_abort};
    struct muster_error err = {0};
    struct rank rank = {0};
    muster_client *client = NULL;
    muster_status status;

    if (argc != 3) {
        return 2;
    }
    rank.restarts = strtoul(argv[2], NULL, 10);
    options.index = (uint32_t)strtoul(argv[1], NULL, 10);
    options.size_of_job = 2;
    how.abort = (struct muster_restart_hooks){&abort_hook, 1};
    status = muster_client_open(&client, &options, -1, &err);
    if (status == MUSTER_OK) {
        status = muster_restart_run(client, &how, function, &rank, &err);
    }
    (void)fflush(stdout);
    tell("printed %lu%s%s\n", rank.lines, status == MUSTER_OK ? "" : " ", err.text);
    muster_client_close(client);
    return muster_exit_code(status);
}
