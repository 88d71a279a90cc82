/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_PREEMPT_MACHINE_H
#define MST_PREEMPT_MACHINE_H

/* What the files of the preemption machine share. preempt.c: the inputs, and how it goes from state
 * to state. notices.c: the watch, and what is known from it. reply.c: the answers of the service.
 * effect.c: what is given out, and the checks. */

#include "base/time.h"
#include "preempt/preempt.h"
#include "proto/follow.h"

enum mst_preempt_state {
    MST_PREEMPT_CALM,      /* no agreement is at hand */
    MST_PREEMPT_CLOSING,   /* the shell closes the gate */
    MST_PREEMPT_STEPPING,  /* round step/k */
    MST_PREEMPT_POSTPONED, /* a rank cannot save now */
    MST_PREEMPT_DUE,       /* the program is to save the agreed step */
    MST_PREEMPT_PASSED,    /* this rank is past it already: the verdict says what comes of that */
    MST_PREEMPT_CLAIMING,  /* it is saved here; that is the verdict, if it is the first */
    MST_PREEMPT_SAVING,    /* round save/k */
    MST_PREEMPT_LISTING,   /* round saved/k: different steps were saved */
    MST_PREEMPT_RECORDING, /* saved by all: until that is seen in a key */
    MST_PREEMPT_FENCED,    /* the generation is over: until the next view */
    MST_PREEMPT_ENDED,
    MST_PREEMPT_STATES
};

/* What is true in a state. None of CALM, FENCED and ENDED. */
enum mst_preempt_trait {
    MST_PREEMPT_AT_HAND = 1, /* an agreement is */
    MST_PREEMPT_BEGINS = 2,  /* the time to its end is measured from the entry of the state */
    MST_PREEMPT_ROUND = 4,   /* it makes a round */
    MST_PREEMPT_DECIDES = 8, /* it waits for a verdict, or writes it */
    MST_PREEMPT_AGREED = 16, /* on a step */
    MST_PREEMPT_CLOSES = 32, /* the gate */
    MST_PREEMPT_LIMITS = 64  /* the gate, to that step */
};

extern const unsigned mst_preempt_traits[MST_PREEMPT_STATES];

#define MST_PREEMPT_NO_LIMIT INT64_MAX

enum {
    MST_PREEMPT_ROUND_MIN_MS = 100,
    MST_PREEMPT_SAVE_MIN_MS = 5000, /* from the agreement, also where the deadline is sooner */
    MST_PREEMPT_MARGIN_MS = 1000,   /* after the deadline: results that are on their way */
    MST_PREEMPT_RETRY_MS = 250,
    MST_PREEMPT_SILENT_MS = 5000, /* then a line says so, and after twice as long again */
    MST_PREEMPT_ELEMENTS = 8,     /* of a round's vector; those without a name are 0 */
    MST_PREEMPT_VECTOR = 8 * MST_PREEMPT_ELEMENTS
};

/* The vectors; the largest of each element comes out. */
enum mst_preempt_step_element {
    MST_STEP_LAST = 0,     /* the last step answered with GO_ON; -1: none */
    MST_STEP_REVISION = 1, /* of the newest notice that was seen */
    MST_STEP_POSTPONE = 2, /* ms; 0: no */
    MST_STEP_FLOOR = 3,    /* agreed on before, in this chain; -1: nothing */
    MST_STEP_STILL = 4     /* 1: one was to leave after a save, and is still there */
};

enum mst_preempt_save_element {
    MST_SAVE_STEP = 0,
    MST_SAVE_MINUS_STEP = 1,
    MST_SAVE_CANNOT = 2,    /* 1 + the index of one that was past it */
    MST_SAVE_LEAVE_ALL = 3, /* 1: all leave */
    MST_SAVE_REVISION = 4   /* of the newest notice that was seen */
};

/* Notices up to this revision that were due by then. One that was still far away is not meant. */
struct mst_preempt_mark {
    uint64_t revision;
    int64_t by_ns;
};

/* What the keys say of one agreement. */
struct mst_preempt_known {
    bool any;
    uint64_t k;
    enum mst_verdict verdict;
    int64_t floor; /* with AGAIN: what was agreed on */
    bool complete, failed;
};

/* A key for others, which is written without waiting. */
struct mst_preempt_note {
    struct mst_preempt_name name;
    struct mst_preempt_fact fact;
    bool owed;
};

/* What follows from the notices as they are. */
struct mst_preempt_sums {
    bool eligible;       /* there is one to act on */
    int64_t due_ns;      /* when the first of them is to be acted on... */
    int64_t deadline_ns; /* ...and the first deadline */
    uint64_t newest;     /* revision of a certain one */
    int64_t last_ns;     /* the last deadline of those that are live; INT64_MIN: none is */
    int64_t live_ns; /* when the first one is due that was not answered; INT64_MAX: there is none */
    const struct mst_preempt_seen *best;
};

struct mst_preempt {
    struct mst_mem mem;
    struct mst_preempt_config config;
    uint64_t now_ns;      /* of the last input */
    struct mst_view view; /* generation 0: none yet */
    int64_t began_ns;     /* of the generation here */
    enum mst_preempt_state state;
    muster_status end;

