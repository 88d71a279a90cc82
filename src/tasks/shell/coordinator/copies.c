/* SPDX-License-Identifier: Apache-2.0 */
/* Failures and outcomes in the structs that users see: copies, each in one piece of memory. */
#include <stdlib.h>
#include <string.h>

#include "tasks/shell/coordinator/cluster.h"

/* Of the two texts of a failure, each with its NUL. */
static size_t texts_size(const struct mst_failure *failure)
{
    return mst_align8(failure->text.size + failure->state.size + 2);
}

static size_t failure_size(const struct mst_failure *failure)
{
    size_t size = 0;

    for (; failure; failure = failure->cause) {
        size += sizeof(struct muster_failure) + texts_size(failure);
    }
    return size;
}

static char *copy_text(char *at, struct mst_slice text)
{
    if (text.size > 0) {
        memcpy(at, text.data, text.size);
    }
    at[text.size] = '\0';
    return at + text.size + 1;
}

/* Into *out; its texts and its causes lie from `at` on. Returns the end of these. */
static char *copy_failure(struct muster_failure *out, char *at, const struct mst_failure *failure,
                          uint64_t closure)
{
    while (failure) {
        char *state = copy_text(at, failure->text);

        (void)copy_text(state, failure->state);
        *out = (struct muster_failure){.origin = (enum muster_origin)failure->origin,
                                       .code = failure->code,
                                       .worker = failure->worker,
                                       .attempt = failure->attempt,
                                       .incarnation = failure->incarnation,
                                       .closure = closure,
                                       .text = at,
                                       .state_server = state};
        at += texts_size(failure);
        failure = failure->cause;
        if (failure) {
            struct muster_failure *cause = (struct muster_failure *)(void *)at;

            out->cause = cause;
            out = cause;
            at += sizeof(*cause);
        }
    }
    return at;
}

struct muster_failures *mst_coord_failures_copy(const struct mst_cluster_failures *failures)
{
    size_t size = sizeof(struct muster_failures);
    struct muster_failures *out;
    struct muster_failure *items;
    char *at;

    for (uint32_t i = 0; i < failures->kept; i++) {
        size += failure_size(&failures->first[i]);
    }
    out = malloc(size);
    if (!out) {
        return NULL;
    }
    items = (struct muster_failure *)(void *)(out + 1);
    at = (char *)(items + failures->kept);
    for (uint32_t i = 0; i < failures->kept; i++) {
        at = copy_failure(&items[i], at, &failures->first[i], failures->closures[i]);
    }
    *out =
        (struct muster_failures){.items = items, .kept = failures->kept, .count = failures->count};
    return out;
}

void muster_failures_free(struct muster_failures *failures)
{
    free(failures);
}

struct mst_coord_outcome *mst_coord_outcome_of(const struct mst_closure_look *look, uint64_t number)
{
    bool failed = look->state != MST_CLOSURE_VALUE;
    size_t parts = mst_parts_room(look->parts);
    struct mst_coord_outcome *outcome =
        malloc(sizeof(*outcome) + parts + (failed ? failure_size(&look->failure) : 0));

    if (!outcome) {
        return NULL;
    }
    *outcome = (struct mst_coord_outcome){.state = look->state,
                                          .attempts = look->attempts,
                                          .worker = look->worker,
                                          .parts = mst_parts_keep(outcome + 1, look->parts)};
    if (failed) {
        struct muster_failure *failure =
            (struct muster_failure *)(void *)((char *)(outcome + 1) + parts);

        (void)copy_failure(failure, (char *)(failure + 1), &look->failure, number);
        outcome->status = mst_coord_status_of(look->failure.origin);
        outcome->failure = failure;
    }
    return outcome;
}
