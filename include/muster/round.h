/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MUSTER_ROUND_H
#define MUSTER_ROUND_H

/* Rounds: collective operations of the generation's ranks, or of some of them, on small data. Each
 * participant contributes at most once, and all receive the same result. The library counts a
 * rank's calls of one name in each generation: the n-th calls of all ranks form one round. So call
 * a name in the same order on all ranks, as with any collective. What client.h says of threads,
 * time and errors holds here.
 *
 * Any number of names may be used. At most rounds_max (1,024) of a generation are kept: those whose
 * last result a rank may still ask for, since it has not called again after its own wait ended;
 * one more is refused with ELIMIT.
 *
 * Errors of rounds: ETIMEDOUT (the deadline of the round or the caller; `err` names the missing
 * ranks; with MUSTER_ON_LOSS_PROCEED the round still has a value, see muster_round_join), ELOST (a
 * participant was lost and on_loss is FAIL), EMISMATCH (EQUAL: contributions differ), ERANGE (a sum
 * beyond int64), ESTALE (the round is over, its result no longer kept), EFENCED (the generation is
 * over), EINVAL (also: parameters other than the first arrival's, or another round number than the
 * other ranks').
 *
 * Numbers travel in vectors of elements of 8 bytes, least significant byte first: int64_t and
 * uint64_t, or double as IEEE 754 has it. On a little-endian machine that is an array of them. A
 * sum of doubles is added in the order of ranks (of `participants`: of indices), so it has the same
 * bits in whatever order they arrive. Doubles overflow to infinity, which is no error. Every NaN of
 * a result has the bits 0x7ff8000000000000. */

#include "muster/call.h"
#include "muster/client.h"
#include "muster/member.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the loss of a participant does to a round. */
enum muster_on_loss {
    MUSTER_ON_LOSS_FAIL = 0, /* the round fails for all as soon as a participant is lost */
    /* The round completes without the lost participants and names them; at its deadline also
     * without the missing ones. */
    MUSTER_ON_LOSS_PROCEED = 1
};

/* What a round makes of the contributions. */
enum muster_reduce {
    MUSTER_REDUCE_NONE = 0,   /* a barrier */
    MUSTER_REDUCE_GATHER = 1, /* all receive all contributions */
    MUSTER_REDUCE_MIN = 2,    /* of vectors of int64_t, little-endian, element by element */
    MUSTER_REDUCE_MAX = 3,
    MUSTER_REDUCE_SUM = 4,   /* overflow is an error: ERANGE */
    MUSTER_REDUCE_EQUAL = 5, /* all contributions are the same bytes, or EMISMATCH */
    MUSTER_REDUCE_XOR = 6,   /* of vectors of uint64_t, bit by bit */
    /* Of vectors of double. The service keeps the contributions to a sum until the round ends: at
     * most result_bytes_max (16 MiB) of all ranks together, or ELIMIT. -0 is below +0, and the
     * minimum and the maximum of a NaN and anything are NaN. */
    MUSTER_REDUCE_SUM_DOUBLE = 7,
    MUSTER_REDUCE_MIN_DOUBLE = 8,
    MUSTER_REDUCE_MAX_DOUBLE = 9,
    MUSTER_REDUCE_BROADCAST = 10 /* all receive the bytes of `root`; on_loss must be FAIL */
};

/* Options of a round. The first arrival fixes these for the round; a rank with other values is
 * refused alone. */
struct muster_round_options {
    size_t size;                  /* sizeof */
    const uint32_t *participants; /* indices; NULL: all ranks of the generation */
    size_t participant_count;
    int64_t deadline_ms; /* of the round, from the first arrival; 0: none */
    enum muster_on_loss on_loss;
    enum muster_reduce reduce;
    bool present_only; /* do not wait for participants that have not joined */
    uint32_t root;     /* of a BROADCAST: a rank, and among the participants */
};

#define MUSTER_ROUND_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(struct muster_round_options), NULL, 0, 0, MUSTER_ON_LOSS_FAIL, MUSTER_REDUCE_NONE,  \
            false, 0                                                                               \
    }

/* Waits until every rank of the generation has arrived: muster_round_join without options and data.
 * Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_barrier_wait(muster_client *client,
                                                             const char *name, int64_t timeout_ms,
                                                             struct muster_error *err);

/* The result of a round: a copy, which does not change. */
typedef struct muster_round_result muster_round_result;

