/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_RESTART_H
#define MST_RESTART_RESTART_H

/* Restart of a function in the same process, as a pure machine of one rank. It speaks to the
 * service in requests, through the client machine, and to the shell in effects. restart.c draws its
 * states.
 *
 * There is one way to restart: a rank whose function failed goes through the same seal as those
 * that were interrupted. Inputs carry now_ns; next and done drain effects, one at a time.
 * Everything is allocated at birth, so no input can fail; but the table of an assignment is not, on
 * the one rank that works it out: without memory for it the run is ended for all. */

#include "base/mem.h"
#include "muster/restart.h"
#include "proto/machine.h"

struct mst_restart;

struct mst_restart_config {
    uint64_t barrier_timeout_ms; /* of the seal: a rank that has not arrived by then is evicted */
    uint64_t replace_ms; /* how long a seal waits for lost ranks that are replaced, once all others
                            have arrived; 0: not at all */
    uint64_t completion_timeout_ms; /* of the completion, from its first arrival; 0: none */
    uint64_t settle_ms;       /* between the news of a fault and the interruption of the function */
    uint64_t soft_timeout_ms; /* an attempt without steps and pings that lasted this long made
                                 progress; 0: none did */
    uint32_t iterations_max;  /* attempts of a run that ended by a fault; 0: no limit */
    uint32_t faults_max;      /* own faults; with one more this rank leaves; 0: no limit */
    int32_t stalled_max;      /* attempts in a row without progress; -1: no limit */
    bool by_table;            /* an assignment needs all members' places: only a generation that is
                                 `ordered` is entered */
    struct mst_slice label, host; /* of this rank, for its place; copied, cut if too long */
    uint32_t node;                /* the agent that started it, or MST_NODE_NONE; for its place */
    uint64_t heard; /* at birth: the completed runs of the job that this process knows of, those in
                       JOIN's reply included; then the machine counts them */
};

enum mst_restart_effect_type {
    MST_RESTART_ENTER = 1, /* begin an attempt, with the function in it: view, iteration and faults
                              are set; answer with mst_restart_returned */
    MST_RESTART_TELL = 2,  /* checks of the function say interrupted, from now until it returned */
    MST_RESTART_INTERRUPT = 3, /* cut blocking calls of the function short, now; comes again with
                                  back-off until the function has returned */
    MST_RESTART_FINISH = 4,    /* muster_restart_run returns `status`; replies that are still owed
                                  are of no interest */
    MST_RESTART_UNWIND = 5,    /* the attempt ended by a fault, here or elsewhere, or without this
                                  rank: run abort (if it has not run for this attempt), finalize and
                                  the health check; answer with mst_restart_unwound */
    MST_RESTART_ASSIGN = 6     /* this rank works the assignment out: set `number` of the places;
                                  answer with mst_restart_assigned */
};

/* What FINISH says beside its status. */
enum mst_restart_why {
    MST_WHY_REPLY = 0,      /* the status and the reply say it */
    MST_WHY_ITERATIONS = 1, /* iterations_max; on all ranks */
    MST_WHY_STALLED = 2,    /* stalled_max; on all ranks */
    MST_WHY_ABORTED = 3,    /* a rank asked that all end; the record has its text; on all ranks */
    MST_WHY_FAULTS = 4,     /* faults_max; this rank alone */
    MST_WHY_UNHEALTHY = 5,  /* its health check; this rank alone */
    MST_WHY_FINALIZE = 6,   /* its finalize; this rank alone */
    MST_WHY_ASSIGNMENT = 7, /* the assignment could not be worked out, the record says why; on all
                               ranks */
    MST_WHY_SUSPECT = 8     /* it stood lowest in two attempts that hung; this rank alone */
};

/* The faults of the generation that ended, as its sealed record has them. `wall_ms` is on the
 * caller's clock: the machine knows no other. */
struct mst_record_list {
    struct muster_fault first[MST_NAMES_MAX]; /* the first cause first */
    uint32_t count, total;
};

