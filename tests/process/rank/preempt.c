/* SPDX-License-Identifier: Apache-2.0 */
/* preempt
 *
 * A rank that takes part in preemption. Orders come as lines on stdin, and each is answered by one
 * line on stdout that begins with it; the log of the library goes to stderr. So the program is
 * inside of a call of muster only while an order is carried out. Orders are those of rank.h and:
 *
 *   reached STEP            "go", "save" or "stop"
 *   train STEP              asks for STEP and the next ones, with a barrier after each, until it is
 *                           not to go on: "save at=17"
 *   saved STEP [MS]         the status, and its text
 *   hold MS | unhold | notice | sources | wait-exit MS
 *   announce INDEX|all MS REASON | withdraw INDEX|all
 *   close | open            the handle of preemption
 *   leave                   the job
 *   handled                 how often the program's own handler of SIGTERM was called
 *   child-stays             forks one that waits for a signal, and tells its pid; "reap": its end
 *   run                     enters a function under muster_restart_run, which takes orders too;
 *                           "return" ends it, "return preempted" with that status, "return
 *                           leave" for good; "fail" reports a fault first
 *   end                     closes everything and ends
 *
 * Environment: PR_SIGNALS: options.signals. PR_HANDLER=1: has a handler of SIGTERM of its own.
 * PR_SOURCE=FILE: has a source "mine" whose notice is there while FILE is, with the milliseconds in
 * it. PR_EARLY=1: says "ready" before the handle is open, so that the first order opens it. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "muster/muster.h"
#include "rank.h"

enum { LINE_ROOM = 512, SOURCE_PERIOD_MS = 20 };

struct rank {
    muster_client *client;
    muster_preempt *preempt;
    muster_restart *restart; /* inside of the function */
    pid_t child;
    bool failed;
    char how[LINE_ROOM]; /* the function returns */
};

static volatile sig_atomic_t handled;

static void on_term(int number)
{
    (void)number;
    handled++;
}

static void on_log(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    fprintf(stderr, "%d %s\n", (int)level, line);
}

static void give_up(const char *what, const struct muster_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->text);
    exit(3);
}

static muster_status from_file(void *ctx, struct muster_notice_given *out)
{
    FILE *file = fopen(ctx, "r");
    char words[64] = "";

    if (!file) {
        return errno == ENOENT ? MUSTER_MORE : MUSTER_EFAILED;
    }
    if (fgets(words, sizeof(words), file)) {
        out->in_ms = strtol(words, NULL, 10);
    }
    (void)fclose(file);
    (void)snprintf(out->reason, sizeof(out->reason), "found a file");
    return MUSTER_OK;
}

static void open_preempt(struct rank *rank)
{
    struct muster_preempt_options options = MUSTER_PREEMPT_OPTIONS_INIT;
    struct muster_preempt_source source = {
        .name = "mine", .poll = from_file, .period_ms = SOURCE_PERIOD_MS};
    struct muster_error err;

    options.signals = getenv("PR_SIGNALS");
    source.ctx = getenv("PR_SOURCE");
    if (source.ctx) {
        options.sources = &source;
        options.source_count = 1;
    }
    if (muster_preempt_open(&rank->preempt, rank->client, &options, &err)) {
        give_up("preempt", &err);
    }
}

static const char *reach_name(enum muster_reach reach)
{
    switch (reach) {
    case MUSTER_GO_ON:
        return "go";
    case MUSTER_SAVE_NOW:
        return "save";
    case MUSTER_STOP:
        return "stop";
    }
    return "?";
}

static uint32_t index_of(const char *word)
{
    return strncmp(word, "all", 3) == 0 ? MUSTER_INDEX_ALL : (uint32_t)strtoul(word, NULL, 10);
}

static void say_status(const char *order, muster_status status, const struct muster_error *err)
{
    say("%s: %s %s", order, muster_status_name(status), status ? err->text : "");
}

/* ---- orders ---- */

