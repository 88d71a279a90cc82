/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/strike.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/print.h"
#include "client/shell/call.h"
#include "os/clock.h"

#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

uint64_t mst_strike_now_ns(void)
{
    return mst_clock_ns(CLOCK_MONOTONIC);
}

int mst_strike_catch_signals(void)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

/* ---- the target ---- */

bool mst_strike_lives(const struct muster_member *member)
{
    return (member->role == MUSTER_ROLE_RANK || member->role == MUSTER_ROLE_WORKER) &&
           (member->state == MUSTER_MEMBER_JOINING || member->state == MUSTER_MEMBER_PRESENT ||
            member->state == MUSTER_MEMBER_SILENT || member->state == MUSTER_MEMBER_SPARE);
}

bool mst_strike_reaches(struct mst_slice host)
{
    char own[HOST_NAME_MAX + 1] = "";

    (void)gethostname(own, sizeof own - 1);
    return mst_slice_is(host, own);
}

struct mst_victim mst_strike_victim(const struct muster_member *member)
{
    return (struct mst_victim){.worker = member->role == MUSTER_ROLE_WORKER,
                               .index = member->index,
                               .rank = member->rank,
                               .incarnation = member->incarnation,
                               .pid = member->pid,
                               .pidfd = -1};
}

/* ---- output ---- */

/* "the leader (b2:7000, pid 71) of the service of job 'train'", or "the service (pid 71) of job
 * 'train'" */
static const char *name_service(const struct mst_target *target, const struct mst_victim *victim,
                                char *text, size_t room)
{
    if (victim->address[0] != '\0') {
        (void)mst_text_print(
            text, room, "the leader (%.*s, pid %" PRIu64 ") of the service of job '%.*s'",
            MST_TEXT_ARGS(victim->address), victim->pid, MST_TEXT_ARGS(target->place.job));
    } else {
        (void)mst_text_print(text, room, "the service (pid %" PRIu64 ") of job '%.*s'", victim->pid,
                             MST_TEXT_ARGS(target->place.job));
    }
    return text;
}

/* "#2 (rank 2, pid 71) of job 'train'", or "#2 (worker, pid 71) ..." */
static const char *name(const struct mst_target *target, const struct mst_victim *victim,
                        char *text, size_t room)
{
    char rank[32] = "";

    if (victim->service) {
        return name_service(target, victim, text, room);
    }
    if (victim->worker) {
        (void)snprintf(rank, sizeof rank, "worker, ");
    } else if (victim->rank != MUSTER_RANK_NONE) {
        (void)snprintf(rank, sizeof rank, "rank %" PRIu32 ", ", victim->rank);
    }
    (void)snprintf(text, room, "#%" PRIu32 " (%spid %" PRIu64 ") of job '%s'", victim->index, rank,
                   victim->pid, target->place.job);
    return text;
}

static const char *role(const struct mst_victim *victim)
{
    if (victim->service) {
        return "service";
    }
    return victim->worker ? "worker" : "rank";
}

/* One line, flushed at once. `key` is the JSON name of `number`. */
__attribute__((format(printf, 6, 7))) static int say(const struct mst_target *target,
                                                     const struct mst_victim *victim,
                                                     const char *strike, const char *key,
                                                     int64_t number, const char *format, ...)
{
    uint64_t at_ms = (mst_strike_now_ns() - target->began_ns) / NS_PER_MS;
    char line[1024];
    va_list args;

    if (mst_cli_number(target->cli, "json")) {
        bool indexed = !victim->service;
        bool ranked = indexed && victim->rank != MUSTER_RANK_NONE;

        mst_cli_json_print(mst_cli_json_object(
            (struct mst_cli_field[]){{"at_ms", json_integer((json_int_t)at_ms)},
                                     {"strike", json_string(strike)},
                                     {"job", mst_cli_json_text(target->place.job)},
                                     {"role", json_string(role(victim))},
                                     {"index", indexed ? json_integer(victim->index) : json_null()},
                                     {"rank", ranked ? json_integer(victim->rank) : json_null()},
                                     {"pid", json_integer((json_int_t)victim->pid)},
                                     {key, json_integer(number)},
                                     {NULL, NULL}}));
        return mst_cli_finish_output(target->cli);
    }
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (target->at_random) {
        mst_cli_put("%7.3f s: ", (double)at_ms / 1000);
    }
    mst_cli_say("%.*s\n", MST_TEXT_ARGS(line));
    return mst_cli_finish_output(target->cli);
}

static int fail(const struct mst_target *target, const struct mst_victim *victim)
{
    const int error = errno;
    char who[512];

    if (target->at_random && error == ESRCH) {
        return MST_CLI_FAILED;
    }
    if (victim->service) {
        return mst_cli_fail(target->cli, "%s: %s", name(target, victim, who, sizeof who),
                            strerror(error));
    }
    return mst_cli_fail(target->cli, "#%" PRIu32 " of job '%s', pid %" PRIu64 ": %s", victim->index,
                        target->place.job, victim->pid, strerror(error));
}

