/* SPDX-License-Identifier: Apache-2.0 */
#include "client/shell/driver/targets.h"

#include <string.h>

#include "client/client.h"

_Static_assert(MST_TARGETS_MAX <= MST_CLIENT_ENDPOINTS_MAX, "a client counts all of them");

void mst_targets_init(struct mst_targets *targets, const struct mst_endpoints *given)
{
    memset(targets, 0, sizeof(*targets));
    targets->count = given->count;
    for (uint32_t i = 0; i < given->count; i++) {
        targets->at[i].address = given->at[i];
        targets->at[i].given = true;
    }
}

void mst_targets_fini(struct mst_targets *targets)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        mst_lookup_drop(targets->at[i].lookup);
        targets->at[i].lookup = NULL;
    }
}

static uint32_t find(const struct mst_targets *targets, struct mst_slice text)
{
    uint32_t i = 0;

    while (i < targets->count && !mst_slice_is(text, targets->at[i].address.text)) {
        i++;
    }
    return i;
}

uint32_t mst_targets_find(const struct mst_targets *targets, struct mst_slice named)
{
    while (named.size > 0) {
        uint32_t i = find(targets, mst_slice_cut(&named, ','));

        if (i < targets->count) {
            return i;
        }
    }
    return targets->count;
}

void mst_targets_say(const struct mst_targets *targets, struct mst_text *text)
{
    for (uint32_t i = 0; i < targets->count; i++) {
        mst_text_format(text, "%s%s", i > 0 ? "," : "", targets->at[i].address.text);
    }
}

/* The next list: where each of its targets was, and the addresses of the new ones. */
struct next_list {
    uint32_t count;
    uint32_t was[MST_TARGETS_MAX];
    struct mst_slice fresh[MST_TARGETS_MAX];
};

static void add_old(struct next_list *next, uint32_t old)
{
    for (uint32_t i = 0; i < next->count; i++) {
        if (next->was[i] == old) {
            return;
        }
    }
    next->was[next->count++] = old;
}

static void add_fresh(struct next_list *next, struct mst_slice text)
{
    for (uint32_t i = 0; i < next->count; i++) {
        if (next->was[i] == MST_CLIENT_ENDPOINT_NEW && mst_slice_equal(next->fresh[i], text)) {
            return;
        }
    }
    next->was[next->count] = MST_CLIENT_ENDPOINT_NEW;
    next->fresh[next->count++] = text;
}

static bool is_usable(struct mst_slice text, enum mst_targets_tcp tcp, bool by_tcp)
{
    struct mst_address address;

    if (mst_endpoint_parse(&address, text, tcp == MST_TARGETS_ANY_TCP) != NULL) {
        return false;
    }
    return address.kind == MST_ADDRESS_UNIX ? !by_tcp : tcp != MST_TARGETS_NO_TCP;
}

static uint32_t given_of(const struct mst_targets *targets)
{
    uint32_t given = 0;

    for (uint32_t i = 0; i < targets->count; i++) {
        given += targets->at[i].given;
    }
    return given;
}

/* Behind them is room for the target in use and the given ones. */
static void add_named(struct next_list *next, const struct mst_targets *targets,
                      struct mst_slice named, enum mst_targets_tcp tcp, bool by_tcp)
{
    uint32_t most = MST_TARGETS_MAX - 1 - given_of(targets);

    while (named.size > 0 && next->count < most) {
        struct mst_slice one = mst_slice_cut(&named, ',');
        uint32_t old = find(targets, one);

        if (old < targets->count) {
            add_old(next, old);
        } else if (is_usable(one, tcp, by_tcp)) {
            add_fresh(next, one);
        }
    }
}

static bool is_same(const struct next_list *next, uint32_t count)
{
    for (uint32_t i = 0; i < next->count; i++) {
        if (next->was[i] != i) {
            return false;
        }
    }
    return next->count == count;
}

/* Puts the targets where the next list has them. */
static void rearrange(struct mst_targets *targets, const struct next_list *next)
{
    struct mst_targets old = *targets;

    for (uint32_t i = 0; i < next->count; i++) {
        struct mst_targets_one *target = &targets->at[i];

        if (next->was[i] == MST_CLIENT_ENDPOINT_NEW) {
            *target = (struct mst_targets_one){.given = false};
            (void)mst_address_parse(&target->address, next->fresh[i]);
        } else {
            *target = old.at[next->was[i]];
            old.at[next->was[i]].lookup = NULL;
        }
    }
    targets->count = next->count;
    mst_targets_fini(&old); /* lookups for targets that are no longer in the list */
}

bool mst_targets_take(struct mst_targets *targets, struct mst_slice named, enum mst_targets_tcp tcp,
                      uint32_t used, uint32_t was[MST_TARGETS_MAX])
{
    struct next_list next = {.count = 0};

    add_named(&next, targets, named, tcp, targets->at[used].address.kind != MST_ADDRESS_UNIX);
    if (next.count == 0) {
        return false;
    }
    add_old(&next, used);
    for (uint32_t i = 0; i < targets->count; i++) {
        if (targets->at[i].given) {
            add_old(&next, i);
        }
    }
    if (is_same(&next, targets->count)) {
        return false;
    }
    rearrange(targets, &next);
    memcpy(was, next.was, next.count * sizeof(was[0]));
    return true;
}
