/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_JOURNAL_H
#define SIM_JOURNAL_H

/* The journal of the service, and what an observer who sees everything knows of it: which states of
 * the service may come back after a death, and which one was promised. */

#include "disk.h"
#include "service/journal/journal.h"

enum sim_child_op_kind {
    SIM_CHILD_CREATE,
    SIM_CHILD_WRITE,
    SIM_CHILD_SYNC,
    SIM_CHILD_RENAME,
    SIM_CHILD_SYNC_NAMES
};

/* What a forked child does with the disk, so that it can be done while its parent goes on. */
struct sim_child_op {
    enum sim_child_op_kind kind;
    char name[SIM_NAME_ROOM], to[SIM_NAME_ROOM];
    uint64_t offset;
    unsigned char *bytes;
    size_t size;
};

struct sim_child {
    struct sim_child_op *ops;
    uint32_t count, room;
    uint32_t at; /* the next one */
    int file;
    uint64_t born; /* so that what was planned for one that is gone finds another */
    bool runs;
};

#define SIM_BEFORE 128u

/* What may come back. */
struct sim_state {
    uint64_t digest;
    bool pending;  /* only if the turn in which the service died was kept */
    bool ends_gap; /* only if the snapshot was whole with which it wanted to go on */
};

struct sim_journal {
    struct mst_journal *journal; /* NULL: the service is dead */
    struct sim_disk disk;
    struct sim_child child;
    bool fed;             /* since the last commit */
    bool pending;         /* the last of `states` is not certain: the service died in the commit */
    bool in_gap;          /* the disk is full: nothing is kept, so nothing may be decided */
    bool gap_pending;     /* what was decided in the turn in which it became full */
    uint64_t gap_ns;      /* its own clock: since when */
    uint64_t gap_over_ns; /* the world's clock: when the last one ended */
    uint64_t writes;      /* of the disk, when it was committed last */
    bool recovers;        /* what the core tells now is a repetition */

    struct sim_state *states; /* oldest first */
    bool knows;               /* they are all there: to work them out costs more than all else */
    uint32_t state_count, state_room;
    uint64_t before[SIM_BEFORE]; /* older ones: damage may lead back to them */
    uint64_t before_count;

    bool with_host; /* how it dies */
    bool lost_host; /* how it has died since it was last there */
    uint64_t away_ns;
    uint64_t died_ns, kept_ns; /* on its own clock: its last moment, and the last that it kept */
    bool full_ever;
    uint64_t deaths, returns, snapshots;
};

#endif
