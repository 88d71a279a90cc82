/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RESTART_MACHINE_H
#define MST_RESTART_MACHINE_H

/* What the files of the restart machine share. restart.c: the states and the inputs. reply.c: the
 * answers of the service. assign.c: the state ASSIGNING. effect.c: what is given out, and the
 * checks. */

#include "base/time.h"
#include "restart/places.h"
#include "restart/record.h"
#include "restart/restart.h"
#include "restart/vote.h"

enum mst_restart_state {
    MST_IDLE,
    MST_HELD,
    MST_RUNNING,
    MST_COMPLETING,
    MST_UNWINDING,
    MST_JUDGING, /* one fault too many: was it only the effect of a death? */
    MST_SEALING,
    MST_SEATING, /* JOIN: a seat, or the reply that came with the one this rank has */
    MST_ASSIGNING,
    MST_LEAVING,
    MST_FINISHED,
    MST_STATE_COUNT
};

/* How far ASSIGNING is. */
enum mst_restart_step {
    MST_STEP_NONE,
    MST_STEP_MEET,  /* the own place is written, then all meet in a round */
    MST_STEP_LIST,  /* this rank was elected, and reads the places */
    MST_STEP_ASSIGN /* the shell numbers them */
};

/* What JOIN is asked for. */
enum mst_restart_join {
    MST_JOIN_NOTHING,
    MST_JOIN_TOLD, /* at the start: the reply that came with the seat, which this machine did not
                      see */
    MST_JOIN_LOST, /* the reply of a seal was lost, or this rank is */
    MST_JOIN_SEAT  /* as a spare: until it is seated or all are done */
};

enum { MST_FAULT_ROOM = 1024, MST_BACKOFF_MAX_MS = 50 };

struct mst_restart {
    struct mst_mem mem;
    struct mst_restart_config config; /* its words are in `place` */
    struct mst_place_text place;

    struct mst_view view; /* of the generation this rank is in, or waits beside as a spare */
    uint64_t seen;        /* the generation that `attention` belongs to: never below view's */
    uint64_t completions; /* contributions so far in this generation */
    uint64_t seals;
    uint64_t meetings;
    uint64_t heard;        /* the completed runs of the job that this rank knows of */
    uint64_t tags;         /* the last one given out */
    uint64_t round_tag;    /* the open call, as the state says; or 0 */
    uint64_t fault_tag;    /* the open fault; or 0 */
    uint64_t write_tag;    /* the open write of the own place; or 0 */
    uint64_t cut_ns;       /* when blocking calls are cut short again */
    uint64_t settle_ns;    /* when the function is interrupted for the fault */
    uint64_t lost_ns;      /* when the broken connection to `lost` is a fault of that member... */
    uint64_t lost_wait_ms; /* ...after this wait */
    uint64_t entered_ns;
    uint64_t backoff_ms;
    uint64_t fault_generation;
    uint64_t own_faults; /* of the function on this rank, in this run */
    uint64_t fault_ns;   /* when the last of them was reported */
    uint64_t judge_ns;   /* when the service is asked what came before it */
    size_t text_size;
    uint32_t lost;       /* an index */
    uint32_t fault_peer; /* 1 + the index that the fault is about; 0: this rank */
    int32_t code;
    enum mst_cause kind;

    enum mst_restart_state state;
    enum mst_restart_step step;
    enum mst_restart_join join;
    enum mst_attention attention;
    muster_status end;    /* why the session is over */
    muster_status result; /* OK or EPREEMPTED: what FINISH says after the completion */
    muster_status status; /* of the FINISH that is owed, or that LEAVING leads to */
    enum mst_restart_why why;
    const struct mst_reply *reply; /* of the FINISH that is owed; NULL: none */

    struct mst_vote vote;
    struct mst_record_list records;
    struct mst_places table;  /* the last one that was worked out here */
    struct mst_places listed; /* the next one, being worked out */
    uint32_t previous;        /* the rank in the last generation with an order; or RANK_NONE */
    bool ordering;            /* the seal carries table.order */

    bool stopped;
    bool ended;
    bool cancelled; /* the completion or the meeting */
    bool suspect;   /* it stood lowest in the last attempt, which hung */

    /* What became of this attempt. */
    bool told;    /* TELL was given */
    bool cut;     /* INTERRUPT was given, and comes again */
    bool failed;  /* a fault was reported */
    bool counted; /* as one of own_faults */
    bool leaving; /* it asked to leave */

    /* Effects not yet given out. */
    bool owe_fault, owe_write, owe_cancel, owe_round, owe_enter, owe_tell, owe_cut, owe_unwind,
        owe_assign, owe_finish;

    struct mst_restart_effect effect;
    struct mst_request request;
    struct mst_write write;
    char text[MST_FAULT_ROOM];
    char name[MST_PLACE_NAME_ROOM];            /* of the key in the open request... */
    unsigned char value[MST_PLACE_VALUE_ROOM]; /* ...its value... */
    unsigned char data[MST_VOTE_SIZE];         /* ...and that of a round */
};

/* restart.c */
/* A call of the state that is left is of no interest any more. */
void mst_restart_move(struct mst_restart *restart, enum mst_restart_state to);
void mst_restart_call(struct mst_restart *restart, bool calls); /* one more call of the state */
void mst_restart_seat(struct mst_restart *restart, enum mst_restart_join join);
void mst_restart_unwind(struct mst_restart *restart, uint64_t now_ns);
void mst_restart_leave(struct mst_restart *restart, muster_status status, enum mst_restart_why why);
void mst_restart_enter(struct mst_restart *restart, uint64_t now_ns);
void mst_restart_view_take(struct mst_restart *restart, const struct mst_view *view);
void mst_restart_attention_take(struct mst_restart *restart, const struct mst_view *view);
void mst_restart_finish(struct mst_restart *restart, muster_status status, enum mst_restart_why why,
                        const struct mst_reply *reply);
void mst_restart_fault(struct mst_restart *restart, enum mst_cause kind, int32_t code,
                       struct mst_slice text);
/* How urgently this rank is called out of the generation it is in. */
enum mst_attention mst_restart_called(const struct mst_restart *restart);

/* What the function waits for is decided: its checks say interrupted. */
void mst_restart_tell(struct mst_restart *restart);

/* assign.c */
void mst_restart_meet(struct mst_restart *restart);
/* No rank can go on, since each has the same steps: the run ends for all. */
void mst_restart_give_up(struct mst_restart *restart, muster_status status, struct mst_slice text);
void mst_restart_met(struct mst_restart *restart, const struct mst_reply *reply);
void mst_restart_listed(struct mst_restart *restart, const struct mst_reply *reply);
void mst_restart_assign_written(struct mst_restart *restart, const struct mst_reply *reply);
void mst_restart_assign_request(struct mst_restart *restart); /* fills `request` */
void mst_restart_assign_write(struct mst_restart *restart);   /* the same, of the place */

/* The machine's functions (proto/machine.h) that are not in restart.c. */
void mst_restart_reply(void *machine, uint64_t now_ns, uint64_t tag, const struct mst_reply *reply);
const void *mst_restart_next(void *machine);

#endif
