/* SPDX-License-Identifier: Apache-2.0 */
#include "base/table.h"

#include <string.h>

#include "base/panic.h"

enum { ROOM_MIN = 8 };

/* ---- chains ----
 *
 * There are `used` of them, between half and all of `room`, which is a power of two. A hash belongs
 * to the chain of its low bits, or without the highest of these where that chain is not used yet.
 */

static struct mst_table_node **chain_of(const struct mst_table *table,
                                        struct mst_table_node **chains, uint64_t hash)
{
    size_t at = (size_t)hash & (table->room - 1);

    return &chains[at < table->used ? at : at - table->room / 2];
}

static struct mst_table_node **chain(struct mst_table *table, uint64_t hash)
{
    return table->chains ? chain_of(table, table->chains, hash) : &table->first;
}

static bool make_room(struct mst_table *table)
{
    size_t room = table->chains ? 2 * table->room : ROOM_MIN;
    struct mst_table_node **chains =
        mst_mem_array(table->mem, room, sizeof(struct mst_table_node *));

    if (!chains) {
        return false;
    }
    if (table->chains) {
        memcpy(chains, table->chains, table->used * sizeof(struct mst_table_node *));
        mst_mem_release(table->mem, table->chains);
    }
    table->chains = chains;
    table->room = room;
    return true;
}

/* Whatever is in this chain, or will be in the one after the last. */
static void split(struct mst_table *table, struct mst_table_node **from)
{
    struct mst_table_node *node = *from;

    *from = NULL;
    table->used++;
    while (node) {
        struct mst_table_node *following = node->next;
        struct mst_table_node **to = chain_of(table, table->chains, node->hash);

        node->next = *to;
        *to = node;
        node = following;
    }
}

static void grow(struct mst_table *table)
{
    if (!table->chains) {
        if (make_room(table)) {
            table->used = ROOM_MIN / 2 - 1; /* and one more: half of them */
            split(table, &table->first);
        }
    } else if (table->used < table->room || make_room(table)) {
        split(table, &table->chains[table->used - table->room / 2]);
    }
}

/* ---- what is in it ---- */

void mst_table_init(struct mst_table *table, const struct mst_mem *mem)
{
    *table = (struct mst_table){.mem = mem, .used = 1};
}

void mst_table_insert(struct mst_table *table, uint64_t hash, struct mst_table_node *node)
{
    struct mst_table_node **at;

    if (++table->count > table->used) {
        grow(table);
    }
    at = chain(table, hash);
    node->hash = hash;
    node->next = *at;
    *at = node;
}

void mst_table_remove(struct mst_table *table, struct mst_table_node *node)
{
    struct mst_table_node **at = chain(table, node->hash);

    while (*at != node) {
        MST_ASSERT(*at);
        at = &(*at)->next;
    }
    *at = node->next;
    if (--table->count == 0 && table->chains) {
        mst_mem_release(table->mem, table->chains);
        mst_table_init(table, table->mem);
    }
}

static struct mst_table_node *same(struct mst_table_node *node, uint64_t hash)
{
    while (node && node->hash != hash) {
        node = node->next;
    }
    return node;
}

struct mst_table_node *mst_table_find(const struct mst_table *table, uint64_t hash)
{
    return same(table->chains ? *chain_of(table, table->chains, hash) : table->first, hash);
}

struct mst_table_node *mst_table_again(const struct mst_table_node *node)
{
    return same(node->next, node->hash);
}

/* ---- the hash ---- */

static inline uint64_t turned(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void stir(uint64_t state[4])
{
    state[0] += state[1];
    state[2] += state[3];
    state[1] = turned(state[1], 13) ^ state[0];
    state[3] = turned(state[3], 16) ^ state[2];
    state[0] = turned(state[0], 32);
    state[2] += state[1];
    state[0] += state[3];
    state[1] = turned(state[1], 17) ^ state[2];
    state[3] = turned(state[3], 21) ^ state[0];
    state[2] = turned(state[2], 32);
}

static inline void take(uint64_t state[4], uint64_t word)
{
    state[3] ^= word;
    stir(state);
    state[0] ^= word;
}

uint64_t mst_table_hash(const struct mst_table_secret *secret, struct mst_slice key)
{
    const unsigned char *bytes = key.data;
    uint64_t state[4] = {secret->halves[0] ^ UINT64_C(0x736f6d6570736575),
                         secret->halves[1] ^ UINT64_C(0x646f72616e646f6d),
                         secret->halves[0] ^ UINT64_C(0x6c7967656e657261),
                         secret->halves[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t word = 0;
    size_t left = key.size;

    for (; left >= sizeof word; left -= sizeof word) {
        memcpy(&word, bytes, sizeof word);
        take(state, word);
        bytes += sizeof word;
    }
    word = (uint64_t)key.size << 56;
    for (size_t i = 0; i < left; i++) {
        word |= (uint64_t)bytes[i] << (8 * i);
    }
    take(state, word);
    state[2] ^= 0xff;
    stir(state);
    stir(state);
    stir(state);
    return state[0] ^ state[1] ^ state[2] ^ state[3];
}
