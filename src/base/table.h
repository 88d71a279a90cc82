/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_BASE_TABLE_H
#define MST_BASE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/slice.h"

/* An intrusive hash table, beside an ordered set of the same things: it finds in one step what the
 * set finds in many, and nothing walks it, so no hash reaches an effect. It grows by one chain with
 * each insertion, so that none takes long, and where there is no memory its chains grow longer
 * instead: insertion cannot fail. Empty, it holds no memory. */
struct mst_table_node {
    struct mst_table_node *next; /* of its chain */
    uint64_t hash;
};

struct mst_table {
    const struct mst_mem *mem;
    struct mst_table_node **chains; /* NULL: the only one is `first` */
    struct mst_table_node *first;
    size_t room, used; /* chains */
    size_t count;
};

/* `mem` outlives the table. */
void mst_table_init(struct mst_table *table, const struct mst_mem *mem);

/* A node that is in none, and a key that is not there. */
void mst_table_insert(struct mst_table *table, uint64_t hash, struct mst_table_node *node);

/* One that is in it. */
void mst_table_remove(struct mst_table *table, struct mst_table_node *node);

/* The first one with this hash, and the others: which of them has the key is for the caller to see.
 * NULL: there is none (any more). */
struct mst_table_node *mst_table_find(const struct mst_table *table, uint64_t hash);
struct mst_table_node *mst_table_again(const struct mst_table_node *node);

/* For names from outside: without the secret no attacker can choose names that share a chain. It is
 * drawn at random where that matters, and affects only the time of a search. */
struct mst_table_secret {
    uint64_t halves[2];
};

/* SipHash-1-3. */
uint64_t mst_table_hash(const struct mst_table_secret *secret, struct mst_slice key);

#endif
