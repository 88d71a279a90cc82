/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_ROUND_H
#define MUSTER_ROUND_H

/* Rounds: one collective act of the generation's ranks, or of some of them, on small data. Each
 * contributes at most once and all receive one identical result. The library counts a rank's calls
 * of one name in each generation, and the n-th call of everyone is one round: call a name in the
 * same order everywhere, as with any collective. What client.h says of threads, time and errors
 * holds here.
 *
 * Errors of rounds: ETIMEDOUT (the round's deadline or the caller's; `err` names who is missing;
 * with MUSTER_ON_LOSS_PROCEED a round that ends at its deadline has a value all the same, see
 * muster_round_join), ELOST (a participant was lost and on_loss is FAIL), EMISMATCH (EQUAL: they
 * differ), ERANGE (a sum beyond int64), ESTALE (over, and the result no longer kept), EFENCED (the
 * generation is over), EINVAL (also: other parameters than the first arrival's, or another number
 * than the others'). */

#include "muster/call.h"
#include "muster/client.h"
#include "muster/member.h"

#ifdef __cplusplus
extern "C" {
#endif

enum muster_on_loss {
    MUSTER_ON_LOSS_FAIL = 0, /* the round fails for all as soon as a participant is lost */
    /* The others' result counts, and says who is lost; at the deadline, who is missing. */
    MUSTER_ON_LOSS_PROCEED = 1
};

enum muster_reduce {
    MUSTER_REDUCE_NONE = 0,   /* a barrier */
    MUSTER_REDUCE_GATHER = 1, /* everyone receives everyone's bytes */
    MUSTER_REDUCE_MIN = 2,    /* of a vector of int64_t, little-endian, element by element */
    MUSTER_REDUCE_MAX = 3,
    MUSTER_REDUCE_SUM = 4,  /* overflow is an error: ERANGE */
    MUSTER_REDUCE_EQUAL = 5 /* all contributions are the same bytes, or EMISMATCH */
};

/* The first to arrive fixes them; who names others is refused alone. */
struct muster_round_options {
    size_t size;                  /* sizeof */
    const uint32_t *participants; /* indices; NULL: all ranks of the generation */
    size_t participant_count;
    int64_t deadline_ms; /* the round's own, from the first arrival; 0: none */
    enum muster_on_loss on_loss;
    enum muster_reduce reduce;
    bool present_only; /* participants that have not joined are not waited for */
};

#define MUSTER_ROUND_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct muster_round_options), NULL, 0, 0, MUSTER_ON_LOSS_FAIL, MUSTER_REDUCE_NONE,  \
            false                                                                                  \
    }

/* Waits until every rank of the generation is here. The same as muster_round_join without options
 * and data. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_barrier_wait(muster_client *client,
                                                             const char *name, int64_t timeout_ms,
                                                             struct muster_error *err);

typedef struct muster_round_result muster_round_result;

/* Contributes `mine` (at most contribution_bytes_max, 64 KiB) and waits for the result.
 * `timeout_ms` ends only this caller's wait: its contribution stays, and its next call of this name
 * takes up the same round again, so that a wait can be repeated. Returns what the round came
 * to; *out (which may be NULL if nobody wants it) is then the result whenever the service gave one,
 * also that of a failed round, else NULL. The caller owns it.
 * With PROCEED the round's deadline ends it as a loss of all who are missing would: the status is
 * ETIMEDOUT (ERANGE: the sum of those who arrived is beyond int64), *out has the value or the parts
 * of those who arrived, counts and names who is missing, and one of them who comes late is given
 * the same, as long as it is the last round of its name. When the caller's own wait ends, which is
 * ETIMEDOUT as well, *out is NULL. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_round_join(muster_client *client, const char *name,
                  const struct muster_round_options *options, struct muster_slice mine,
                  int64_t timeout_ms, muster_round_result **out, struct muster_error *err);

struct muster_round_count {
    uint32_t arrived, expected;
    uint32_t lost, missing;
};

/* What muster_round_join returned. Since 0.1. */
MUSTER_API muster_status muster_round_status(const muster_round_result *result);

/* The round's number: how many of this name came before it in its generation. Since 0.1. */
MUSTER_API uint64_t muster_round_number(const muster_round_result *result);

/* The reduced vector or the equal bytes; borrowed from the result. Since 0.1. */
MUSTER_API struct muster_slice muster_round_value(const muster_round_result *result);

/* The i-th number of a reduced vector; 0 beyond its end. Since 0.1. */
MUSTER_API int64_t muster_round_int64(const muster_round_result *result, size_t i);

/* In C++ the function's name hides the struct's constructor, which -Wshadow would tell every user.
 */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
/* How many arrived, were expected, lost, missing. Since 0.1. */
MUSTER_API void muster_round_count(const muster_round_result *result,
                                   struct muster_round_count *out);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* GATHER: the i-th contribution in the order of ranks, and whose it is (`index_out` may be NULL).
 * Beyond the last: an empty slice with data NULL. Borrowed from the result. Since 0.1. */
MUSTER_API size_t muster_round_part_count(const muster_round_result *result);
MUSTER_API struct muster_slice muster_round_part(const muster_round_result *result, size_t i,
                                                 uint32_t *index_out);

/* The i-th of the lost, missing or differing, at most 8 of them; NULL beyond. Borrowed. Since 0.1.
 */
MUSTER_API const struct muster_member *muster_round_missing(const muster_round_result *result,
                                                            size_t i);
MUSTER_API void muster_round_free(muster_round_result *result);

/* Everyone of one round: who arrived, who is missing. The round must be the current or the last of
 * its name in the caller's generation: else ENOTFOUND or ESTALE. The caller owns *out. Since 0.1.
 */
MUSTER_API MUSTER_MUST_USE muster_status muster_round_members(muster_client *client,
                                                              const char *name, uint64_t number,
                                                              int64_t timeout_ms,
                                                              muster_members **out,
                                                              struct muster_error *err);

/* A round that is waited at. */
struct muster_round_info {
    const char *name;
    uint64_t number;
    uint32_t arrived, expected;
    bool has_missing;
    struct muster_member missing; /* the first one, if any */
};

typedef struct muster_rounds muster_rounds;

/* The open rounds of the job. On success the caller owns *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_round_list(muster_client *client,
                                                           int64_t timeout_ms, muster_rounds **out,
                                                           struct muster_error *err);

/* The i-th, from 0; beyond the count NULL. Borrowed from the list. Since 0.1. */
MUSTER_API size_t muster_rounds_count(const muster_rounds *rounds);
MUSTER_API const struct muster_round_info *muster_rounds_get(const muster_rounds *rounds, size_t i);
MUSTER_API void muster_rounds_free(muster_rounds *rounds);

/* The same without blocking: call.h. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_barrier_wait_start(muster_client *client,
                                                                   const char *name,
                                                                   int64_t timeout_ms,
                                                                   muster_call **call_out,
                                                                   struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_round_join_start(
    muster_client *client, const char *name, const struct muster_round_options *options,
    struct muster_slice mine, int64_t timeout_ms, muster_round_result **out, muster_call **call_out,
    struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_round_members_start(
    muster_client *client, const char *name, uint64_t number, int64_t timeout_ms,
    muster_members **out, muster_call **call_out, struct muster_error *err);
MUSTER_API MUSTER_MUST_USE muster_status muster_round_list_start(muster_client *client,
                                                                 int64_t timeout_ms,
                                                                 muster_rounds **out,
                                                                 muster_call **call_out,
                                                                 struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
