/* SPDX-License-Identifier: Apache-2.0 */
#include "service/replica/voters.h"

#include <string.h>

#include "base/panic.h"

/* What one decision is made from. */
struct view {
    const struct mst_voters_wanted *wanted;
    const struct mst_replica_servers *servers;
    const struct mst_voters_progress *progress;
    uint64_t self;
    size_t voters, dead;    /* voters, and those of them that are dead */
    size_t standbys, heard; /* that live, and those of them that answer */
    size_t current;         /* of these, those that could vote now */
    size_t target;          /* voters that are wanted */
};

static const struct mst_voters_present *present(const struct view *view, uint64_t id)
{
    for (size_t i = 0; i < view->wanted->count; i++) {
        if (view->wanted->present[i].id == id) {
            return &view->wanted->present[i];
        }
    }
    return NULL;
}

static bool lives(const struct view *view, const struct mst_replica_server *member)
{
    return member->id == view->self || present(view, member->id);
}

static struct view look(const struct mst_voters_wanted *wanted,
                        const struct mst_replica_servers *servers,
                        const struct mst_voters_progress *progress, uint64_t self)
{
    struct view view = {
        .wanted = wanted, .servers = servers, .progress = progress, .self = self, .target = 1};

    if (wanted->voters > 1) {
        view.target = wanted->voters - (wanted->voters % 2 == 0);
    }
    for (size_t i = 0; i < servers->count; i++) {
        const struct mst_replica_server *member = &servers->of[i];
        bool alive = lives(&view, member);

        if (member->role == MST_REPLICA_VOTER) {
            view.voters++;
            view.dead += !alive;
        } else if (alive) {
            view.standbys++;
            view.heard += progress[i].heard;
            view.current += progress[i].current && progress[i].heard;
        }
    }
    return view;
}

static struct mst_voters_decision decide(enum mst_voters_step step, uint64_t id)
{
    return (struct mst_voters_decision){.step = step, .id = id};
}

static const struct mst_voters_decision nothing = {.step = MST_VOTERS_NONE};

/* The dead first, then a voter that does not answer, then the last one; never the leader. */
static struct mst_voters_decision remove_voter(const struct view *view)
{
    const struct mst_replica_server *worst = NULL;
    int best = 0;

    for (size_t i = 0; i < view->servers->count; i++) {
        const struct mst_replica_server *member = &view->servers->of[i];
        int badness = !lives(view, member) ? 3 : !view->progress[i].heard ? 2 : 1;

        if (member->role == MST_REPLICA_VOTER && member->id != view->self && badness >= best) {
            best = badness;
            worst = member;
        }
    }
    return worst ? decide(MST_VOTERS_REMOVE, worst->id) : nothing;
}

/* A member whose address is another one's by now: it never returns. */
static struct mst_voters_decision remove_returned(const struct view *view)
{
    for (size_t i = 0; i < view->servers->count; i++) {
        const struct mst_replica_server *member = &view->servers->of[i];

        for (size_t k = 0; k < view->wanted->count && !lives(view, member); k++) {
            if (mst_slice_is(mst_slice_text(member->address), view->wanted->present[k].address)) {
                return decide(MST_VOTERS_REMOVE, member->id);
            }
        }
    }
    return nothing;
}

static struct mst_voters_decision remove_standby(const struct view *view, bool dead_only)
{
    for (size_t i = 0; i < view->servers->count; i++) {
        const struct mst_replica_server *member = &view->servers->of[i];

        if (member->role == MST_REPLICA_STANDBY && (!dead_only || !lives(view, member))) {
            return decide(MST_VOTERS_REMOVE, member->id);
        }
    }
    return nothing;
}

/* On the host of another one: of a living member, or of a candidate before it. */
static bool host_is_taken(const struct view *view, size_t candidate)
{
    struct mst_slice host = view->wanted->present[candidate].host;

    for (size_t i = 0; i < view->wanted->count && host.size > 0; i++) {
        const struct mst_voters_present *other = &view->wanted->present[i];
        bool member = mst_replica_servers_find(view->servers, other->id) != NULL;

        if (i != candidate && (member || i < candidate) && mst_slice_equal(host, other->host)) {
            return true;
        }
    }
    return false;
}

/* A configuration has each address once. While the former id of a replica that has begun anew is
 * still present, its address is that of two. */
static bool address_is_taken(const struct view *view, size_t candidate)
{
    struct mst_slice address = mst_slice_text(view->wanted->present[candidate].address);

    for (size_t i = 0; i < view->servers->count; i++) {
        if (mst_slice_is(address, view->servers->of[i].address)) {
            return true;
        }
    }
    for (size_t i = 0; i < candidate; i++) {
        if (mst_slice_is(address, view->wanted->present[i].address)) {
            return true;
        }
    }
    return false;
}

