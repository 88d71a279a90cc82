/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_NODES_H
#define MST_LAUNCH_NODES_H

/* This node among the others of the run. They meet in the service of node 0, and speak to each
 * other through keys of the job under "muster/run/":
 *
 *   nproc, nodes_max, ...  what the run is, written by node 0 before anybody joins
 *   avoid/HOST             a host that is to be kept out
 *   all                    what the others must know of all nodes, as node 0 sees them
 *   restarts               how many processes, nodes and groups were started again so far, by all
 *   life/NUMBER            all ranks are started again, for the NUMBERth time, and why (group.h)
 *   master_port            where ranks of torch meet, chosen by node 0 for each life
 *   finished/LIFE          a rank that was in a generation has ended well in that life
 *   replica/SLOT           where a replica of the service is (replicas.h)
 *   reach/, reached/       whether the others can reach one (reach.h)
 *   end                    the run ends: NUMBER of the node that decided it, signal for the ranks
 *   cause                  exit code, and the line that says why: what everybody's last line is;
 *                          and on a line of its own what the reports say of it (report.h)
 *
 * and under "muster/run-node/", which node 0 alone follows:
 *
 *   NUMBER                 how far a node is: runs, waits, done; and in which life it is
 *
 * proto/run_keys.h reads them.
 * These and `all` vanish with the agent that wrote them.
 *
 * Of members and nodes each follows its own, and node 0 all: else every change would be told to
 * everybody. Where `all` is gone, for node 0 is, or where a rank is not started again and it
 * matters how many are left, a node follows everything from then on.
 *
 * A node whose ranks are done waits for the others. The run is over when every node that is there
 * is done, or when `end` was told. Then the others leave, and node 0 stops the service last. */

#include <stdatomic.h>
#include <uv.h>

#include "launch/session.h"
#include "net/address.h"
#include "proto/run_keys.h"

#define MST_NODES_ADDRESS_MAX 280u
#define MST_NODES_PATH_MAX 4096u

struct mst_peer {
    bool seen; /* it was there once */
    bool here;
    enum mst_peer_state state;
    uint32_t life; /* no process of an earlier one runs there */
};

struct mst_nodes {
    uint32_t number; /* of this node; its places are number * (nproc + spares) and following */
    bool first;      /* it started the service */
    bool joining;    /* nothing runs yet, or any more; the session is another thread's */
    bool rejoins;    /* it was given up, and comes back as another */
    bool narrow;     /* of the others it hears what node 0 says */
    bool master_given;
    char lease[32];                  /* of the service, where node 0 was told one; else empty */
    char addr[MST_ADDRESSES_TEXT];   /* where ranks and agent find the service, with commas */
    char secret[MST_NODES_PATH_MAX]; /* the file; empty: none */
    bool secret_made;                /* it goes with the run */
    int secret_fd;                   /* instead of a file, for all children; -1: none */
    int elsewhere; /* the file by which commands on this machine find the service; -1: none */
    char master_addr[MST_NODES_ADDRESS_MAX];
    char master_host[MST_NODES_ADDRESS_MAX]; /* node 0: the port is to be free on it */
    uint16_t master_port;
    uint64_t silent_since_ns; /* 0: the service answers */
    const char *alone;        /* why this node ends without the others */
    uint64_t over_ns;         /* when nothing ran here any more; 0: it does */
    uv_timer_t tick;
    uv_work_t work;
    int64_t work_index, work_timeout_ms;
    struct muster_error work_error;
    muster_status work_status;
    struct mst_run_session work_session; /* opened by the work; the run's when that is over */
    struct mst_note state, finished, end, cause, all;
    atomic_bool given_up; /* the service has decided this node's loss */
    struct mst_counter restarts;

