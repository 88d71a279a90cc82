/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_REPLICAS_SERVICE_H
#define SIM_REPLICAS_SERVICE_H

/* One process of the service: the real machine, log and core, and a shell as their contracts want
 * it. service.c is the replica: peers, disk, applying, snapshots. serve.c is what the leader does
 * beside it: clients, one entry for each turn. */

#include "oracle.h"
#include "proto/native/arena.h"
#include "service/journal/gather.h"
#include "service/replica/replica.h"

#define REP_CLIENTS_MAX 64u

/* The connection that this process made to another host's service: what it sends goes there. */
struct rep_out {
    struct rep_link *link; /* NULL: none */
    bool greeted;          /* our hello is in `bytes` */
    uint64_t peer;         /* whose hello came back; 0: not yet */
    uint64_t retry_ns;
    struct mst_buffer bytes; /* to be written */
    struct mst_replica_reader reader;
};

/* A connection of another service to this one. */
struct rep_in {
    struct rep_in *next;
    struct rep_link *link;
    uint64_t peer; /* 0: its hello has not come yet */
    char address[8];
    struct mst_buffer bytes; /* our hello */
    struct mst_replica_reader reader;
};

struct rep_client {
    struct rep_link *link; /* NULL: free */
    struct mst_conn conn;
    struct mst_native_service *codec;
    bool admitted; /* the core knows it */
    bool answered; /* something was put into its output since the last flush */
};

/* An own snapshot, of the state as it was at the fork, while its parent goes on. */
struct rep_child {
    bool runs;
    uint64_t born;
    unsigned char *bytes;
    size_t size, room, at;
};

enum rep_exit {
    REP_EXIT_NO = 0,
    REP_EXIT_ENDED,   /* it comes back as a follower */
    REP_EXIT_DIVERGED /* it comes back without its folder */
};

struct rep_service {
    struct rep_actor actor; /* first */
    struct replicas *replicas;
    struct sim_memory memory;
    struct mst_replica_log *log;
    struct mst_replica *replica;
    struct mst_core *core;
    struct mst_native_arena arena;
    uint64_t id;

    uint64_t busy_ns; /* its disk is slow: until when it does nothing else */
    struct rep_out outs[REP_HOSTS_MAX];
    struct rep_in *ins;

    uint64_t observed; /* entries up to here were compared with the truth */
    uint64_t applied;  /* by the core */
    uint64_t core_ns;  /* its time */
    bool touched;      /* something was done to it since it was checked */
    uint64_t skip;     /* entries up to here are in the core that stayed: a planted bug */
    size_t first_configuration_size;
    struct rep_child child;
    uint64_t snapshot_at; /* the entry behind which the next one is due */
    uint64_t voters_ns;   /* when it looks at the voters next */
    enum rep_exit exit;
    bool yields; /* an own snapshot is to be given up for the leader's */
    bool stays;
    bool diverged; /* a fault has changed its core */

    /* The leader. */
    bool leads_due;         /* it may resume */
    bool serves;            /* its RESUME is committed */
    bool fed;               /* since the last entry */
    bool pending;           /* the gathered records could not be submitted yet */
    bool awaits_done;       /* the entry of the turn is committed */
    bool resuming;          /* that entry is the RESUME */
    bool digesting;         /* it is a digest */
    enum mst_weight weight; /* of the turn */
    int64_t shift_ns;       /* from its clock to the core's time */
    struct rep_client clients[REP_CLIENTS_MAX];
    uint64_t conns;
    struct mst_gather gather;
    uint64_t awaits; /* the entry of the turn; 0: no turn is under way */
    uint64_t awaits_term;
    uint64_t awaits_ns;      /* since when */
    struct mst_core *astray; /* a planted bug's */
    uint64_t astray_ns;
    uint64_t digest_at; /* the entry behind which the next digest is due */

    unsigned char first_configuration[1024]; /* the oldest that it has seen */
};

static inline uint64_t rep_service_clock(const struct rep_service *service)
{
    return rep_clock(service->replicas, service->actor.host);
}

/* After each input of the machine: what is committed is compared, effects are carried out. False:
 * the process is dead, or ends. */
bool rep_service_drive(struct rep_service *service);

/* The last thing of whatever the process did: if it ended meanwhile, it is buried. */
void rep_service_after(struct rep_service *service);

/* VOTE_KEPT: on a copy of its disk, as it would be if the process died now. */
void rep_service_has_voted(struct rep_service *service, uint64_t term, uint64_t candidate);

/* "h3" and back */
void rep_address_of(char out[8], uint32_t host);
uint32_t rep_host_at(const char *address);

/* peer.c */
void rep_peers_accept_all(struct rep_service *service);
void rep_peers_turn(struct rep_service *service);
void rep_peers_send(struct rep_service *service, const struct mst_replica_effect *effect);
void rep_peers_fini(struct rep_service *service);

struct mst_core *rep_service_copy(struct rep_service *service); /* of its core; NULL: no memory */

/* serve.c */
void rep_serve_resume(struct rep_service *service);
void rep_serve_turn(struct rep_service *service);
void rep_serve_committed(struct rep_service *service);
void rep_serve_flush(struct rep_service *service);
void rep_serve_accept(struct rep_service *service, struct rep_link *link);
void rep_serve_drop_all(struct rep_service *service);
void rep_serve_fini(struct rep_service *service);
uint64_t rep_serve_deadline_ns(const struct rep_service *service);

#endif
