/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cli/print.h"
#include "cli/strike.h"

enum {
    LOOK_MS = 500,    /* whether there is still a job */
    AWAY_MS = 10000,  /* a service that is away for longer will not be back */
    ANSWER_MS = 2000, /* of one attempt to ask it */
    BACK_MS = 100,    /* in which one that is restarted has its socket again */
    FROZEN_MAX = 4096 /* at a time */
};

struct frozen {
    struct mst_victim victim;
    uint64_t until_ns;
};

enum ending { GOES_ON, STOPPED, ENOUGH, TIME, JOB };

static const struct {
    const char *word, *sentence;
} endings[] = {[STOPPED] = {"stopped", "stopped"},
               [ENOUGH] = {"count", "that is enough"},
               [TIME] = {"time", "the time is over"},
               [JOB] = {"job", "the job has ended"}};

struct chaos {
    struct mst_target *target;
    struct mst_schedule schedule;
    uint64_t seed;
    int64_t count, during_ms; /* -1: not given */
    int signals;
    uint64_t due_ns; /* the next strike */
    struct mst_strike_plan plan;
    struct frozen *frozen;
    size_t frozen_count;
    int64_t strikes, of_kind[MST_STRIKE_KINDS];
    enum ending ending;
};

/* ---- frozen processes ---- */

static void thaw(struct chaos *chaos, size_t i)
{
    struct frozen *frozen = &chaos->frozen[i];

    mst_strike_thaw(chaos->target, &frozen->victim);
    *frozen = chaos->frozen[--chaos->frozen_count];
}

static void thaw_due(struct chaos *chaos, uint64_t now_ns)
{
    for (size_t i = chaos->frozen_count; i-- > 0;) {
        if (chaos->frozen[i].until_ns <= now_ns) {
            thaw(chaos, i);
        }
    }
}

/* ---- the job ---- */

/* The socket was removed: the run that owned the job has ended. A run that restarts its service
 * leaves the socket there, or has it back at once. */
static bool socket_is_gone(const struct mst_target *target)
{
    const char *path = target->place.addr;

    if (strncmp(path, "unix:", 5) != 0 || strchr(path, ',')) {
        return false;
    }
    return access(path + 5, F_OK) != 0 && errno == ENOENT;
}

static bool job_is_gone(const struct mst_target *target)
{
    if (!socket_is_gone(target)) {
        return false;
    }
    (void)poll(NULL, 0, BACK_MS);
    return socket_is_gone(target);
}

static bool can_strike(const struct muster_member *member, enum mst_strike_kind kind)
{
    return mst_strike_lives(member) &&
           (kind == MST_STRIKE_CUT || mst_strike_reaches(mst_slice_text(member->host)));
}

/* Ranks and workers, or an agent that starts them. */
static bool is_alive(const muster_members *members)
{
    bool alive = false;

    for (size_t i = 0; i < muster_members_count(members) && !alive; i++) {
        const struct muster_member *member = muster_members_get(members, i);

        alive = mst_strike_lives(member) ||
                (member->role == MUSTER_ROLE_AGENT &&
                 (member->state == MUSTER_MEMBER_PRESENT || member->state == MUSTER_MEMBER_SILENT));
    }
    return alive;
}

/* The members, however often the service dies meanwhile. NULL: the job has ended. */
static muster_members *members_of(struct chaos *chaos)
{
    uint64_t until_ns = mst_strike_now_ns() + AWAY_MS * NS_PER_MS;
    muster_members *members = NULL;
    struct muster_error err = {.status = MUSTER_OK};

    while (!members && err.status != MUSTER_EFENCED && mst_strike_now_ns() < until_ns &&
           !job_is_gone(chaos->target)) {
        (void)!muster_member_list(chaos->target->client, ANSWER_MS, &members, &err);
    }
    if (members && is_alive(members)) {
        return members;
    }
    muster_members_free(members);
    chaos->ending = JOB;
    return NULL;
}

static const struct muster_member *choose(const muster_members *members,
                                          const struct mst_strike_plan *plan)
{
    const struct muster_member *chosen = NULL;
    uint64_t living = 0, pick;

    for (size_t i = 0; i < muster_members_count(members); i++) {
        living += can_strike(muster_members_get(members, i), plan->kind);
    }
    if (living == 0) {
        return NULL;
    }
    pick = plan->pick % living;
    for (size_t i = 0; i < muster_members_count(members) && !chosen; i++) {
        const struct muster_member *member = muster_members_get(members, i);

        if (can_strike(member, plan->kind) && pick-- == 0) {
            chosen = member;
        }
    }
    return chosen;
}

