/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/fronts/front.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/time.h"
#include "client/shell/internal.h"
#include "proto/notice.h"

#define WINDOW_NS (900 * NS_PER_S) /* JAX saves for a notice so long before its deadline */

static bool set(struct mst_environment *environment, const char *name, const char *value)
{
    return mst_environment_set(environment, name, value) == MUSTER_OK;
}

/* Process 0 of JAX always has a service of its own, which must not stand in the way. */
static bool set_jax(struct mst_environment *environment, uint16_t port)
{
    char address[32];

    (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
    return set(environment, "JAX_COORDINATOR_ADDRESS", address) &&
           set(environment, "JAX_COORDINATOR_BIND_ADDRESS", "127.0.0.1:0");
}

static bool set_torch(struct mst_environment *environment, uint16_t port)
{
    return set(environment, "MASTER_ADDR", "127.0.0.1") &&
           mst_environment_number(environment, "MASTER_PORT", port) == MUSTER_OK &&
           set(environment, "TORCHELASTIC_USE_AGENT_STORE", "True");
}

bool mst_front_variables(struct mst_environment *environment, const struct mst_front *front,
                         uint16_t port)
{
    return strcmp(front->name, "xla") == 0 ? set_jax(environment, port)
                                           : set_torch(environment, port);
}

/* ---- notices ---- */

static void forget(struct mst_front_notices *notices, uint32_t index)
{
    for (uint32_t i = 0; i < notices->count; i++) {
        if (notices->list[i].index == index) {
            notices->list[i] = notices->list[--notices->count];
            return;
        }
    }
}

/* Where to keep a notice with this deadline: where all places are taken, instead of the one with
 * the last deadline. NULL: that is this one. */
static struct mst_front_notice *place_for(struct mst_front_notices *notices, uint64_t end_ns)
{
    struct mst_front_notice *last = &notices->list[0];

    if (notices->count < MST_FRONT_NOTICES_MAX) {
        return &notices->list[notices->count++];
    }
    for (uint32_t i = 1; i < notices->count; i++) {
        last = notices->list[i].end_ns > last->end_ns ? &notices->list[i] : last;
    }
    return end_ns < last->end_ns ? last : NULL;
}

static void keep(struct mst_front_notices *notices, uint32_t index, const struct mst_notice *notice,
                 uint64_t age_ms)
{
    uint64_t end_ns = mst_after_ms(mst_lib_now_ns(), notice->left_ms);
    struct mst_front_notice *kept;
    struct mst_text text;

    end_ns -= mst_sooner(end_ns, age_ms * NS_PER_MS);
    kept = place_for(notices, end_ns);
    if (kept != NULL) {
        kept->index = index;
        kept->end_ns = end_ns;
        kept->due_ns = end_ns - mst_sooner(end_ns, WINDOW_NS);
        text = mst_text_in(kept->text, sizeof kept->text);
        mst_text_format(&text, "%s%s%s%s%s",
                        notice->source[0] != '\0' ? notice->source : "a notice",
                        notice->host[0] != '\0' ? " on " : "", notice->host,
                        notice->reason[0] != '\0' ? ": " : "", notice->reason);
    }
}

void mst_front_notices_hear(struct mst_front_notices *notices, const struct mst_item *item)
{
    struct mst_notice notice;
    uint32_t index;

    if (item->kind == MST_ITEM_RESET) {
        notices->count = 0;
    } else if ((item->kind == MST_ITEM_KEY || item->kind == MST_ITEM_DELETED) &&
               mst_notice_key_read(item->name, &index)) {
        forget(notices, index);
        if (item->kind == MST_ITEM_KEY && mst_notice_read(item->value, &notice) &&
            notice.level == MST_NOTICE_CERTAIN) {
            keep(notices, index, &notice, item->number);
        }
    }
}

bool mst_front_notices_next(const struct mst_front_notices *notices, uint64_t since_ns,
                            struct mst_front_notice *out)
{
    const struct mst_front_notice *first = NULL;

    for (uint32_t i = 0; i < notices->count; i++) {
        const struct mst_front_notice *one = &notices->list[i];

        if (one->end_ns >= since_ns && (first == NULL || one->end_ns < first->end_ns)) {
            first = one;
        }
    }
    if (first != NULL) {
        *out = *first;
    }
    return first != NULL;
}