struct mst_restart_effect {
    struct mst_machine_effect head;
    enum mst_restart_effect_type type; /* MST_MACHINE_OWN */
    struct mst_view view;
    uint64_t iteration; /* 0 at the first entry of a run; the same on all ranks of the generation */
    muster_status status;
    enum mst_restart_why why;
    const struct mst_reply *reply; /* FINISH by a reply of the service: that one, borrowed; else
                                      NULL */
    /* ASSIGN: ascending by index, `number` to be set; the machine's, until the answer or FINISH. */
    struct muster_place *places;
    size_t place_count;
    /* ENTER: why the attempt before ended. FINISH: why the run is given up. UNWIND: what is known
     * so far, at most the own fault. They stay until the next of these. */
    const struct mst_record_list *faults;
    uint64_t heard; /* FINISH: the completed runs of the job that this process knows of */
};

/* ENOMEM; EINVAL for a configuration that makes no sense. */
muster_status mst_restart_new(struct mst_restart **out, const struct mst_restart_config *config,
                              const struct mst_mem *mem);
void mst_restart_free(struct mst_restart *restart);

/* Another configuration, before a start. EINVAL for one that makes no sense. */
muster_status mst_restart_configure(struct mst_restart *restart,
                                    const struct mst_restart_config *config);

/* Begin with the view of a sealed generation. Again after FINISH: the machine belongs to a session,
 * not to one run, because the rounds of a generation are numbered through all runs in it. If the
 * view calls for attention INTERRUPT, the function is not entered before the next seal. A view that
 * is spare waits for a seat. */
void mst_restart_start(struct mst_restart *restart, uint64_t now_ns, const struct mst_view *view);

/* While the attempt runs: it failed (MST_CAUSE_FAULT), is not healthy (UNHEALTHY), wants all to
 * start again (AGAIN) or all to end (ABORTED). Reported at once, so that the others need not wait
 * for it to return; whatever it returns, the generation is then sealed. The first report counts,
 * and that it asked for the end of all. A text too long is cut. */
void mst_restart_failed(struct mst_restart *restart, uint64_t now_ns, enum mst_cause kind,
                        int32_t code, struct mst_slice text);

/* While the attempt runs: the connection of this rank to the member `index` broke, and the function
 * waits for TELL. What ended the other end interrupts this rank sooner or later. If nothing has
 * after `wait_ms`, it is a fault of that member, and TELL follows when the service has answered. */
void mst_restart_lost(struct mst_restart *restart, uint64_t now_ns, uint32_t index,
                      uint64_t wait_ms);

/* While the attempt runs: when the function has returned this rank leaves the job for good. */
void mst_restart_left(struct mst_restart *restart, uint64_t now_ns);

/* How far an attempt came, in calls of muster since it began. */
struct mst_restart_progress {
    uint64_t pings, checks; /* until it was interrupted, if it was */
    int64_t first, step;    /* the first step that was reported, and the largest; INT64_MIN: none */
    bool waited;            /* in muster, as it was interrupted */
};

/* Right before `returned`. */
void mst_restart_progress(struct mst_restart *restart, const struct mst_restart_progress *progress);

/* The function returned. `delivered`: a check or another call of muster has said EINTERRUPTED to it
 * since it was entered; then OK counts as interrupted. A failure that it did not report, and
 * that is not a reported one of others, is reported now. */
void mst_restart_returned(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                          bool delivered);

/* The answer to UNWIND. Not OK: this rank leaves, FINISH says `status` and `why` (UNHEALTHY or
 * FINALIZE), and `code` and `text` are its fault's if none was reported in this generation. */
void mst_restart_unwound(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                         enum mst_restart_why why, int32_t code, struct mst_slice text);

/* The answer to ASSIGN, the numbers are set. Not OK: the run ends for all with `status`, and `text`
 * is in the record. */
void mst_restart_assigned(struct mst_restart *restart, uint64_t now_ns, muster_status status,
                          struct mst_slice text);

/* Its effects are struct mst_restart_effect. Attention in any state. When the session ends a
 * running function is interrupted; FINISH comes when it returned and was unwound. */
extern const struct mst_machine mst_restart_machine;

void mst_restart_check(const struct mst_restart *restart);
/* What it is about: two runs of the same inputs must agree. */
uint64_t mst_restart_digest(const struct mst_restart *restart);

#endif
