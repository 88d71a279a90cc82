/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/nodes/replicas.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "launch/job.h"
#include "launch/say.h"
#include "net/rendezvous.h"

#define SLOT_KEY "replica/"
/* So many leases the first nodes are expected, and a node that is not reached does not try again: a
 * minute of the standard lease. */
#define PATIENCE_LEASES 6u

static uint64_t patience_ns(const struct mst_run_job *job)
{
    uint64_t lease_ns;

    mst_lib_lock(job->session.client);
    lease_ns = mst_lib_lease_ns(job->session.client);
    mst_lib_unlock(job->session.client);
    return PATIENCE_LEASES * lease_ns;
}

bool mst_replicas_wanted(const struct mst_run_job *job)
{
    return job->options->replicas > 1 && mst_run_several(job->options);
}

/* ---- what the others say ---- */

void mst_replicas_heard(struct mst_run_job *job, struct mst_slice name,
                        const struct mst_slice *value)
{
    struct mst_slice head = mst_slice_text(SLOT_KEY);
    struct mst_address address;
    uint32_t slot;

    if (!mst_slice_starts_with(name, head) ||
        !mst_run_number_read(mst_slice_from(name, head.size), MST_REPLICAS_MAX - 1, &slot)) {
        return;
    }
    job->replicas.slots[slot][0] = '\0';
    job->replicas.taken[slot] = false;
    if (value && mst_address_parse(&address, *value) == NULL) {
        (void)snprintf(job->replicas.slots[slot], sizeof job->replicas.slots[slot], "%s",
                       address.text);
    }
}

void mst_replicas_reset(struct mst_run_job *job)
{
    memset(job->replicas.slots, 0, sizeof job->replicas.slots);
    memset(job->replicas.taken, 0, sizeof job->replicas.taken);
}

void mst_replicas_list(struct mst_run_job *job, char *list, size_t room)
{
    struct mst_replicas *replicas = &job->replicas;
    size_t size = 0;

    list[0] = '\0';
    mst_shared_lock(&job->shared);
    for (unsigned i = 0; i < MST_REPLICAS_MAX; i++) {
        const char *one = replicas->slots[i];

        if (*one != '\0' && strcmp(one, replicas->address) != 0 && size + strlen(one) + 2 < room) {
            size += (size_t)snprintf(list + size, room - size, "%s%s", size > 0 ? "," : "", one);
        }
    }
    mst_shared_unlock(&job->shared);
    if (size == 0 && !job->nodes.first) { /* no slot is taken: where this node found the service */
        size += (size_t)snprintf(list, room, "%s", job->nodes.addr);
    }
    if (replicas->address[0] != '\0' && job->reach.listener < 0 && /* else it has not begun */
        size + strlen(replicas->address) + 2 < room) {
        (void)snprintf(list + size, room - size, "%s%s", size > 0 ? "," : "", replicas->address);
    }
}

/* ---- where the replica of this node is reached ---- */

