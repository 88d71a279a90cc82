/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLIENT_STAGE_H
#define CLIENT_STAGE_H

/* The client machine on a stage: the test is the service and the clock, and what the machine wants
 * is written down as a story, e.g. "send put 3/3; done 7 ETIMEDOUT here". */

#include "base/text.h"
#include "base/time.h"
#include "client/client.h"
#include "failing_mem.h"

#define MS UINT64_C(1000000)

enum { STORY_ROOM = 8192, SENT_MAX = 512 };

struct sent {
    uint64_t id, oldest, cancels, after;
    enum mst_command command;
    struct mst_token token;
    uint64_t incarnation;
    int64_t delta; /* of an ADD */
};

struct stage {
    struct failing_mem failing;
    struct mst_client *client;
    uint64_t now_ns;
    char story_room[STORY_ROOM];
    struct mst_text story;
    struct sent sent[SENT_MAX]; /* since the last stage_drain */
    size_t sent_count;
    struct mst_detail detail; /* of the last DONE */
    void (*done)(struct stage *stage, const struct mst_client_effect *effect);
    void *ctx;
};

/* A rank, #2 of job "j", with two endpoints. */
muster_status stage_init(struct stage *stage, size_t fail_at, uint64_t seed);
void stage_fini(struct stage *stage);

/* Carries out all effects, that is: writes them down. Checks the machine. */
void stage_drain(struct stage *stage);

/* What has happened since the last call of this. */
void stage_expect(struct stage *stage, const char *story);
void stage_forget(struct stage *stage);

void stage_at(struct stage *stage, uint64_t now_ms); /* the clock; ticks, drains */
void stage_reply(struct stage *stage, struct mst_reply reply);
void stage_answer(struct stage *stage, uint64_t id, enum mst_command command,
                  muster_status status); /* a reply with nothing in it */

/* To a session that is open, with a lease of 10 s; the story is empty then. */
void stage_open(struct stage *stage);
struct mst_reply stage_opened(const struct stage *stage, uint64_t id);

struct mst_request stage_put(void);
struct mst_request stage_add(int64_t delta);
struct mst_request stage_get(void); /* that waits */
muster_status stage_call(struct stage *stage, struct mst_request request, uint64_t deadline_ms,
                         uint64_t tag); /* deadline 0: none */

#endif