    /* The watch. */
    struct mst_tree notices;
    struct mst_follow follow;
    uint64_t watch_tag;
    struct mst_preempt_mark covered;   /* answered by a save of all */
    struct mst_preempt_mark attempted; /* acted on in this generation */
    /* Answered without those saves after which this rank was to leave. In the next generation it
     * has not left, so that they have answered nothing for it. */
    struct mst_preempt_mark stayed;
    uint64_t seated; /* the first generation of those that it has been in since; 0: in none */
    struct mst_preempt_known now, ahead; /* of agreement k, and of the last one after it */
    struct mst_preempt_sums sums;

    /* The agreement: k is the one at hand, or the next. */
    uint64_t k;
    int64_t floor;
    int64_t last;      /* contributed */
    int64_t agreed;    /* -1: not yet */
    uint64_t revision; /* of the newest notice that a rank of the agreement had seen */
    uint64_t begun_ns; /* the state's beginning: of CLOSING, DUE */
    uint64_t until_ns; /* POSTPONED */
    uint64_t silent_ns, silent_ms;
    int64_t saved;
    int64_t let_go;  /* the largest step that the program went on from after its save; -1: none */
    int64_t dropped; /* a step that was to be saved until its notice was taken back; -1: none */
    struct mst_preempt_fact fact; /* what is, or was, saved by all */
    uint64_t hold_until_ns;
    uint32_t hold_depth;

    /* Calls. */
    enum mst_verdict verdict; /* that was written, or is there by another hand; of this k */
    uint64_t tags, round_tag, verdict_tag, record_tag;
    uint64_t retry_ns; /* of the state's call */
    struct mst_preempt_note agreed_note, failed_note;

    /* Effects not yet given out. */
    int64_t limit_told; /* while the gate is open */
    uint64_t outcome_generation, outcome_k;
    struct mst_preempt_outcome outcome;
    struct mst_preempt_line lines[8];
    struct mst_detail detail;
    struct mst_preempt_effect effect;
    struct mst_request request;
    struct mst_write write;
    uint32_t line_count;

    bool listing;         /* of the watch */
    bool stays;           /* this rank was to leave, and is still there */
    bool still;           /* in the agreement at hand one was: what was answered is not, for all */
    bool held;            /* contributed that it cannot save now */
    bool cannot;          /* in SAVING: this rank was past it */
    bool asked;           /* the program asked since the agreement */
    bool answering;       /* the program waits for the answer to `saved` */
    bool verdict_settled; /* there is one: the watch will say which */
    bool closed;          /* the gate, by the last effect */
    bool has_detail;
    bool has_outcome; /* of `saved`, in that generation */
    bool owe_watch, owe_round, owe_verdict, owe_record;
    bool owe_gate, owe_forget, owe_noticed, owe_saved;

    char hosts[MST_NAMES_MAX][MST_NOTICE_HOST_ROOM + 1];
    char name[MST_PREEMPT_NAME_ROOM];
    char value[MST_PREEMPT_FACT_ROOM];
    unsigned char data[MST_PREEMPT_VECTOR];
};

static inline bool mst_preempt_is(const struct mst_preempt *preempt, enum mst_preempt_trait trait)
{
    return (mst_preempt_traits[preempt->state] & trait) != 0;
}

/* preempt.c */
void mst_preempt_advance(struct mst_preempt *preempt, uint64_t now_ns);
void mst_preempt_move(struct mst_preempt *preempt, uint64_t now_ns, enum mst_preempt_state to);
void mst_preempt_over(struct mst_preempt *preempt, uint64_t now_ns); /* k is; the next may begin */
void mst_preempt_fail(struct mst_preempt *preempt, uint64_t now_ns, muster_status status);
void mst_preempt_answer(struct mst_preempt *preempt, muster_status status);
struct mst_preempt_line *mst_preempt_line(struct mst_preempt *preempt, enum mst_preempt_log what);
int64_t mst_preempt_chain(const struct mst_preempt *preempt);   /* agreed on so far; -1: nothing */
uint64_t mst_preempt_end_ns(const struct mst_preempt *preempt); /* of the agreement at hand */
uint64_t mst_preempt_left_ms(const struct mst_preempt *preempt, uint64_t now_ns);
uint64_t mst_preempt_postpone_ms(const struct mst_preempt *preempt, uint64_t now_ns);

/* notices.c */
void mst_preempt_watched(struct mst_preempt *preempt, uint64_t now_ns,
                         const struct mst_reply *reply);
void mst_preempt_sum(struct mst_preempt *preempt);
bool mst_preempt_is_up_to(const struct mst_preempt *preempt, const struct mst_preempt_seen *seen,
                          struct mst_preempt_mark mark);
/* Whether this rank leaves after that save. */
bool mst_preempt_leaves(const struct mst_preempt *preempt, const struct mst_preempt_fact *fact,
                        int64_t by_ns);
void mst_preempt_notices_free(struct mst_preempt *preempt);
void mst_preempt_notices_init(struct mst_preempt *preempt);
struct mst_preempt_seen *mst_preempt_seen_first(const struct mst_preempt *preempt);
struct mst_preempt_seen *mst_preempt_seen_next(const struct mst_preempt_seen *seen);

/* The machine's functions (proto/machine.h) that are not in preempt.c. */
void mst_preempt_reply(void *machine, uint64_t now_ns, uint64_t tag, const struct mst_reply *reply);
const void *mst_preempt_next(void *machine);

#endif
