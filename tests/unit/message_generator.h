/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_GENERATOR_H
#define MESSAGE_GENERATOR_H

/* Seeded random requests and replies: every command, every field, the edges of every number more
 * often than what lies between. Well-formed for a codec; what sense they make is the core's
 * business. A fuzzer decides in place of the seed. */

#include <stdbool.h>
#include <stdint.h>

#include "../fuzz/bytes.h"
#include "base/prng.h"
#include "proto/reply.h"
#include "proto/request.h"

enum { GENERATOR_MANY = 12, GENERATOR_POOL = 32768 };

struct message_generator {
    struct mst_prng prng;
    struct fuzz_bytes *bytes; /* NULL: the seed decides */
    struct mst_request request;
    struct mst_reply reply;
    /* what the two point at */
    size_t pool_used;
    struct mst_write ops[GENERATOR_MANY];
    struct mst_slice keys[GENERATOR_MANY];
    uint32_t participants[GENERATOR_MANY];
    struct mst_item items[GENERATOR_MANY];
    uint32_t missing[MST_NAMES_MAX]; /* of each of them */
    struct mst_rank_progress ranks[GENERATOR_MANY];
    unsigned char pool[GENERATOR_POOL];
};

void message_generator_init(struct message_generator *generator, uint64_t seed);

/* Valid until the next one of any kind is made. */
const struct mst_request *message_generator_request(struct message_generator *generator);
const struct mst_request *message_generator_request_of(struct message_generator *generator,
                                                       enum mst_command command);
const struct mst_reply *message_generator_reply(struct message_generator *generator);

/* What they are made of, for those who make other messages: a number below a bound, one that may be
 * an edge, bytes. */
uint64_t message_generator_below(struct message_generator *generator, uint64_t bound);
uint64_t message_generator_number(struct message_generator *generator);
struct mst_slice message_generator_bytes(struct message_generator *generator);

/* Equal in all that counts: bytes, not where they are. */
bool message_request_equal(const struct mst_request *a, const struct mst_request *b);
bool message_reply_equal(const struct mst_reply *a, const struct mst_reply *b);

#endif