static void do_train(struct rank *rank, const char *order, int64_t step)
{
    struct muster_error err;

    for (;; step++) {
        enum muster_reach reach = muster_preempt_reached(rank->preempt, step);
        muster_status status = MUSTER_OK;

        if (reach != MUSTER_GO_ON) {
            say("%s: %s at=%lld", order, reach_name(reach), (long long)step);
            return;
        }
        status = muster_barrier_wait(rank->client, "step", -1, &err);
        if (status) {
            say("%s: %s %s at=%lld", order, muster_status_name(status), err.text, (long long)step);
            return;
        }
    }
}

static void do_notice(struct rank *rank, const char *order)
{
    struct muster_notice notice;

    if (!muster_preempt_notice(rank->preempt, &notice)) {
        say("%s: none", order);
        return;
    }
    say("%s: index=%lld level=%d assumed=%d left=%lld unix=%lld agreed=%lld source=%s host=%s "
        "reason=%s",
        order, notice.index == MUSTER_INDEX_ALL ? -1 : (long long)notice.index, (int)notice.level,
        notice.assumed, (long long)notice.left_ms, (long long)notice.deadline_unix_ms,
        (long long)notice.agreed_step, notice.source, notice.host, notice.reason);
}

static void do_announce(struct rank *rank, const char *order, char *words)
{
    char *index = strtok_r(words, " ", &words);
    char *ms = strtok_r(NULL, " ", &words);
    struct muster_error err;
    muster_status status =
        muster_preempt_announce(rank->client, index_of(index), strtol(ms, NULL, 10), words, &err);

    say_status(order, status, &err);
}

static void do_child(struct rank *rank, const char *order)
{
    rank->child = fork();
    if (rank->child == 0) {
        for (;;) {
            (void)poll(NULL, 0, -1);
        }
    }
    say("%s: %d", order, (int)rank->child);
}

