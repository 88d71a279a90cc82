/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_FIXTURE_H
#define CORE_FIXTURE_H

/* A core with a handful of clients, a clock that only moves when told, and everything it answered
 * kept. A scenario is run once as it is and then again with each of its allocations failing in
 * turn: from the failure on nothing is expected any more, except that the core stays whole and
 * gives everything back. So scenarios say EXPECT, never assert. */

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "failing_mem.h"
#include "service/core/core.h"

#define FIXTURE_LEASE_MS UINT64_C(10000)
enum { FIXTURE_REPLIES_MAX = 4096, FIXTURE_STORY_MAX = 65536 };

struct client {
    struct mst_conn conn; /* 0: not connected */
    struct mst_open open;
    uint64_t id;     /* of the last request */
    uint64_t oldest; /* 0: `id` itself */
    struct client *next;
};

struct told {
    struct mst_conn conn;
    struct mst_reply reply; /* with everything it borrows copied */
    bool hangup;
};

struct fixture {
    struct failing_mem mem;
    struct mst_core *core;
    struct mst_core_config config;
    uint64_t now_ns;
    uint64_t conns, tokens;
    struct client *clients;
    struct told told[FIXTURE_REPLIES_MAX];
    size_t told_count;
    char story[FIXTURE_STORY_MAX]; /* the traces, a line each */
    size_t story_size;
    void **copies;
    size_t copy_count, copy_room;
};

typedef void fixture_scenario(struct fixture *f);

/* What is looked at is worked out first: the call that fails may be in there. */
#define EXPECT(f, condition)                                                                       \
    do {                                                                                           \
        bool holds_ = (condition);                                                                 \
        if (!(f)->mem.failed) {                                                                    \
            assert_true(holds_);                                                                   \
        }                                                                                          \
    } while (0)

#define EXPECT_INT(f, actual, expected)                                                            \
    do {                                                                                           \
        int64_t actual_ = (int64_t)(actual);                                                       \
        if (!(f)->mem.failed) {                                                                    \
            assert_int_equal(actual_, (int64_t)(expected));                                        \
        }                                                                                          \
    } while (0)

#define EXPECT_TEXT(f, slice, text)                                                                \
    do {                                                                                           \
        struct mst_slice slice_ = (slice);                                                         \
        if (!(f)->mem.failed) {                                                                    \
            assert_int_equal(slice_.size, strlen(text));                                           \
            assert_memory_equal(slice_.data, text, strlen(text));                                  \
        }                                                                                          \
    } while (0)

/* Runs it whole, then under every single failing allocation. */
void fixture_run(fixture_scenario *scenario);
/* The same with other limits or a short lease: `prepare` changes the config. */
void fixture_run_with(fixture_scenario *scenario, void (*prepare)(struct mst_core_config *config));
/* Only whole, for those with many steps. */
void fixture_run_once(fixture_scenario *scenario);
void fixture_run_once_with(fixture_scenario *scenario,
                           void (*prepare)(struct mst_core_config *config));

/* Who: set the fields of `open` that matter, then connect. The token is made here. */
struct client fixture_client(struct fixture *f, enum mst_role role, uint32_t index);
const struct mst_reply *fixture_connect(struct fixture *f,
                                        struct client *client); /* also resumes */
void fixture_disconnect(struct fixture *f, struct client *client);

/* A rank of a job of `size`, connected; and one that also asks to join. */
struct client fixture_rank(struct fixture *f, uint32_t index, uint32_t size);
uint64_t fixture_join(struct fixture *f, struct client *client);

/* `count` ranks, connected and sealed into generation 1. */
void fixture_seal(struct fixture *f, struct client *ranks, uint32_t count);

/* Sends a request under the next id (or its own, if set) and gives back its id. */
uint64_t fixture_send(struct fixture *f, struct client *client, struct mst_request request);
/* What became of it: status MUSTER_MORE while nothing did. Never NULL. Not of an OPEN: those use up
 * no id, and are answered by connect. */
const struct mst_reply *fixture_reply(struct fixture *f, const struct client *client, uint64_t id);
const struct mst_reply *fixture_call(struct fixture *f, struct client *client,
                                     struct mst_request request);
bool fixture_hung_up(const struct fixture *f, const struct client *client);
size_t fixture_times_told(const struct fixture *f, const struct client *client, uint64_t id);

const struct mst_reply *fixture_write(struct fixture *f, struct client *client,
                                      enum mst_write_kind kind, const char *key, const char *value);
const struct mst_reply *fixture_add(struct fixture *f, struct client *client, const char *key,
                                    int64_t delta);
const struct mst_reply *fixture_get(struct fixture *f, struct client *client, const char *key);
uint64_t fixture_wait_get(struct fixture *f, struct client *client, const char *key);
uint64_t fixture_watch(struct fixture *f, struct client *client, uint32_t kinds, const char *prefix,
                       uint64_t after);
/* A barrier of the members with no deadline that fails on loss; change what is to be otherwise. */
struct mst_request fixture_round(uint64_t generation, const char *name, uint64_t number);

/* Time passes, and the core is woken whenever it asks; `renewing`: the clients renew meanwhile. */
void fixture_pass(struct fixture *f, uint64_t ms);
/* Drops the replies and the story so far: there is room for some thousand. */
void fixture_forget(struct fixture *f);
void fixture_pass_renewing(struct fixture *f, uint64_t ms);
/* Time passes and nobody wakes the core before it is over. */
void fixture_stall(struct fixture *f, uint64_t ms);
void fixture_renew(struct fixture *f, struct client *client);

/* Whether a line of the story says exactly this. */
bool fixture_told_story(const struct fixture *f, const char *line);

#endif
