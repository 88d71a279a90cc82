/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

/* One run: everything there is. */

#include "addresses.h"
#include "client/client.h"
#include "model.h"
#include "net.h"
#include "plan.h"
#include "preempt/preempt.h"
#include "preempt/publish.h"
#include "restart/hang.h"
#include "restart/restart.h"
#include "service/core/core.h"
#include "witness.h"
#include "world.h"

#define SIM_NODES_MAX 5u
#define SIM_JOBS_MAX 2u
#define SIM_PROCS_MAX 512u
#define SIM_CALLS_MAX 96u
#define SIM_TAG_OWNER_SHIFT 56
#define SIM_RENEWALS_MAX 16u

struct sim_node {
    struct sim_clock clock;
    uint64_t away_until_ns; /* partitioned from the service */
};

struct sim_service {
    struct mst_core *core;
    struct sim_clock clock;
    struct sim_memory memory;
    struct mst_limits limits;
    uint64_t wake_ns; /* of the next turn; SIM_NEVER: none */
    uint64_t stalled_until_ns, away_until_ns;
    uint64_t writes_until_ns; /* its turn is not over: it waits for the disk before it answers */
    bool owes_answers;
    bool was_away;
    struct sim_witness witness; /* what is not certain yet */
    struct sim_conn *asking;    /* whose request the witness tells of */
    const struct mst_request *request;
    bool refuses; /* what would have to be kept */
    uint64_t turns;
    struct sim_journal *journal; /* NULL: none */
    struct sim_record *record;   /* of this life; NULL: none */
    /* Its own clock: when the last turn was, when the next was asked for, how late turns were in
     * all, and when it last came back from an absence. */
    uint64_t turn_ns, asked_ns, late_ns, back_ns;
    uint64_t last_ns;    /* of the turn before the last */
    uint64_t excused_ns; /* when it last was so late that it may have excused everybody's silence */
};

enum sim_kind { SIM_RANK = 0, SIM_OBSERVER, SIM_AGENT, SIM_AUDITOR, SIM_COORDINATOR, SIM_WORKER };

/* Who is to be told when a call ends; the tag's highest byte. */
enum sim_owner {
    SIM_OWNER_LIFE = 1, /* join, leave */
    SIM_OWNER_RESTART,
    SIM_OWNER_FN,
    SIM_OWNER_WORK, /* an observer's or agent's own */
    SIM_OWNER_PREEMPT,
    SIM_OWNER_PUBLISH
};

struct sim_call {
    uint64_t tag;
    enum mst_command command;
};

enum sim_fn_state {
    SIM_FN_NOT = 0,   /* not entered */
    SIM_FN_COMPUTING, /* until due_ns */
    SIM_FN_BLOCKED,   /* in the call `fn.tag` */
    SIM_FN_HUNG,      /* until due_ns, looking at nothing */
    SIM_FN_BROKEN     /* the connection to `peer` broke: until it is told to return */
};

struct sim_fn {
    enum sim_fn_state state;
    struct mst_view view;
    uint64_t iteration;
    uint64_t due_ns; /* the world's time */
    uint64_t tag;
    uint64_t steps;
    uint64_t numbers[MODEL_NAMES]; /* of the next round of each name */
    uint32_t name;                 /* of the round it is blocked in */
    uint32_t participants[MODEL_PLACES];
    uint32_t peer;               /* an index */
    uint64_t broken_ns, wait_ns; /* on its clock */
    bool told, cut, delivered;
    bool struck;    /* its connection to a peer that died broke: it fails when due */
    bool returning; /* with `result`, when due */
    muster_status result;
};

/* What the preemption machine says fn is told, and what it was told. */
struct sim_gate {
    bool closed;
    bool writing; /* fn was told to save */
    bool saving;  /* it has saved, and waits for the others */
    int64_t limit, last, saved;
    uint64_t closed_ns, saving_ns;
};

enum sim_phase { SIM_PHASE_OUTSIDE = 0, SIM_PHASE_FUNCTION = 2, SIM_PHASE_AFTER, SIM_PHASE_WAITS };