/* Ranks or workers are alive, but none of the kinds can reach one. */
static bool is_out_of_reach(const struct chaos *chaos, const muster_members *members)
{
    bool lives = false, reached = false;

    for (size_t i = 0; i < muster_members_count(members); i++) {
        const struct muster_member *member = muster_members_get(members, i);

        lives = lives || mst_strike_lives(member);
        for (uint32_t k = 0; k < chaos->schedule.kind_count; k++) {
            reached = reached || can_strike(member, chaos->schedule.kinds[k]);
        }
    }
    return lives && !reached;
}

/* ---- striking ---- */

static int strike_member(struct chaos *chaos, const struct muster_member *member)
{
    struct mst_victim victim = mst_strike_victim(member);
    uint64_t for_ms = (uint64_t)chaos->target->for_ms;
    bool freezes = chaos->plan.kind == MST_STRIKE_FREEZE;
    int code;

    if (freezes && chaos->frozen_count == FROZEN_MAX) {
        thaw(chaos, 0); /* to make room */
    }
    code = mst_strike(chaos->target, chaos->plan.kind, &victim);
    if (freezes && code == MST_CLI_OK && for_ms > 0) {
        chaos->frozen[chaos->frozen_count++] =
            (struct frozen){.victim = victim, .until_ns = mst_after_ms(victim.frozen_ns, for_ms)};
    } else if (victim.pidfd >= 0) {
        (void)close(victim.pidfd);
    }
    return code;
}

static void plan_next(struct chaos *chaos)
{
    chaos->plan = mst_schedule_next(&chaos->schedule);
    chaos->due_ns += chaos->plan.gap_ms * NS_PER_MS;
}

/* The chosen process may just have ended. Then this strike has no effect, and the schedule
 * continues unchanged. */
static void strike(struct chaos *chaos)
{
    muster_members *members = members_of(chaos);
    const struct muster_member *member;

    if (!members) {
        return;
    }
    member = choose(members, &chaos->plan);
    if (member && strike_member(chaos, member) == MST_CLI_OK) {
        chaos->strikes++;
        chaos->of_kind[chaos->plan.kind]++;
    }
    muster_members_free(members);
    plan_next(chaos);
    if (chaos->strikes == chaos->count) {
        chaos->ending = ENOUGH;
    }
}

/* Until something is to be done. */
static void rest(struct chaos *chaos, uint64_t end_ns, uint64_t look_ns)
{
    uint64_t now_ns = mst_strike_now_ns();
    uint64_t until_ns = mst_sooner(mst_sooner(chaos->due_ns, end_ns), look_ns);
    struct pollfd item = {.fd = chaos->signals, .events = POLLIN};

    for (size_t i = 0; i < chaos->frozen_count; i++) {
        until_ns = mst_sooner(until_ns, chaos->frozen[i].until_ns);
    }
    if (poll(&item, 1, (int)mst_ms_until(until_ns, now_ns)) == 1) {
        chaos->ending = STOPPED;
    }
}

static void rage(struct chaos *chaos)
{
    uint64_t began_ns = chaos->target->began_ns;
    uint64_t end_ns =
        chaos->during_ms > 0 ? began_ns + (uint64_t)chaos->during_ms * NS_PER_MS : UINT64_MAX;
    uint64_t look_ns = began_ns + LOOK_MS * NS_PER_MS;

    chaos->due_ns = began_ns;
    plan_next(chaos);
    while (chaos->ending == GOES_ON) {
        uint64_t now_ns = mst_strike_now_ns();

        thaw_due(chaos, now_ns);
        if (now_ns >= end_ns) {
            chaos->ending = TIME;
        } else if (now_ns >= chaos->due_ns) {
            strike(chaos);
        } else if (now_ns >= look_ns) {
            muster_members_free(members_of(chaos));
            look_ns = mst_strike_now_ns() + LOOK_MS * NS_PER_MS;
        } else {
            rest(chaos, end_ns, look_ns);
        }
    }
}

/* ---- the command ---- */