/* ---- to its process ---- */

static bool send_signal(const struct mst_victim *victim, int number)
{
    if (victim->pidfd >= 0) {
        return syscall(SYS_pidfd_send_signal, victim->pidfd, number, NULL, 0) == 0;
    }
    errno = ESRCH;
    return victim->pid > 0 && victim->pid <= INT32_MAX && kill((pid_t)victim->pid, number) == 0;
}

static int kill_it(const struct mst_target *target, struct mst_victim *victim)
{
    char who[512];

    if (!send_signal(victim, target->signal)) {
        return fail(target, victim);
    }
    return say(target, victim, "kill", "signal", target->signal, "signal %d (%s) sent to %s",
               target->signal, strsignal(target->signal), name(target, victim, who, sizeof who));
}

static int freeze(const struct mst_target *target, struct mst_victim *victim)
{
    char who[512], until[64] = "";
    int code;

    if (victim->pid > 0 && victim->pid <= INT32_MAX) {
        victim->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)victim->pid, 0);
        victim->whole = victim->pidfd < 0 && errno == ENOSYS;
    }
    if (!send_signal(victim, SIGSTOP)) {
        return fail(target, victim);
    }
    if (target->for_ms > 0) {
        (void)snprintf(until, sizeof until, ", for %.3f s", (double)target->for_ms / 1000);
    }
    code = say(target, victim, "freeze", "for_ms", target->for_ms, "signal %d (%s) sent to %s%s",
               SIGSTOP, strsignal(SIGSTOP), name(target, victim, who, sizeof who), until);
    victim->frozen_ns = mst_strike_now_ns();
    return code;
}

void mst_strike_thaw(const struct mst_target *target, struct mst_victim *victim)
{
    uint64_t frozen_ms = (mst_strike_now_ns() - victim->frozen_ns) / NS_PER_MS;
    struct pollfd item = {.fd = victim->pidfd, .events = POLLIN};
    /* A process that has ended and not been waited for takes signals as well. */
    bool ended = victim->pidfd >= 0 ? poll(&item, 1, 0) == 1 : !victim->whole;
    bool went_on = !ended && send_signal(victim, SIGCONT);
    double seconds = (double)frozen_ms / 1000;
    char who[512];

    (void)name(target, victim, who, sizeof who);
    if (went_on) {
        (void)say(target, victim, "thaw", "after_ms", (int64_t)frozen_ms,
                  "signal %d (%s) sent to %s after %.3f s", SIGCONT, strsignal(SIGCONT), who,
                  seconds);
    } else {
        (void)say(target, victim, "ended", "after_ms", (int64_t)frozen_ms,
                  "%s has ended while it was frozen, within %.3f s", who, seconds);
    }
    if (victim->pidfd >= 0) {
        (void)close(victim->pidfd);
        victim->pidfd = -1;
    }
}

/* ---- to its network ---- */

static muster_status take_number(struct mst_call *call, const struct mst_reply *reply)
{
    *(int64_t *)call->out = reply->number;
    return reply->status;
}

static int cut(const struct mst_target *target, struct mst_victim *victim)
{
    char what[64], who[256], until[64] = "";
    struct muster_error err;
    int64_t spoke = 0;
    struct mst_lib_how how = mst_lib_blocking(&err);
    struct mst_call call = {.client = target->client,
                            .what = what,
                            .timeout_ms = MST_STRIKE_ANSWER_MS,
                            .request = {.command = MST_CUT,
                                        .cut = {.index = victim->index,
                                                .worker = victim->worker,
                                                .incarnation = victim->incarnation,
                                                .for_ms = (uint64_t)target->for_ms}},
                            .take = take_number,
                            .out = &spoke};

    (void)snprintf(what, sizeof what, "cut the network of #%" PRIu32, victim->index);
    if (mst_lib_make(&call, &how) != MUSTER_OK) {
        return target->at_random && err.status == MUSTER_ENOTFOUND
                   ? MST_CLI_FAILED
                   : mst_cli_fail_with(target->cli, &err);
    }
    if (target->for_ms > 0) {
        (void)snprintf(until, sizeof until, " for %.3f s", (double)target->for_ms / 1000);
    }
    return say(target, victim, "cut", "for_ms", target->for_ms, "the network of %s is cut%s%s",
               name(target, victim, who, sizeof who), until,
               spoke ? "" : "; it was silent already");
}

int mst_strike(const struct mst_target *target, enum mst_strike_kind kind,
               struct mst_victim *victim)
{
    static int (*const strikes[])(const struct mst_target *target, struct mst_victim *victim) = {
        [MST_STRIKE_KILL] = kill_it, [MST_STRIKE_FREEZE] = freeze, [MST_STRIKE_CUT] = cut};

    return strikes[kind](target, victim);
}