/* What its agent sees of a rank, and when it changed, on the world's clock. */
struct sim_page {
    uint64_t turn, told, checks, pings, checks_start, pings_start;
    uint64_t turn_ns, told_ns, changed_ns;
};

/* A process: a client machine, a codec per connection, and what it does with them. */
struct sim_proc {
    uint64_t pid;
    enum sim_kind kind;
    struct model_job *job;
    uint32_t node;
    uint32_t place;      /* the index it claims, or MST_INDEX_ANY */
    uint32_t slot;       /* of the job's plan */
    uint64_t suicide_ns; /* a looper's */
    bool asked_to_join;
    bool alive, frozen; /* frozen: alive, and runs nothing */
    bool twin, looper;
    uint32_t looper_dies; /* when: 0 at start, 1 when it has joined, 2 when told its view */
    uint64_t born_ns, died_ns;
    uint64_t blind_until_ns; /* does not read its socket */
    uint64_t troubled_ns;    /* when something last stood between it and the service */
    uint64_t rides_ns;       /* the same, if that was a death short enough to ride out */
    uint64_t cut_off_ns;     /* until when it is cut off by a request */
    struct mst_token token;
    struct mst_client *client;
    struct mst_restart *restart;
    struct mst_preempt *preempt; /* NULL: no notices in this run */
    struct mst_publish *publish; /* a notice that it gives, or takes back */
    struct sim_gate gate;
    bool started;    /* the restart machine has a view */
    bool ended;      /* its client said so */
    bool finished;   /* muster_restart_run has returned */
    bool leaving;    /* it is on its way out */
    bool leaves;     /* fn left the job for good */
    bool hard;       /* it was ended because it did nothing */
    bool asks_spare; /* with its first JOIN: to be told that it is one */
    bool waits;      /* for a seat: in the JOIN of a spare, or of one that was passed over */
    muster_status end_status, finish_status;
    uint64_t heard;     /* of how many runs it was told with its seat */
    uint64_t assign_ns; /* when the assignment is worked out */
    struct muster_place *places;
    size_t place_count;
    uint64_t failures;  /* of fn, by its own account... */
    uint64_t failed_in; /* ...and the generation of the last one */
    uint64_t unwind_ns; /* when abort, finalize and the health check are over */
    int exit_code;
    struct sim_conn *conn;
    uint64_t wake_ns;
    uint64_t tags;
    struct sim_call calls[SIM_CALLS_MAX];
    uint32_t call_count;
    uint64_t retry_ns; /* of the join */
    /* On its own clock: when its last renewals were sent, and the newest that was answered. */
    uint64_t renewal_id[SIM_RENEWALS_MAX], renewal_ns[SIM_RENEWALS_MAX];
    uint32_t renewals;
    uint64_t answered_ns; /* 0: not even opened */
    struct sim_fn fn;
    struct sim_page page;
    struct mst_hang hang; /* of its agent, `watcher` */
    uint64_t watcher;
    struct sim_work *work;   /* an observer's */
    struct sim_agent *agent; /* an agent's */
    struct sim_tasks *tasks; /* a coordinator's, a worker's */
    struct model_member member;
    struct sim_addresses addresses;
};

struct sim {
    uint64_t seed;
    uint64_t now_ns;
    uint64_t end_ns; /* the second phase must have converged by then */
    bool calm;       /* no more faults */
    uint64_t calm_ns;
    bool over;
    bool verbose;
    bool plain; /* say nothing of what went well */
    struct mst_prng prng;
    struct sim_heap heap;
    struct sim_story *story;
    uint64_t digest;
    uint64_t events;
    uint64_t saves;  /* agreements that ended with a save by all */
    uint64_t values; /* so that no two writes write the same */
    struct sim_plan plan;
    struct sim_memory memory; /* of the clients */
    struct sim_net net;
    struct sim_service service;
    struct sim_node nodes[SIM_NODES_MAX];
    uint64_t quiet_ns; /* since when nothing is left to do */
    struct sim_proc *auditors[SIM_JOBS_MAX];
    struct sim_proc *procs[SIM_PROCS_MAX];
    uint32_t proc_count;
    struct model_job jobs[SIM_JOBS_MAX];
    struct sim_cluster *cluster; /* NULL: no cluster in this run */
};