    /* Written by the client's threads: under the run's lock. */
    struct mst_peer *peers; /* nodes_max */
    bool *ranks_here;       /* of mst_run_indices */
    bool listed;            /* all that is there is known */
    bool all_told;          /* and not taken back */
    struct mst_all all_heard;
    uint32_t lives_finished; /* 1 more than the last one in which a rank has ended well */
    uint32_t restarts_told;  /* of all nodes */
    uint16_t port_told;      /* the newest master_port; 0: none yet */
    bool end_told, cause_told;
    uint32_t end_number; /* the node that ended the run */
    int end_signal;      /* that the ranks get for it */
    int cause_code;
    char cause_text[1024], cause_report[MST_NOTE_MAX];
};

struct mst_run_job;
struct mst_place;

/* Before anything runs: enters as node 0, or asks node 0 what the run is, which is taken into the
 * job's options. 0, or the exit code after one line. */
int mst_nodes_enter(struct mst_run_job *job);

/* credentials.c: takes the secret that was given, or makes one on node 0, and cleans this process's
 * environment of any other. 0, or the exit code after one line. */
int mst_nodes_credentials(struct mst_nodes *nodes, const struct mst_run_options *options,
                          const char *job);

/* join.c: asks the service what the run is. Blocks; from any thread. */
muster_status mst_nodes_ask(struct mst_run_job *job, int64_t timeout_ms, struct muster_error *err);

/* What is typed on a further node, once the service is at these addresses. */
void mst_nodes_say_further(struct mst_run_job *job, const char *addresses);

/* Commands that are typed here find the job, at nodes->addr. Without that they need --addr, and no
 * more. */
void mst_nodes_be_found(struct mst_run_job *job);

/* Node 0, once the service runs: tells the others what the run is. 0, or the exit code. */
int mst_nodes_publish(struct mst_run_job *job);

/* The others: opens the agent's session without blocking the loop, then starts the ranks. */
void mst_nodes_join(struct mst_run_job *job, int64_t index, int64_t timeout_ms);

/* The session is open: what it says is taken from now on. */
void mst_nodes_begin(struct mst_run_job *job);

bool mst_nodes_prepare(struct mst_run_job *job); /* false: out of memory */
void mst_nodes_release(struct mst_run_job *job);

/* What lies in folders for the time of the run. Also from where the run ends at once. */
void mst_nodes_forget(struct mst_run_job *job);

/* On the loop, whenever something was told: acts on it. */
void mst_nodes_look(struct mst_run_job *job);

/* The run ends by this node's decision: the others are told. */
void mst_nodes_end(struct mst_run_job *job, int number);

/* Whether one more process may be started again; of several nodes the service decides, and
 * mst_place_go_on is called when it has. */
void mst_nodes_ask_restart(struct mst_run_job *job, struct mst_place *place);

/* How far this node is, for the others. */
void mst_nodes_state(struct mst_run_job *job, enum mst_peer_state state);
void mst_nodes_finished(struct mst_run_job *job);

/* The processes of another life of the group begin. */
void mst_nodes_begin_life(struct mst_run_job *job);

/* The ranks of the life that begins get a MASTER_PORT of their own. Of several nodes node 0 chooses
 * it, and says it together with its state: whoever then knows that node 0 is in that life knows the
 * port. */
void mst_nodes_choose_port(struct mst_run_job *job);

/* Whether every node that is there is in this life, or a later one. */
bool mst_nodes_all_in_life(struct mst_run_job *job, uint32_t life);

/* Nodes that the run needs and that are not there; 0 on a node that does not follow all. */
uint32_t mst_nodes_missing(struct mst_run_job *job);

/* Whether some other node has work, or has only joiners, or has ended well. Under no lock. */
bool mst_nodes_others_run(struct mst_run_job *job);
bool mst_nodes_finished_elsewhere(struct mst_run_job *job);

/* Ranks of other nodes that are there. */
uint32_t mst_nodes_ranks_elsewhere(struct mst_run_job *job);

/* Nothing runs here any more: whether this node may go. Tells the others what they must know. */
bool mst_nodes_may_leave(struct mst_run_job *job);

#endif
