/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/time.h"
#include "cli/commands.h"
#include "cli/look/gather.h"
#include "cli/look/terminal.h"
#include "cli/look/text.h"
#include "cli/print.h"
#include "os/system.h"
#include "view/screen.h"

#define RECONNECT_MS 1000
#define LOOK_MS 2000
#define GONE_MS 10000u /* in a pipe: so long without its service, and it ends */

struct top {
    struct mst_cli *cli;
    struct mst_cli_place place;
    muster_client *client; /* NULL: the connection is lost */
    struct mst_status status;
    struct muster_error err; /* why the status is an old one */
    uint64_t seen_ms;        /* when that was gathered */
    bool lost;
};

static uint64_t now_ms(void)
{
    return mst_system_now_ns() / NS_PER_MS;
}

/* ---- following the service ---- */

static bool connect_again(struct top *top)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    options.role = MUSTER_ROLE_OBSERVER;
    options.job = top->place.job;
    mst_cli_reach(top->cli, &top->place, &options);
    return muster_client_open(&top->client, &options, RECONNECT_MS, &top->err) == MUSTER_OK;
}

/* The status that there was stays while there is no other. */
static void look(struct top *top)
{
    struct mst_status status = {.job = NULL};

    if ((top->client || connect_again(top)) &&
        mst_cli_gather(top->client, &top->place, LOOK_MS, &status, &top->err)) {
        mst_status_fini(&top->status);
        top->status = status;
        top->seen_ms = now_ms();
        top->lost = false;
        return;
    }
    mst_status_fini(&status);
    muster_client_close(top->client);
    top->client = NULL;
    top->lost = true;
}

/* ---- on a terminal ---- */

static bool show(struct top *top, struct mst_top_screen *screen,
                 const struct mst_terminal *terminal)
{
    char *drawn;

    screen->columns = terminal->columns;
    screen->rows = terminal->rows;
    screen->trouble = top->lost ? top->err.text : NULL;
    screen->stale_ms = now_ms() - top->seen_ms;
    drawn = mst_top_screen_draw(screen, &top->status);
    if (drawn) {
        mst_terminal_show(drawn);
    }
    free(drawn);
    return drawn != NULL;
}

/* Until the user quits: 0; or the signal that ends it; -1: no memory. */
static int follow(struct top *top, struct mst_terminal *terminal, uint64_t every_ms)
{
    struct mst_top_screen screen = {.coloured = mst_cli_coloured()};
    uint64_t next_ms = now_ms() + every_ms;

    while (show(top, &screen, terminal)) {
        uint64_t at_ms = now_ms();

        switch (mst_terminal_wait(terminal, next_ms > at_ms ? next_ms - at_ms : 0)) {
        case MST_TERMINAL_KEY:
            if (!mst_top_screen_press(&screen, terminal->key)) {
                return 0;
            }
            break;
        case MST_TERMINAL_END:
            return terminal->signal;
        case MST_TERMINAL_SIZE:
            break;
        case MST_TERMINAL_TIME:
            look(top);
            next_ms = now_ms() + every_ms;
            break;
        }
    }
    return -1;
}

static int on_terminal(struct top *top, uint64_t every_ms)
{
    struct mst_terminal terminal;
    int end;

    if (!mst_terminal_open(&terminal)) {
        return mst_cli_fail(top->cli, "cannot use the terminal: %s", strerror(errno));
    }
    end = follow(top, &terminal, every_ms);
    mst_terminal_close(&terminal);
    if (end > 0) { /* as if it had not been caught, which the shell expects */
        sigset_t set;

        (void)signal(end, SIG_DFL);
        (void)sigemptyset(&set);
        (void)sigaddset(&set, end);
        (void)raise(end);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    return end == 0 ? MST_CLI_OK : mst_cli_fail(top->cli, "out of memory");
}

/* ---- elsewhere: a status at each change ---- */

/* Of what changes only when something happens, and not in every step. */
static uint64_t print_of(const struct mst_status *status)
{
    const struct mst_item *job = mst_status_job(status);
    struct mst_job_verdict verdict;
    size_t incidents = status->history.count;
    uint64_t print = MST_DIGEST_INIT;

    mst_job_verdict_of(status, &verdict);
    print = mst_digest_number(print, verdict.kind);
    print = mst_digest_number(print, verdict.index);
    print =
        mst_digest_number(print, incidents > 0 ? status->history.items[incidents - 1].revision : 0);
    if (job) {
        print = mst_digest_number(print, job->number);
        print = mst_digest_number(print, (uint64_t)job->arrived << 32 | job->expected);
    }
    for (size_t i = 0; i < status->members.count; i++) {
        const struct mst_who *who = &status->members.items[i].who;

        print = mst_digest_number(print, (uint64_t)who->index << 8 | (uint64_t)who->role << 4 |
                                             (uint64_t)who->state);
        print = mst_digest_number(print, who->incarnation);
    }
    return print;
}

static int as_lines(struct top *top, uint64_t every_ms)
{
    uint64_t shown = 0;
    int code = MST_CLI_OK;

    while (code == MST_CLI_OK) {
        uint64_t print = print_of(&top->status);

        if (!top->lost && print != shown) {
            mst_cli_put("%s", shown != 0 ? "\n" : "");
            mst_cli_status_print(&top->status, false);
            code = mst_cli_finish_output(top->cli);
            shown = print;
        }
        if (top->lost && now_ms() - top->seen_ms > GONE_MS) {
            return mst_cli_fail_with(top->cli, &top->err);
        }
        (void)poll(NULL, 0, (int)every_ms);
        look(top);
    }
    return code;
}

static int run(struct mst_cli *cli)
{
    struct top top = {.cli = cli, .status = {.job = NULL}};
    uint64_t every_ms = (uint64_t)mst_cli_number(cli, "interval");
    bool terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    const char *term = getenv("TERM");
    int code = mst_cli_observe(cli, &top.client, &top.place);

    if (code != MST_CLI_OK) {
        return code;
    }
    look(&top);
    if (top.lost) {
        code = mst_cli_fail_with(cli, &top.err);
    } else if (terminal && term && strcmp(term, "dumb") != 0) {
        code = on_terminal(&top, every_ms);
    } else {
        code = as_lines(&top, every_ms);
    }
    mst_status_fini(&top.status);
    muster_client_close(top.client);
    return code;
}

const struct mst_cli_command mst_cli_top = {
    .name = "top",
    .arguments = "",
    .summary = "follow a job on the terminal: the verdict, the hosts, and a table of the members",
    .details =
        "Keys: q quits, s sorts by what is wrong, index, host, state or latest change, / filters, "
        "enter "
        "opens one member, h is help. Where stdout is no terminal, or TERM is dumb, it prints the "
        "status at each change. It goes on when the service is started again.\n",
    .example = "  muster top\n  muster top -j train --interval 200ms\n  muster top | tee changes\n",
    .finds_job = true,
    .run = run,
};