static void do_reap(struct rank *rank, const char *order)
{
    int status = 0;

    (void)waitpid(rank->child, &status, 0);
    say("%s: %s %d", order, WIFSIGNALED(status) ? "signal" : "status",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void orders(struct rank *rank, const char *until);

static muster_status function(muster_restart *restart, void *arg)
{
    struct rank *rank = arg;
    struct muster_view view;

    muster_restart_view(restart, &view);
    rank->restart = restart;
    rank->failed = false;
    say("entered generation=%llu rank=%u size=%u index=%u", (unsigned long long)view.generation,
        view.rank, view.size, view.index);
    orders(rank, "return");
    rank->restart = NULL;
    if (strcmp(rank->how, "preempted") == 0) {
        return MUSTER_EPREEMPTED;
    }
    if (strcmp(rank->how, "leave") == 0) {
        return muster_restart_leave(restart);
    }
    return rank->failed ? MUSTER_EFAILED : muster_restart_check(restart);
}

static void do_run(struct rank *rank, const char *order)
{
    struct muster_restart_options options = MUSTER_RESTART_OPTIONS_INIT;
    struct muster_error err;
    muster_status status;

    options.soft_timeout_ms = -1;
    options.hard_timeout_ms = -1;
    status = muster_restart_run(rank->client, &options, function, rank, &err);
    say_status(order, status, &err);
}

static void do_saved(struct rank *rank, const char *order, char *words)
{
    int64_t step = strtol(words, &words, 10);
    int64_t timeout_ms = *words ? strtol(words, NULL, 10) : -1;
    struct muster_error err;
    muster_status status = muster_preempt_saved(rank->preempt, step, timeout_ms, &err);

    say_status(order, status, &err);
}

static void do_hold(struct rank *rank, const char *order, const char *ms)
{
    struct muster_error err = {.text = ""};
    muster_status status = ms ? muster_preempt_hold_begin(rank->preempt, strtol(ms, NULL, 10))
                              : muster_preempt_hold_end(rank->preempt);

    say_status(order, status, &err);
}

static void do_other(struct rank *rank, const char *order, const char *verb, char *words)
{
    struct muster_error err = {.text = ""};

    if (strcmp(verb, "wait-exit") == 0) {
        say_status(order, muster_preempt_wait_exit(rank->preempt, strtol(words, NULL, 10), &err),
                   &err);
    } else if (strcmp(verb, "withdraw") == 0) {
        say_status(order, muster_preempt_withdraw(rank->client, index_of(words), &err), &err);
    } else if (strcmp(verb, "leave") == 0) {
        say_status(order, muster_member_leave(rank->client, -1, &err), &err);
    } else if (strcmp(verb, "sources") == 0) {
        say("%s: '%s'", order, muster_preempt_sources(rank->preempt));
    } else if (strcmp(verb, "handled") == 0) {
        say("%s: %d", order, (int)handled);
    } else if (strcmp(verb, "close") == 0) {
        muster_preempt_close(rank->preempt);
        rank->preempt = NULL;
        say("%s: ok", order);
    } else if (strcmp(verb, "open") == 0) {
        open_preempt(rank);
        say("%s: ok", order);
    } else if (strcmp(verb, "fail") == 0) {
        rank->failed = true;
        say("%s: %s", order,
            muster_status_name(muster_restart_fail(rank->restart, 7, "as it was told")));
    } else if (!order_obey(verb, words)) {
        say("%s: no such order", order);
    }
}

static void carry_out(struct rank *rank, const char *order, const char *verb, char *words)
{
    if (strcmp(verb, "reached") == 0) {
        say("%s: %s", order,
            reach_name(muster_preempt_reached(rank->preempt, strtol(words, NULL, 10))));
    } else if (strcmp(verb, "train") == 0) {
        do_train(rank, order, strtol(words, NULL, 10));
    } else if (strcmp(verb, "saved") == 0) {
        do_saved(rank, order, words);
    } else if (strcmp(verb, "notice") == 0) {
        do_notice(rank, order);
    } else if (strcmp(verb, "announce") == 0) {
        do_announce(rank, order, words);
    } else if (strcmp(verb, "hold") == 0) {
        do_hold(rank, order, words);
    } else if (strcmp(verb, "unhold") == 0) {
        do_hold(rank, order, NULL);
    } else if (strcmp(verb, "child-stays") == 0) {
        do_child(rank, order);
    } else if (strcmp(verb, "reap") == 0) {
        do_reap(rank, order);
    } else if (strcmp(verb, "run") == 0) {
        do_run(rank, order);
    } else {
        do_other(rank, order, verb, words);
    }
}

/* A line of stdin, also while signals come. */
static bool next_order(char line[LINE_ROOM])
{
    for (;;) {
        struct pollfd orders = {.fd = STDIN_FILENO, .events = POLLIN};

        (void)poll(&orders, 1, -1); /* which a sanitizer knows that a signal ends */
        errno = 0;
        if (fgets(line, LINE_ROOM, stdin)) {
            line[strcspn(line, "\n")] = '\0';
            return true;
        }
        if (errno != EINTR) {
            return false;
        }
        clearerr(stdin);
    }
}

static void orders(struct rank *rank, const char *until)
{
    char line[LINE_ROOM];
    char order[LINE_ROOM];

    while (next_order(line)) {
        char *words = line;
        char *verb = strsep(&words, " ");

        (void)snprintf(order, sizeof(order), "%s%s%s", verb, words ? " " : "", words ? words : "");
        if (strcmp(verb, until) == 0) {
            (void)snprintf(rank->how, sizeof(rank->how), "%s", words ? words : "");
            say("%s: ok", order);
            return;
        }
        carry_out(rank, order, verb, words ? words : line + strlen(line));
    }
}

int rank_preempt(int argc, char **argv)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct sigaction action = {.sa_handler = on_term};
    struct rank rank = {0};
    struct muster_error err;

    (void)argc;
    (void)argv;
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* nothing is in it that poll does not see */
    (void)setvbuf(stderr, NULL, _IOLBF, 0);
    if (getenv("PR_HANDLER")) {
        (void)sigaction(SIGTERM, &action, NULL);
    }
    options.log = on_log;
    if (muster_client_open(&rank.client, &options, -1, &err)) {
        give_up("open", &err);
    }
    if (!getenv("PR_EARLY")) {
        open_preempt(&rank);
    }
    say("ready");
    orders(&rank, "end");
    muster_preempt_close(rank.preempt);
    muster_client_close(rank.client);
    return 0;
}