/* Contributes `mine` (at most contribution_bytes_max, 64 KiB) and waits for the result.
 * `timeout_ms` ends only this caller's wait: its contribution stays, and its next call of this name
 * continues the same round, so a wait can be repeated. Returns the status of the round. *out is the
 * result whenever the service gave one, also that of a failed round, else NULL; the caller owns it.
 * `out` may be NULL.
 *
 * With PROCEED, the round's deadline acts like the loss of all missing participants. The status is
 * ETIMEDOUT (ERANGE: the sum of the arrived is beyond int64). *out then has the value or the parts
 * of the arrived participants, the counts and the missing ones. A participant that arrives late
 * gets the same result, as long as it is the last round of its name. When only the caller's own
 * wait ends, which is ETIMEDOUT as well, *out is NULL. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status
muster_round_join(muster_client *client, const char *name,
                  const struct muster_round_options *options, struct muster_slice mine,
                  int64_t timeout_ms, muster_round_result **out, struct muster_error *err);

/* Sends the bytes of rank `root` to all ranks of the generation. On that rank `mine` is what is
 * sent (at most contribution_bytes_max, 64 KiB); on the others it is not used. Waits until every
 * rank has called it, like a barrier. muster_round_value of *out are the bytes. The same as
 * muster_round_join with MUSTER_REDUCE_BROADCAST. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_round_broadcast(
    muster_client *client, const char *name, uint32_t root, struct muster_slice mine,
    int64_t timeout_ms, muster_round_result **out, struct muster_error *err);

/* Numbers of participants. */
struct muster_round_count {
    uint32_t arrived, expected;
    uint32_t lost, missing;
};

/* The status that muster_round_join returned. Since 0.1. */
MUSTER_API muster_status muster_round_status(const muster_round_result *result);

/* The round's number: how many rounds of this name came before it in its generation. Since 0.1. */
MUSTER_API uint64_t muster_round_number(const muster_round_result *result);

/* The reduced vector, the equal bytes, or those of the root. Borrowed from the result. Since 0.1.
 */
MUSTER_API struct muster_slice muster_round_value(const muster_round_result *result);

/* The i-th number of a reduced vector; 0 beyond its end. Since 0.1. */
MUSTER_API int64_t muster_round_int64(const muster_round_result *result, size_t i);

/* The i-th number of a reduced vector of doubles; 0 beyond its end. Since 0.1. */
MUSTER_API double muster_round_double(const muster_round_result *result, size_t i);

/* In C++ the function's name hides the struct's constructor; -Wshadow would warn in every user's
 * code. */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
/* The numbers of participants that arrived, were expected, are lost, are missing. Since 0.1. */
MUSTER_API void muster_round_count(const muster_round_result *result,
                                   struct muster_round_count *out);
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/* The number of contributions to a GATHER. Since 0.1. */
MUSTER_API size_t muster_round_part_count(const muster_round_result *result);

/* The i-th contribution to a GATHER, in the order of ranks, and the index of its member
 * (`index_out` may be NULL). Beyond the last: an empty slice with data NULL. Borrowed from the
 * result. Since 0.1. */
MUSTER_API struct muster_slice muster_round_part(const muster_round_result *result, size_t i,
                                                 uint32_t *index_out);

/* The i-th lost, missing or differing member, at most 8 of them; NULL beyond. Borrowed from the
 * result. Since 0.1. */
MUSTER_API const struct muster_member *muster_round_missing(const muster_round_result *result,
                                                            size_t i);

/* Frees a result. NULL: a no-op. Since 0.1. */
MUSTER_API void muster_round_free(muster_round_result *result);

/* Lists all participants of one round: which arrived, which are missing. The round must be the
 * current or the last of its name in the caller's generation; otherwise ENOTFOUND or ESTALE. The
 * caller owns *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_round_members(muster_client *client,
                                                              const char *name, uint64_t number,
                                                              int64_t timeout_ms,
                                                              muster_members **out,
                                                              struct muster_error *err);

/* A round with waiting members. */
struct muster_round_info {
    const char *name;
    uint64_t number;
    uint32_t arrived, expected;
    bool has_missing;
    struct muster_member missing; /* the first one, if any */
};

/* Open rounds of a job: a copy, which does not change. */
typedef struct muster_rounds muster_rounds;

/* Lists the open rounds of the job. On success the caller owns *out. Since 0.1. */
MUSTER_API MUSTER_MUST_USE muster_status muster_round_list(muster_client *client,
                                                           int64_t timeout_ms, muster_rounds **out,
                                                           struct muster_error *err);

/* The number of rounds in the list. Since 0.1. */
MUSTER_API size_t muster_rounds_count(const muster_rounds *rounds);

/* The i-th round, from 0; NULL beyond the count. Borrowed from the list. Since 0.1. */
MUSTER_API const struct muster_round_info *muster_rounds_get(const muster_rounds *rounds, size_t i);

/* Frees the list. NULL: a no-op. Since 0.1. */
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
MUSTER_API MUSTER_MUST_USE muster_status muster_round_broadcast_start(
    muster_client *client, const char *name, uint32_t root, struct muster_slice mine,
    int64_t timeout_ms, muster_round_result **out, muster_call **call_out,
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
