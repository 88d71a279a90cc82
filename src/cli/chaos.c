/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "cli/strike.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/print.h"
#include "client/shell/items.h"
#include "view/replicas.h"

enum whose { WHOSE_ANY, WHOSE_RANK, WHOSE_WORKER }; /* as --role lists them */

/* Keeps the process frozen until the time is up, it ends, or a signal comes. An exit code. */
static int hold(const struct mst_target *target, struct mst_victim *victim, int signals)
{
    struct pollfd items[] = {{.fd = signals, .events = POLLIN},
                             {.fd = victim->pidfd, .events = POLLIN}};
    struct signalfd_siginfo info = {0};

    (void)poll(items, 2, (int)target->for_ms);
    mst_strike_thaw(target, victim);
    if ((items[0].revents & POLLIN) != 0 &&
        read(signals, &info, sizeof info) == (ssize_t)sizeof info) {
        return 128 + (int)info.ssi_signo;
    }
    return mst_cli_finish_output(target->cli);
}

/* Ranks and workers count their indices apart: where both have it, the rank. */
static const struct muster_member *find(const muster_members *members, int64_t index,
                                        enum whose whose)
{
    const struct muster_member *found = NULL;

    for (size_t i = 0; i < muster_members_count(members); i++) {
        const struct muster_member *member = muster_members_get(members, i);
        enum whose role = member->role == MUSTER_ROLE_RANK ? WHOSE_RANK : WHOSE_WORKER;

        if (member->index == index && mst_strike_lives(member) &&
            (whose == WHOSE_ANY || whose == role) && (!found || role == WHOSE_RANK)) {
            found = member;
        }
    }
    return found;
}

static int strike_victim(const struct mst_target *target, enum mst_strike_kind kind,
                         struct mst_victim *victim)
{
    bool holds = kind == MST_STRIKE_FREEZE && target->for_ms > 0;
    int signals = holds ? mst_strike_catch_signals() : -1;
    int code = mst_strike(target, kind, victim);

    return code == MST_CLI_OK && holds ? hold(target, victim, signals) : code;
}

static int strike(const struct mst_target *target, enum mst_strike_kind kind,
                  const struct muster_member *member)
{
    struct mst_victim victim = mst_strike_victim(member);
    char host[256] = "";

    if (kind != MST_STRIKE_CUT && !mst_strike_reaches(mst_slice_text(member->host))) {
        (void)gethostname(host, sizeof host - 1);
        return mst_cli_fail(target->cli, "#%" PRIu32 " of job '%s' runs on %s; this is %s",
                            member->index, target->place.job, member->host, host);
    }
    return strike_victim(target, kind, &victim);
}

static int strike_index(struct mst_target *target, enum mst_strike_kind kind, int64_t index)
{
    static const char *const named[] = {"", "rank ", "worker "};
    const struct mst_cli *cli = target->cli;
    enum whose whose = (enum whose)mst_cli_number(cli, "role");
    struct muster_error err;
    muster_members *members = NULL;
    const struct muster_member *member;
    int code = mst_cli_observe(cli, &target->client, &target->place);

    if (code != MST_CLI_OK) {
        return code;
    }
    if (muster_member_list(target->client, MST_STRIKE_ANSWER_MS, &members, &err) != MUSTER_OK) {
        code = mst_cli_fail_with(cli, &err);
    } else {
        member = find(members, index, whose);
        code = member ? strike(target, kind, member)
                      : mst_cli_fail(cli, "no living %s#%" PRId64 " in job '%s'", named[whose],
                                     index, target->place.job);
    }
    muster_members_free(members);
    muster_client_close(target->client);
    return code;
}

/* The process that leads the service, on whatever host. */
static int strike_found_leader(struct mst_target *target, enum mst_strike_kind kind,
                               struct mst_slice lines)
{
    struct mst_victim victim = {.service = true, .pidfd = -1};
    struct mst_service_process process;
    struct mst_replica_look leader = {.address = {NULL, 0}};
    const char *job = target->place.job;
    bool replicated = mst_replica_leader(lines, &leader);
    char host[256] = "";

    if (!mst_service_process_read(lines, &process)) {
        return mst_cli_fail(target->cli,
                            "the service of job '%s' does not say which process it is: it is older "
                            "than this muster",
                            job);
    }
    victim.pid = process.pid;
    (void)mst_slice_copy(victim.address, sizeof victim.address, leader.address);
    if (!mst_strike_reaches(process.host)) {
        (void)gethostname(host, sizeof host - 1);
        return mst_cli_fail(target->cli,
                            "the %s of job '%s' runs on %.*s; this is %s: give the command there",
                            replicated ? "leader of the service" : "service", job,
                            MST_SLICE_ARGS(process.host), host);
    }
    return strike_victim(target, kind, &victim);
}