static int sum_up(const struct chaos *chaos)
{
    uint64_t ms = (mst_strike_now_ns() - chaos->target->began_ns) / NS_PER_MS;

    if (mst_cli_number(chaos->target->cli, "json")) {
        mst_cli_json_print(mst_cli_json_object(
            (struct mst_cli_field[]){{"at_ms", json_integer((json_int_t)ms)},
                                     {"strikes", json_integer(chaos->strikes)},
                                     {"kill", json_integer(chaos->of_kind[MST_STRIKE_KILL])},
                                     {"freeze", json_integer(chaos->of_kind[MST_STRIKE_FREEZE])},
                                     {"cut", json_integer(chaos->of_kind[MST_STRIKE_CUT])},
                                     {"seed", json_integer((json_int_t)chaos->seed)},
                                     {"ended", json_string(endings[chaos->ending].word)},
                                     {NULL, NULL}}));
    } else {
        mst_cli_put("%7.3f s: %s: %" PRId64 " strike%s (kill %" PRId64 ", freeze %" PRId64
                    ", cut %" PRId64 "), seed %" PRIu64 "\n",
                    (double)ms / 1000, endings[chaos->ending].sentence, chaos->strikes,
                    chaos->strikes == 1 ? "" : "s", chaos->of_kind[MST_STRIKE_KILL],
                    chaos->of_kind[MST_STRIKE_FREEZE], chaos->of_kind[MST_STRIKE_CUT], chaos->seed);
    }
    return mst_cli_finish_output(chaos->target->cli);
}

static void introduce(const struct chaos *chaos)
{
    if (!mst_cli_number(chaos->target->cli, "json")) {
        mst_cli_say("striking the members of job '%.*s' at random: %s, %s, seed %" PRIu64 "\n",
                    MST_TEXT_ARGS(chaos->target->place.job),
                    mst_cli_text(chaos->target->cli, "kinds"),
                    mst_cli_text(chaos->target->cli, "rate"), chaos->seed);
        (void)fflush(stdout);
    }
}

/* Without --seed a random one is drawn, small enough to be typed again. */
static uint64_t seed_of(const struct mst_cli *cli)
{
    uint32_t drawn = 0;

    if (mst_cli_number(cli, "seed") >= 0) {
        return (uint64_t)mst_cli_number(cli, "seed");
    }
    return getrandom(&drawn, sizeof drawn, 0) == (ssize_t)sizeof drawn ? drawn
                                                                       : mst_strike_now_ns();
}

static int begin(struct chaos *chaos)
{
    const struct mst_cli *cli = chaos->target->cli;
    const char *rate = mst_cli_text(cli, "rate"), *kinds = mst_cli_text(cli, "kinds");

    if (!mst_schedule_parse_rate(&chaos->schedule, rate)) {
        return mst_cli_usage(cli, "--rate is '%s', and should be a number per min, s or h: 6/min",
                             rate);
    }
    if (!mst_schedule_parse_kinds(&chaos->schedule, kinds)) {
        return mst_cli_usage(cli, "--kinds is '%s', and should be some of kill,freeze,cut", kinds);
    }
    chaos->seed = seed_of(cli);
    chaos->schedule.prng.state = chaos->seed;
    chaos->count = mst_cli_number(cli, "count");
    chaos->during_ms = mst_cli_number(cli, "during");
    chaos->frozen = malloc(FROZEN_MAX * sizeof *chaos->frozen);
    if (!chaos->frozen) {
        return mst_cli_fail(cli, "out of memory");
    }
    chaos->signals = mst_strike_catch_signals();
    return mst_cli_observe(cli, &chaos->target->client, &chaos->target->place);
}

int mst_cli_chaos_random(struct mst_target *target)
{
    struct chaos chaos = {.target = target, .signals = -1};
    const struct mst_cli *cli = target->cli;
    muster_members *members;
    int code;

    target->at_random = true;
    code = begin(&chaos);
    if (code != MST_CLI_OK) {
        free(chaos.frozen);
        return code;
    }
    members = members_of(&chaos);
    if (!members) {
        code = mst_cli_fail(cli, "job '%s' has no living members", target->place.job);
    } else if (is_out_of_reach(&chaos, members)) {
        code =
            mst_cli_fail(cli,
                         "no rank or worker of job '%s' runs on this machine; only cut reaches the "
                         "others",
                         target->place.job);
    } else {
        introduce(&chaos);
        target->began_ns = mst_strike_now_ns();
        rage(&chaos);
        while (chaos.frozen_count > 0) {
            thaw(&chaos, chaos.frozen_count - 1);
        }
        code = sum_up(&chaos);
    }
    muster_members_free(members);
    muster_client_close(target->client);
    free(chaos.frozen);
    return code;
}
