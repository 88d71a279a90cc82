/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_REPLICAS_REPLICAS_H
#define SIM_REPLICAS_REPLICAS_H

/* One run of the simulator of replicas: hosts with disks and clocks, a service on some of them, and
 * members of a job with the real client machine. */

#include "../disk.h"
#include "../sim.h"
#include "client/client.h"
#include "proto/native/native.h"
#include "service/replica/server.h"
#include "wire.h"

#define REP_MEMBERS_MAX 6u
#define REP_VOTERS_MAX 5u

enum rep_fault {
    REP_KILL,    /* a process dies, at any operation of its disk */
    REP_POWER,   /* a host dies, with what was not synced */
    REP_CUT,     /* a path is cut in one direction */
    REP_PART,    /* some hosts are cut off from the others */
    REP_FREEZE,  /* a process stands still for longer than an election takes */
    REP_FULL,    /* a disk is full */
    REP_MEMORY,  /* allocations fail */
    REP_SLOW,    /* a disk is slow */
    REP_BREAK,   /* a connection breaks */
    REP_REPLACE, /* a host is dead for good: another one takes its place */
    REP_DIVERGE, /* the state of a follower is changed by something else */
    REP_FAULTS
};

struct rep_plan {
    uint32_t voters; /* wanted */
    uint32_t hosts;  /* on which a service may run */
    uint32_t members;
    bool grows; /* begins with one voter */
    bool sync;
    bool has[REP_FAULTS];
    uint64_t lease_ns, election_ns, heartbeat_ns;
    uint64_t latency_ns;
    uint64_t patience_ns;    /* of a connection with what it cannot deliver */
    uint64_t write_ns;       /* of a disk, when it is slow */
    uint64_t snapshot_every; /* entries */
    uint64_t digest_every;   /* the same */
    uint64_t trailing;       /* entries kept behind a snapshot */
    uint64_t segment_bytes, chunk_bytes;
    uint64_t pause_ns; /* of a member, between two calls, at most */
    uint64_t chaos_ns, strike_ns;
};

/* ---- what an observer who sees everything knows ---- */

struct rep_truth {
    uint64_t term;
    int type;
    uint64_t bytes; /* their digest */
    uint64_t state; /* the digest of the core behind some of them */
};

#define REP_VOTES 8192u

struct rep_vote {
    uint64_t id, term, candidate;
};

struct rep_oracle {
    struct rep_truth *truths; /* of index 1 at [1] */
    uint64_t last, room;
    struct mst_core *core; /* has applied all of them */
    struct mst_native_arena *arena;
    struct sim_memory memory;
    uint64_t core_ns;                   /* its time */
    uint64_t resumed_ns, resumed_term;  /* of the last RESUME */
    struct mst_replica_servers servers; /* the newest committed configuration */
    struct rep_vote votes[REP_VOTES];
    uint32_t vote_count;
    uint64_t *leaders; /* of each term: the id; 0: none yet */
    uint64_t leader_room;
    /* The longest value that a member was ever shown, and how much of it is known to be there. */
    unsigned char *list;
    size_t list_size, list_room;
    char *acked; /* the token of each append that was answered, where the answer says it is */
    size_t acked_room;
    size_t known;
    uint64_t calm_leads_ns; /* when a leader served in the calm; 0: not yet */
    uint64_t told, commits, snapshots, elections, installs;
};

/* ---- members ---- */

enum rep_op { REP_APPEND, REP_GET, REP_OTHER };

struct rep_member {
    struct rep_actor actor; /* first */
    uint32_t place;
    uint64_t pid;
    struct mst_token token;
    struct mst_client *client;
    struct rep_link *link;
    struct mst_native_client *codec;
    bool ended;
    bool opened;          /* its client knows that its session is open */
    bool stopped;         /* as it was seen last */
    uint64_t reach_ns;    /* since when it could reach a service that leads; SIM_NEVER: it cannot */
    uint64_t incarnation; /* that is committed; 0: none yet */
    uint64_t given_up_ns; /* it was lost by the committed state; 0: it was not */
    uint64_t next_ns;     /* of the next call */
    uint64_t tags;
    bool busy;
    enum rep_op op;
    size_t least; /* the value is at least so long when the call ends */
    char token_text[9];
    uint64_t tokens;
    uint64_t calls;
};

struct rep_service;

struct rep_host {
    uint32_t index;
    struct sim_clock clock;
    struct sim_disk disk;
    bool up, gone;  /* gone: for good */
    bool with_host; /* how its service dies next */
    bool wiped;     /* the folder is to be thrown away: its state had differed */
    uint64_t boot, booted;
    uint64_t down_ns; /* when it went down last */
    uint64_t slow_ns; /* each write takes so long */
    uint64_t id;      /* of the service that was there last */
    uint64_t ids;
    struct rep_service *service;
};

struct replicas {
    struct sim sim; /* first: its clock, its chance, its queue, its story */
    struct rep_plan plan;
    struct rep_wire wire;
    struct rep_oracle oracle;
    struct rep_host hosts[REP_HOSTS_MAX]; /* members live on the same */
    struct rep_member members[REP_MEMBERS_MAX];
    uint64_t pids;
};

static inline struct replicas *rep_of(struct sim *sim)
{
    return (struct replicas *)(void *)sim;
}

static inline uint64_t rep_clock(const struct replicas *replicas, uint32_t host)
{
    return sim_clock_read(&replicas->hosts[host].clock, replicas->sim.now_ns);
}

/* plan.c */
void rep_plan_draw(struct replicas *replicas);
void rep_chaos_start(struct replicas *replicas);
void rep_calm(struct replicas *replicas);
bool rep_host_dies(struct replicas *replicas, uint32_t index); /* with its service? */

/* member.c */
void rep_member_begin(struct replicas *replicas, uint32_t place, uint32_t host);
void rep_member_kill(struct replicas *replicas, struct rep_member *member, bool with_host);
void rep_member_fini(struct replicas *replicas, struct rep_member *member);

/* service.c */
void rep_service_start(struct replicas *replicas, uint32_t host);
void rep_service_kill(struct replicas *replicas, uint32_t host, bool with_host);
void rep_service_fini(struct replicas *replicas, uint32_t host);
struct rep_actor *rep_service_actor(struct replicas *replicas, uint32_t host); /* NULL: none */
void rep_service_diverge(struct replicas *replicas, uint32_t host);
bool rep_service_frozen(const struct replicas *replicas, uint32_t host);
bool rep_service_serves(const struct replicas *replicas, uint32_t host);

#endif
