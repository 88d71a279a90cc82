/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_FAULTS_H
#define MST_LAUNCH_FAULTS_H

/* What ranks report without ending: one line each while the run goes on, by the node that follows
 * all; and when it ends, the first thing that went wrong, as the service heard it from all nodes.
 *
 * A watch reports the faults of the present generation. Ranks restart in milliseconds: one that is
 * over before this process has asked again is in the job's history alone, which is therefore read
 * after each change of the view. */

#include <stdatomic.h>
#include <uv.h>

#include "client/shell/internal.h"
#include "launch/group.h"
#include "launch/session.h"
#include "launch/shared.h"

#define MST_FAULTS_ROOM 8u
#define MST_FAULTS_KNOWN (2u * MST_NAMES_MAX) /* the history has the first few of a generation */

struct mst_fault {
    uint32_t index, rank;
    enum mst_cause kind;
    int code;
    uint64_t pid, generation;
    char host[256], text[256];
};

struct mst_faults {
    struct mst_shared *shared;
    struct mst_lib_post post;
    bool asked;
    uint64_t window_ns; /* when lines began to be counted */
    uint32_t said;      /* since then */
    uint32_t unsaid;    /* that are told as a number, when the window ends or the run */
    uv_timer_t more;

    /* Under the run's lock. */
    struct mst_fault heard[MST_FAULTS_ROOM]; /* to be said */
    uint32_t heard_count, missed;
    uint64_t revision; /* of the last one heard by the watch */

    /* Under the client's lock: what the history is read with. */
    struct mst_run_session *session;
    struct mst_lib_post read;
    bool again;    /* the view has changed since it was asked for */
    bool reached;  /* its end, once: what was in it before is not of this node's time */
    uint64_t last; /* the number of the last incident that was read */
    struct {
        uint64_t generation;
        uint32_t index;
    } known[MST_FAULTS_KNOWN]; /* faults that were heard, the next one in the place of the oldest */
    uint32_t known_total;

    /* Written by the client's threads until it is answered. */
    struct mst_fault first; /* kind NONE: there is none */
    atomic_bool answered;
};

/* The timer of the loop. */
void mst_faults_open(struct mst_faults *faults, uv_loop_t *loop, struct mst_shared *shared);

/* This node follows all from now on: what the history has by then is not told. Before its watch
 * begins, and without the client's lock. */
void mst_faults_follow(struct mst_faults *faults, struct mst_run_session *session);

/* A reply to its watch. With the client's lock and the run's held. */
void mst_faults_heard(struct mst_faults *faults, const struct mst_reply *reply);

/* On the loop: says what was heard. `ends`: no line says that a generation follows. */
void mst_faults_look(struct mst_faults *faults, const struct mst_group *group, bool ends);

/* How many were not said since the last time, if any; before the run's last line too. */
void mst_faults_say_more(struct mst_faults *faults);

/* The run ends: what went wrong first? Does not wait; an answer that does not come is none. */
void mst_faults_ask(struct mst_faults *faults, struct mst_run_session *session);
bool mst_faults_answered(const struct mst_faults *faults);

/* What it did, "failed: code 7: no such file". */
void mst_faults_what(const struct mst_fault *fault, char *text, size_t room);

/* Whether this one, which came later, is the first cause instead. Those of the last generation
 * count, in the order in which they came. But that a rank did not stop and had to be ended says
 * more than which one seemed to stand still before; of one and the same rank the word before says
 * where it stood. `first` NULL: there is none yet. */
bool mst_faults_better(const struct mst_item *item, const struct mst_item *first);

/* A rank told it itself, or its agent saw it while the process lived. */
bool mst_faults_told(const struct mst_fault *fault);

#endif