/* This machine's own end of the way to `address`, a number. */
static bool own_end(const struct mst_address *address, char *host, size_t room)
{
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof own;
    int fd = socket(address->name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found =
        fd >= 0 &&
        connect(fd, (const struct sockaddr *)(const void *)&address->name, address->size) == 0 &&
        getsockname(fd, (struct sockaddr *)(void *)&own, &size) == 0;
    const void *number = own.ss_family == AF_INET6
                             ? (const void *)&((struct sockaddr_in6 *)(void *)&own)->sin6_addr
                             : (const void *)&((struct sockaddr_in *)(void *)&own)->sin_addr;

    if (fd >= 0) {
        (void)close(fd);
    }
    return found && inet_ntop(own.ss_family, number, host, (socklen_t)room) != NULL;
}

/* As the others see this node: by the way to the service, for that is one that works. */
static bool find_host(const struct mst_run_job *job, char *host, size_t room)
{
    struct mst_slice rest = mst_slice_text(job->nodes.addr);

    while (rest.size > 0) {
        struct mst_address address;

        if (mst_address_parse(&address, mst_slice_cut(&rest, ',')) == NULL &&
            address.kind == MST_ADDRESS_NUMBER && own_end(&address, host, room)) {
            return true;
        }
    }
    return mst_rendezvous_reach("0.0.0.0", host, room);
}

static bool choose_address(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;
    char host[MST_NODES_ADDRESS_MAX];
    uint16_t port = find_host(job, host, sizeof host) ? mst_rendezvous_free_port(host) : 0;

    if (port == 0) {
        replicas->cannot = true;
        mst_say("no replica of the service here: this machine has no address that the other nodes "
                "could reach");
        return false;
    }
    mst_rendezvous_join(host, port, replicas->address, sizeof replicas->address);
    return true;
}

/* ---- slots ---- */

void mst_replicas_first(struct mst_run_job *job)
{
    if (mst_replicas_wanted(job)) {
        mst_text_print(job->replicas.address, sizeof job->replicas.address, "%s",
                       job->service.listen);
    }
}

static void ask(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;

    (void)snprintf(replicas->claim.key, sizeof replicas->claim.key, MST_SESSION_KEYS SLOT_KEY "%u",
                   replicas->slot);
    replicas->asks = true;
    mst_session_write(&job->session, &replicas->claim, replicas->address);
}

void mst_replicas_begin(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;

    mst_shared_lock(&job->shared);
    mst_replicas_reset(job);
    mst_shared_unlock(&job->shared);
    replicas->claim = (struct mst_note){.insert = true, .owned = true};
    replicas->place = (struct mst_note){.insert = false};
    (void)snprintf(replicas->place.key, sizeof replicas->place.key,
                   MST_RUN_REPLICA_PREFIX "%" PRIu32, job->nodes.number);
    replicas->asks = replicas->owns = false;
    replicas->begun_ns = mst_lib_now_ns();
    if (job->nodes.first && mst_replicas_wanted(job)) { /* before another node can join */
        replicas->slot = 0;
        ask(job);
    }
}

/* The first nodes of the run come first, in whatever order all begin: a user knows these hosts.
 * Only for a replica that was there and is lost, or that does not come, another node has one. */
static bool is_due(const struct mst_run_job *job)
{
    const struct mst_replicas *replicas = &job->replicas;

    return job->nodes.number < job->options->replicas || replicas->complete ||
           mst_lib_now_ns() - replicas->begun_ns >= patience_ns(job);
}

/* With the lock held: the first free one. False: there is none, or it is not known yet. */
static bool find_free(const struct mst_run_job *job, unsigned *slot_out)
{
    for (unsigned i = 0; i < job->options->replicas && job->nodes.listed; i++) {
        if (job->replicas.slots[i][0] == '\0' && !job->replicas.taken[i]) {
            *slot_out = i;
            return true;
        }
    }
    return false;
}

/* A node that the others cannot reach has none: as a voter it would be one that is lost. */
static bool is_reached(struct mst_run_job *job)
{
    const enum mst_reach_state state = mst_reach_check(job);

    if (state == MST_REACH_BAD) { /* or the other one was about to be lost */
        job->replicas.again_ns = mst_lib_now_ns() + patience_ns(job);
        job->replicas.address[0] = '\0';
    }
    return state == MST_REACH_GOOD;
}

static void claim(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;
    bool is_free;

    if (!is_due(job) || mst_lib_now_ns() < replicas->again_ns) {
        return;
    }
    mst_shared_lock(&job->shared);
    is_free = find_free(job, &replicas->slot);
    mst_shared_unlock(&job->shared);
    if (!is_free || (replicas->address[0] == '\0' && !choose_address(job)) || !is_reached(job)) {
        return;
    }
    ask(job);
}

/* The claim is answered. Of a slot that another node was faster with the key is on its way. */
static void take_answer(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;
    muster_status status;

    if (!mst_session_told(&job->session, &replicas->claim, &status)) {
        return;
    }
    replicas->asks = false;
    replicas->owns = status == MUSTER_OK;
    replicas->replaces = replicas->owns && (replicas->complete || replicas->slot == 0);
    if (status == MUSTER_EEXISTS) {
        mst_shared_lock(&job->shared);
        replicas->taken[replicas->slot] = replicas->slots[replicas->slot][0] == '\0';
        mst_shared_unlock(&job->shared);
    }
    if (replicas->owns) {
        mst_session_write(&job->session, &replicas->place, replicas->address);
    }
    if (replicas->owns && job->service.served.child.pid == 0) {
        mst_service_start_replica(job);
    }
}

/* ---- this node's own are told ---- */

static bool is_complete(struct mst_run_job *job)
{
    unsigned taken = 0;

    mst_shared_lock(&job->shared);
    for (unsigned i = 0; i < job->options->replicas; i++) {
        taken += job->replicas.slots[i][0] != '\0';
    }
    mst_shared_unlock(&job->shared);
    return taken == job->options->replicas;
}

/* What is typed on a further node: with all addresses, for node 0 may be lost by then. */
static void say_line(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;

    if (!is_complete(job)) {
        replicas->said = false;
        return;
    }
    if (!replicas->said && (job->nodes.first ? !replicas->complete : replicas->replaces)) {
        mst_nodes_say_further(job, replicas->known);
        replicas->replaces = false;
    }
    replicas->said = replicas->complete = true;
}

/* Processes that are started from now on look at all of these, and so do commands. */
static void take_addresses(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;
    struct mst_nodes *nodes = &job->nodes;
    char list[MST_ADDRESSES_TEXT];

    mst_replicas_list(job, list, sizeof list);
    if (list[0] == '\0' || strcmp(list, replicas->known) == 0) {
        return;
    }
    (void)snprintf(replicas->known, sizeof replicas->known, "%s", list);
    if (nodes->first) {
        mst_text_print(nodes->addr, sizeof nodes->addr, "%s,%s", job->service.addr, list);
    } else {
        mst_text_print(nodes->addr, sizeof nodes->addr, "%s", list);
    }
    if (job->environment.entries != NULL) {
        (void)mst_environment_set(&job->environment, "MUSTER_ADDR", nodes->addr);
    }
    mst_nodes_be_found(job);
}

void mst_replicas_look(struct mst_run_job *job)
{
    struct mst_replicas *replicas = &job->replicas;

    if (!mst_replicas_wanted(job) || job->nodes.joining || job->nodes.rejoins || job->end.closing ||
        job->end.how != MST_GOES_ON || job->session.client == NULL) {
        return;
    }
    if (replicas->asks) {
        take_answer(job);
    } else if (!replicas->owns && !replicas->cannot) {
        claim(job);
    }
    mst_reach_look(job);
    take_addresses(job);
    if (!replicas->asks) { /* its own slot might be taken for one that was complete before */
        say_line(job);
    }
}
