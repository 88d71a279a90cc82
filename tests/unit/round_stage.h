/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ROUND_STAGE_H
#define ROUND_STAGE_H

/* Requests and replies of rounds, for the tests of the core's rounds. */

#include "core_fixture.h"

static inline struct mst_request round_reducing(enum mst_reduce reduce, const void *data,
                                                size_t size)
{
    struct mst_request request = fixture_round(1, "r", 0);

    request.round.reduce = reduce;
    request.round.data = mst_slice_of(data, size);
    return request;
}

/* Numbers as they travel: little-endian on the machines these tests run on, and checked to be. */
static inline struct mst_request round_vector(enum mst_reduce reduce, const int64_t *numbers,
                                              size_t count)
{
    return round_reducing(reduce, numbers, count * sizeof(*numbers));
}

static inline const struct mst_reply *round_last(struct fixture *f, const struct client *client)
{
    return fixture_reply(f, client, client->id);
}

static inline void round_send_all(struct fixture *f, struct client *ranks, uint32_t count,
                                  struct mst_request request)
{
    for (uint32_t i = 0; i < count; i++) {
        fixture_send(f, &ranks[i], request);
    }
}

static inline void round_expect_all(struct fixture *f, struct client *ranks, uint32_t count,
                                    muster_status status)
{
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_INT(f, round_last(f, &ranks[i])->status, status);
    }
}

static inline void round_lose(struct fixture *f, struct client *teller, const struct client *victim)
{
    fixture_send(f, teller,
                 (struct mst_request){.command = MST_LOST,
                                      .lost = {.index = victim->open.index,
                                               .pid = victim->open.pid,
                                               .cause = MST_CAUSE_SIGNAL,
                                               .code = 9}});
}

static inline int64_t round_number_at(const struct mst_reply *reply, size_t position)
{
    int64_t number = 0;

    if (reply->value.size >= (position + 1) * sizeof(number)) {
        memcpy(&number, (const char *)reply->value.data + position * sizeof(number),
               sizeof(number));
    }
    return number;
}

static inline struct mst_request round_doubles(enum mst_reduce reduce, uint64_t number,
                                               const double *numbers, size_t count)
{
    struct mst_request request = round_reducing(reduce, numbers, count * sizeof(*numbers));

    request.round.number = number;
    return request;
}

#endif