static bool is_candidate(const struct view *view, size_t i)
{
    return !mst_replica_servers_find(view->servers, view->wanted->present[i].id) &&
           !host_is_taken(view, i) && !address_is_taken(view, i);
}

static size_t candidates(const struct view *view)
{
    size_t count = 0;

    for (size_t i = 0; i < view->wanted->count; i++) {
        count += is_candidate(view, i);
    }
    return count;
}

static struct mst_voters_decision add(const struct view *view)
{
    for (size_t i = 0; i < view->wanted->count; i++) {
        if (is_candidate(view, i) && view->servers->count < MST_REPLICA_SERVERS_MAX) {
            struct mst_voters_decision decision =
                decide(MST_VOTERS_ADD, view->wanted->present[i].id);

            decision.address = view->wanted->present[i].address;
            return decision;
        }
    }
    return nothing;
}

static struct mst_voters_decision promote(const struct view *view)
{
    for (size_t i = 0; i < view->servers->count; i++) {
        const struct mst_replica_server *member = &view->servers->of[i];

        if (member->role == MST_REPLICA_STANDBY && lives(view, member) &&
            view->progress[i].current && view->progress[i].heard) {
            return decide(MST_VOTERS_PROMOTE, member->id);
        }
    }
    return nothing;
}

static struct mst_voters_decision catch_up(const struct view *view)
{
    for (size_t i = 0; i < view->servers->count; i++) {
        const struct mst_replica_server *member = &view->servers->of[i];

        if (member->role == MST_REPLICA_STANDBY && lives(view, member) && view->progress[i].heard &&
            !view->progress[i].current && !view->progress[i].catching) {
            return decide(MST_VOTERS_CATCH_UP, member->id);
        }
    }
    return nothing;
}

/* Voters that are missing: no more than would make an odd number with all that there are. */
static size_t missing(const struct view *view)
{
    size_t living = view->voters - view->dead;
    size_t could = living + view->standbys + candidates(view);
    size_t goal = could < view->target ? could - (could % 2 == 0) : view->target;

    return goal > living ? goal - living : 0;
}

struct mst_voters_decision mst_voters_next(const struct mst_voters_wanted *wanted,
                                           const struct mst_replica_servers *servers,
                                           const struct mst_voters_progress *progress,
                                           uint64_t self)
{
    struct view view = look(wanted, servers, progress, self);
    struct mst_voters_decision decision = remove_returned(&view);
    size_t lacks = missing(&view);

    if (decision.step == MST_VOTERS_NONE) {
        decision = remove_standby(&view, true);
    }
    if (decision.step == MST_VOTERS_NONE && view.voters > view.target) {
        decision = remove_voter(&view);
    }
    if (decision.step != MST_VOTERS_NONE) {
        return decision;
    }
    if (lacks == 0) {
        return remove_standby(&view, false);
    }
    /* One that does not answer is not waited for while there are others. */
    if (view.heard < lacks) {
        decision = add(&view);
        if (decision.step != MST_VOTERS_NONE) {
            return decision;
        }
    }
    /* An odd group without a dead voter grows by two, or not at all. */
    if (view.current > 0 && (view.dead > 0 || view.voters % 2 == 0 || view.current >= 2)) {
        return promote(&view);
    }
    return catch_up(&view);
}

void mst_voters_apply(struct mst_replica_servers *servers, struct mst_voters_decision decision)
{
    size_t at = 0;

    while (at < servers->count && servers->of[at].id != decision.id) {
        at++;
    }
    if (decision.step == MST_VOTERS_ADD) {
        struct mst_replica_server *server = &servers->of[servers->count];

        MST_ASSERT(at == servers->count && servers->count < MST_REPLICA_SERVERS_MAX);
        *server = (struct mst_replica_server){.id = decision.id, .role = MST_REPLICA_STANDBY};
        (void)mst_slice_copy(server->address, sizeof server->address,
                             mst_slice_text(decision.address));
        servers->count++;
        return;
    }
    MST_ASSERT(at < servers->count);
    if (decision.step == MST_VOTERS_PROMOTE) {
        servers->of[at].role = MST_REPLICA_VOTER;
    } else if (decision.step == MST_VOTERS_REMOVE) {
        servers->count--;
        memmove(&servers->of[at], &servers->of[at + 1],
                (servers->count - at) * sizeof servers->of[0]);
    }
}
