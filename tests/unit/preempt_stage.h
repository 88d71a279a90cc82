/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PREEMPT_STAGE_H
#define PREEMPT_STAGE_H

/* Several members around machines of src/preempt and the real service, each with a program that
 * counts steps, and a clock of its own. What a member is to be told lies in its mailbox until it is
 * delivered, so a test says who hears of what when. */

#include "base/mem.h"
#include "base/prng.h"
#include "core_service.h"
#include "preempt/preempt.h"

enum { STAGE_MEMBERS = 6, STAGE_ROUNDS = 400, STAGE_MAIL = 64, STAGE_SAVES = 32 };

/* What members have contributed to a round, and what came of it. */
struct stage_part {
    bool arrived;
    unsigned char data[64];
};

struct stage_round {
    char name[64];
    bool open;
    muster_status status;
    struct stage_part parts[STAGE_MEMBERS];
};

struct stage_call {
    uint64_t id, tag; /* tag 0: none */
    struct stage_round *round;
};

struct stage_mail {
    uint64_t tag;
    struct mst_reply *reply;
};

struct stage_member {
    struct mst_preempt *machine;
    uint32_t index;
    bool alive, frozen;
    uint64_t watch_tag; /* of the watch that waits; 0: none */
    struct mst_request watch;
    struct mst_view view;
    struct stage_call calls[STAGE_MAIL];
    struct stage_mail mail[STAGE_MAIL];
    unsigned mails;

    /* The shell and the program. */
    bool closed;
    int64_t limit, last; /* the last that was told GO_ON */
    int64_t step;        /* the next to ask for */
    bool writing;        /* what it was told to save: that takes its time */
    bool saving;         /* waits for the others */
    uint64_t save_generation;
    unsigned noticed, closings;
    struct mst_preempt_outcome outcome; /* of the last save */
    unsigned outcomes;
    int64_t outcome_last; /* `last` when it came */
    struct mst_detail detail;
    unsigned lines[16]; /* how often each was said */
    struct mst_preempt_line line;
};

/* What was decided, for the properties. */
struct stage_decision {
    bool known;
    int64_t agreed;
};

struct stage {
    struct mst_mem mem;
    uint64_t now_ns, generation;
    uint32_t count;
    struct stage_member members[STAGE_MEMBERS];
    struct core_service service;
    uint32_t hand; /* a client that writes keys for the test */
    struct stage_round rounds[STAGE_ROUNDS];
    uint32_t round_count;
    muster_status refuse; /* the next writes and rounds are answered so; OK: taken */
    bool forget;          /* the next watch begins anew, with RESET */
    uint32_t page;        /* news at a time; 0: all */
    uint64_t away_ms;     /* taken off ages: the service was away */
};

extern const struct mst_preempt_config stage_config;

/* False: there was no memory. Generation 1 of `count` members; who is without a view gets it with
 * stage_seal. */
bool stage_init(struct stage *stage, uint32_t count, const struct mst_preempt_config *config,
                const struct mst_mem *mem);
void stage_fini(struct stage *stage);

/* A new generation of all that are alive. */
void stage_seal(struct stage *stage);
void stage_lose(struct stage *stage, uint32_t member);

/* Keys by another hand. */
void stage_put(struct stage *stage, const char *name, const char *value);
void stage_delete(struct stage *stage, const char *name);
void stage_notice(struct stage *stage, uint32_t index, uint64_t left_ms);
const char *stage_value(struct stage *stage, const char *name); /* NULL: none */
/* All keys of preemption, for as long as nothing else is asked. */
const struct mst_reply *stage_keys(struct stage *stage);

/* All that a machine gives out now is done. */
void stage_drain(struct stage *stage, uint32_t member);

/* One piece of mail or of news. False: there is nothing. */
bool stage_deliver(struct stage *stage, uint32_t member);
bool stage_news(struct stage *stage, uint32_t member); /* news of the watch only */
bool stage_mail(struct stage *stage, uint32_t member); /* the oldest answer only */

/* All that can be told to who is not frozen, until nothing is left. */
void stage_settle(struct stage *stage);

/* Time passes; deadlines of rounds and ticks in their order. */
void stage_pass(struct stage *stage, uint64_t ms);

/* The program: asks for its next step. True: it was told to go on. */
bool stage_step(struct stage *stage, uint32_t member);
/* It was told to save the step it was to ask for next, and begins; and it has saved it. */
void stage_write(struct stage *stage, uint32_t member);
void stage_save(struct stage *stage, uint32_t member);
bool stage_is_due(const struct stage *stage, uint32_t member);

#endif