static int strike_leader(struct mst_target *target, enum mst_strike_kind kind)
{
    const struct mst_cli *cli = target->cli;
    struct mst_request request = {.command = MST_JOBS};
    struct mst_items jobs = {.items = NULL};
    struct muster_error err;
    int code = mst_cli_observe(cli, &target->client, &target->place);

    if (code != MST_CLI_OK) {
        return code;
    }
    if (mst_lib_items_collect(target->client, &request, MST_STRIKE_ANSWER_MS, &jobs, &err,
                              "ask which process leads the service") != MUSTER_OK) {
        code = mst_cli_fail_with(cli, &err);
    } else {
        code = strike_found_leader(target, kind, jobs.value);
    }
    mst_items_fini(&jobs);
    muster_client_close(target->client);
    return code;
}

/* A flag that has no effect with this word is refused; otherwise the user would not notice. */
static const char *stray(const struct mst_cli *cli, const char *verb)
{
    static const struct {
        const char *flag, *verbs;
    } takes[] = {{"role", "kill freeze cut"},  {"signal", "kill random"},
                 {"for", "freeze cut random"}, {"seed", "random"},
                 {"rate", "random"},           {"kinds", "random"},
                 {"count", "random"},          {"during", "random"}};

    for (size_t i = 0; i < sizeof takes / sizeof takes[0]; i++) {
        if (mst_cli_typed(cli, takes[i].flag) && !mst_cli_listed(takes[i].verbs, verb)) {
            return takes[i].flag;
        }
    }
    return NULL;
}

static int run(struct mst_cli *cli)
{
    static const struct mst_setting index_row = {
        .unit = MST_UNIT_INDEX, .name = "INDEX", .most = 1000000};
    const char *verb = cli->argument_count > 0 ? cli->arguments[0] : "";
    struct mst_target target = {.cli = cli,
                                .for_ms = mst_cli_number(cli, "for"),
                                .signal = (int)mst_cli_number(cli, "signal"),
                                .began_ns = mst_strike_now_ns()};
    unsigned kind = 0;
    bool random = strcmp(verb, "random") == 0;
    bool leader = cli->argument_count == 2 && strcmp(cli->arguments[1], "leader") == 0;
    const char *flag;
    int64_t index;
    int code;

    while (kind < MST_STRIKE_KINDS && strcmp(verb, mst_strike_word(kind)) != 0) {
        kind++;
    }
    if ((kind == MST_STRIKE_KINDS && !random) || cli->argument_count != (random ? 1 : 2)) {
        return mst_cli_usage(cli, "usage: muster chaos kill|freeze|cut INDEX, muster chaos "
                                  "kill|freeze leader, or muster chaos random");
    }
    if (leader && kind == MST_STRIKE_CUT) {
        return mst_cli_usage(cli,
                             "the service cuts off ranks and workers, not itself: muster chaos "
                             "kill|freeze leader");
    }
    if (leader && mst_cli_typed(cli, "role")) {
        return mst_cli_usage(cli, "--role has no effect on 'chaos %s leader'", verb);
    }
    flag = stray(cli, verb);
    if (flag) {
        return mst_cli_usage(cli, "--%s has no effect on 'chaos %s'", flag, verb);
    }
    target.for_ms = target.for_ms > 0 ? target.for_ms : 0; /* -1: not given */
    if (random) {
        return mst_cli_chaos_random(&target);
    }
    if (leader) {
        return strike_leader(&target, (enum mst_strike_kind)kind);
    }
    code = mst_cli_argument(cli, &index_row, cli->arguments[1] + (cli->arguments[1][0] == '#'),
                            &index);
    return code == MST_CLI_OK ? strike_index(&target, (enum mst_strike_kind)kind, index) : code;
}

const struct mst_cli_command mst_cli_chaos = {
    .name = "chaos",
    .arguments = "kill|freeze|cut INDEX, kill|freeze leader, or random",
    .summary = "kill, freeze or cut off ranks, workers or the service of a job, to test that it "
               "survives",
    .details =
        "kill and freeze send a signal, so the process must run on this machine. cut is "
        "done by the service: it closes the member's connections, on any machine, until the "
        "time is over; a worker keeps the connection to its coordinator. random repeats "
        "this on living ranks and workers until the job ends. INDEX is a rank's, or a "
        "worker's where no rank has it; --role selects one. leader is the service's process, "
        "of several replicas the one that leads; it must run on this machine too, and a "
        "line says on which it runs.",
    .example = "  muster chaos kill 2 -j train\n"
               "  muster chaos freeze 2 --for 5s\n"
               "  muster chaos kill leader\n"
               "  muster chaos random --seed 7 --rate 6/min --kinds kill,cut --during 10m\n",
    .finds_job = true,
    .run = run,
};