/* service.c */
void sim_service_start(struct sim *sim);
struct mst_core_config sim_service_config(struct sim *sim);
void sim_service_wake(struct sim *sim, uint64_t at_ns);
void sim_service_leave(struct sim *sim, uint64_t until_ns);
void sim_service_fini(struct sim *sim);
uint64_t sim_service_clock(const struct sim *sim);

/* journal.c: what is kept, death, and the way back. Without a journal everything is kept. */
void sim_journal_start(struct sim *sim);
void sim_journal_fini(struct sim *sim);
void sim_journal_full(struct sim *sim, bool full);
muster_status sim_journal_accept(struct sim *sim, struct mst_conn conn);
muster_status sim_journal_request(struct sim *sim, struct mst_conn conn,
                                  const struct mst_request *request);
void sim_journal_close(struct sim *sim, struct mst_conn conn);
void sim_journal_tick(struct sim *sim);
uint64_t sim_journal_deadline_ns(const struct sim *sim);
void sim_journal_snapshot(struct sim *sim);
void sim_journal_promised(struct sim *sim, bool kept); /* the newest state was told of */
bool sim_journal_keep(struct sim *sim);                /* what was decided; false: it dies */
uint64_t sim_journal_writes(const struct sim *sim);
uint64_t sim_service_free_ns(const struct sim *sim); /* since when it may decide; or now */
bool sim_service_decides(const struct sim *sim);     /* false: in this turn nothing, or not all */
uint64_t sim_service_late_ns(const struct sim *sim);
bool sim_service_step(struct sim *sim); /* the same */
bool sim_service_dead(const struct sim *sim);
/* It dies at the n-th step from now, and is away so long. */
void sim_service_doom(struct sim *sim, bool with_host, uint64_t steps, uint64_t away_ns);
void sim_service_spare(struct sim *sim);
void sim_service_die(struct sim *sim);
bool sim_service_return(struct sim *sim); /* false: not yet */

/* proc.c */
struct sim_proc *sim_proc_spawn(struct sim *sim, enum sim_kind kind, struct model_job *job,
                                uint32_t node, uint32_t place);
void sim_proc_begin(struct sim *sim, struct sim_proc *proc); /* after its fields were adjusted */
void sim_proc_wake(struct sim *sim, struct sim_proc *proc, uint64_t at_ns);
void sim_proc_kill(struct sim *sim, struct sim_proc *proc, bool with_host);
void sim_proc_exit(struct sim *sim, struct sim_proc *proc, int code);
void sim_proc_freeze(struct sim *sim, struct sim_proc *proc, uint64_t until_ns);
void sim_proc_thaw(struct sim *sim, struct sim_proc *proc);
uint64_t sim_proc_clock(const struct sim *sim, const struct sim_proc *proc);
/* False: refused here and now (ENOMEM, ELIMIT, FENCED). `within_ns` SIM_NEVER: no deadline. */
bool sim_proc_call(struct sim *sim, struct sim_proc *proc, enum sim_owner owner,
                   const struct mst_request *request, uint64_t within_ns, uint64_t *tag);
void sim_proc_forget(struct sim_proc *proc, uint64_t tag); /* it was dropped: no end is owed */
void sim_proc_fini(struct sim *sim, struct sim_proc *proc);

/* rank.c: what a rank does: join, run fn through the restart machine, leave */
void sim_rank_start(struct sim *sim, struct sim_proc *proc);
void sim_rank_step(struct sim *sim, struct sim_proc *proc);
/* Peers of a process that has died see their connections to it broken. */
void sim_rank_feel(struct sim *sim, const struct sim_proc *dead);
void sim_rank_effect(struct sim *sim, struct sim_proc *proc, const void *effect);
void sim_rank_life(struct sim *sim, struct sim_proc *proc, enum mst_command command,
                   const struct mst_reply *reply);
void sim_rank_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                   const struct mst_reply *reply);
uint64_t sim_rank_due_ns(const struct sim_proc *proc);
bool sim_rank_may_end(const struct sim *sim, const struct sim_proc *proc);

/* preempt.c: the agreement on one step to save, beside the restart machine */
void sim_preempt_start(struct sim *sim, struct sim_proc *proc);
void sim_preempt_fini(struct sim_proc *proc);
void sim_preempt_view(struct sim *sim, struct sim_proc *proc, const struct mst_view *view);
void sim_preempt_ended(struct sim *sim, struct sim_proc *proc, muster_status status);
void sim_preempt_effect(struct sim *sim, struct sim_proc *proc, const void *effect);
void sim_preempt_answer(struct sim *sim, struct sim_proc *proc, const void *effect);
void sim_publish_effect(struct sim *sim, struct sim_proc *proc, const void *effect);
void sim_publish_answer(struct sim *sim, struct sim_proc *proc, const void *effect);
bool sim_preempt_asks(struct sim *sim, struct sim_proc *proc); /* true: it is told to go on */
/* It was frozen, and the thread of fn is faster than the one that hears the news. */
void sim_preempt_races(struct sim *sim, struct sim_proc *proc);
void sim_preempt_holds(struct sim *sim, struct sim_proc *proc);
void sim_preempt_strike(struct sim *sim, struct sim_proc *proc);

/* page.c: what a rank shows its agent, and the agent's look at all of its node: when the next is */
void sim_page_turn(const struct sim *sim, struct sim_proc *proc, enum sim_phase phase);
void sim_page_check(const struct sim *sim, struct sim_proc *proc);
void sim_page_ping(const struct sim *sim, struct sim_proc *proc);
void sim_page_told(const struct sim *sim, struct sim_proc *proc);
uint64_t sim_pages_look(struct sim *sim, struct sim_proc *agent);

/* observer.c: key traffic, and the audit at the end */
void sim_observer_start(struct sim *sim, struct sim_proc *proc);
void sim_observer_step(struct sim *sim, struct sim_proc *proc);
void sim_observer_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                       const struct mst_reply *reply);
uint64_t sim_observer_due_ns(const struct sim_proc *proc);
bool sim_observer_idle(const struct sim_proc *proc); /* nothing of its work is open but a watch */

/* agent.c: who starts the ranks of a job, tells their deaths and starts them again. The agents are
 * processes with sessions; the starting again is done by the world, so that it goes on without them
 */
void sim_job_start(struct sim *sim, struct model_job *job);
void sim_job_death(struct sim *sim, struct sim_proc *proc);
void sim_job_calm(struct sim *sim, struct model_job *job);
bool sim_job_over(const struct sim *sim, const struct model_job *job);
void sim_agent_start(struct sim *sim, struct sim_proc *proc);
void sim_agent_step(struct sim *sim, struct sim_proc *proc);
void sim_agent_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                    const struct mst_reply *reply);
uint64_t sim_agent_due_ns(const struct sim_proc *proc);

/* cluster.c: a cluster: coordinators, workers, and what passes between them */
void sim_cluster_open(struct sim *sim);
void sim_cluster_close(struct sim *sim);
struct model_job *sim_cluster_job(const struct sim *sim);
void sim_cluster_start(struct sim *sim, struct sim_proc *proc);
void sim_cluster_step(struct sim *sim, struct sim_proc *proc);
void sim_cluster_done(struct sim *sim, struct sim_proc *proc, uint64_t tag,
                      const struct mst_reply *reply);
void sim_cluster_death(struct sim *sim, struct sim_proc *proc, bool silently);
void sim_cluster_fini(struct sim_proc *proc);
uint64_t sim_cluster_due_ns(const struct sim *sim, const struct sim_proc *proc);
uint64_t sim_cluster_digest(const struct sim_proc *proc);
void sim_cluster_tell(struct sim *sim); /* what came of it */
bool sim_cluster_dismisses(const struct sim *sim);
bool sim_cluster_over(const struct sim *sim); /* its queue is empty, and all is told */

#endif
