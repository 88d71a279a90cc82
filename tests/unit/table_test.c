/* SPDX-License-Identifier: Apache-2.0 */
/* The table against the plainest thing that does the same: an array that tells who is in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/panic.h"
#include "base/prng.h"
#include "base/table.h"
#include "failing_mem.h"

enum { THINGS = 700, STEPS = 20000 };

struct thing {
    uint64_t before; /* so that the node is not where the thing is */
    struct mst_table_node node;
    bool there;
};

static const struct mst_table_secret secret = {{17, 23}};

static uint64_t hash_of(uint64_t number, uint64_t hashes)
{
    uint64_t rest = number % hashes; /* some have the same */

    return mst_table_hash(&secret, mst_slice_of(&rest, sizeof rest));
}

static bool finds(const struct mst_table *table, const struct thing *thing, uint64_t hash)
{
    const struct mst_table_node *node = mst_table_find(table, hash);
    unsigned found = 0;

    for (; node; node = mst_table_again(node)) {
        assert_true(node->hash == hash);
        found += node == &thing->node;
    }
    assert_true(found <= 1);
    return found == 1;
}

/* Comes and goes at random, more of the one and then more of the other. */
static void live(const struct mst_mem *mem, uint64_t seed, uint64_t hashes)
{
    struct thing *things = calloc(THINGS, sizeof *things);
    struct mst_prng prng = {.state = seed};
    struct mst_table table;
    size_t count = 0;

    assert_non_null(things);
    mst_table_init(&table, mem);
    for (unsigned step = 0; step < STEPS; step++) {
        uint64_t number = mst_prng_below(&prng, THINGS);
        struct thing *thing = &things[number];
        bool comes = mst_prng_below(&prng, 100) < (step / 4000 % 2 == 0 ? 80 : 20);

        assert_true(finds(&table, thing, hash_of(number, hashes)) == thing->there);
        if (comes && !thing->there) {
            mst_table_insert(&table, hash_of(number, hashes), &thing->node);
            count++;
        } else if (!comes && thing->there) {
            mst_table_remove(&table, &thing->node);
            count--;
        } else {
            continue;
        }
        thing->there = comes;
        assert_true(table.count == count);
    }
    for (uint64_t number = 0; number < THINGS; number++) {
        assert_true(finds(&table, &things[number], hash_of(number, hashes)) ==
                    things[number].there);
        if (things[number].there) {
            mst_table_remove(&table, &things[number].node);
        }
    }
    assert_true(table.count == 0 && !table.chains && !table.first);
    free(things);
}

static void finds_what_is_there(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct failing_mem mem;

        failing_mem_init(&mem, 0);
        live(&mem.mem, seed, UINT64_MAX);
        live(&mem.mem, seed, THINGS / 10);
        assert_true(mem.live == 0);
    }
}

static void without_memory_its_chains_grow(void **state)
{
    (void)state;
    for (size_t fail_at = 1; fail_at <= 5; fail_at++) {
        struct failing_mem mem;

        failing_mem_init(&mem, fail_at);
        live(&mem.mem, 1, UINT64_MAX);
        assert_true(mem.failed && mem.live == 0);
    }
}

static size_t longest_chain(const struct mst_table *table)
{
    size_t longest = 0;

    for (size_t i = 0; i < table->used; i++) {
        size_t size = 0;

        for (const struct mst_table_node *node = table->chains[i]; node; node = node->next) {
            size++;
        }
        longest = size > longest ? size : longest;
    }
    return longest;
}

/* As many chains as things: names that hardly differ, and numbers in a row, are found at once. */
static void spreads(void **state)
{
    static struct mst_table_node nodes[10000];
    struct failing_mem mem;
    struct mst_table table;
    char name[] = "worker/rank-00000/status";

    (void)state;
    failing_mem_init(&mem, 0);
    for (unsigned kind = 0; kind < 2; kind++) {
        mst_table_init(&table, &mem.mem);
        for (size_t i = 0; i < 10000; i++) {
            for (size_t digit = 0, rest = i; digit < 5; digit++, rest /= 10) {
                name[16 - digit] = (char)('0' + rest % 10);
            }
            mst_table_insert(&table, kind == 0 ? i : mst_table_hash(&secret, mst_slice_text(name)),
                             &nodes[i]);
        }
        assert_true(table.used == table.count);
        assert_true(longest_chain(&table) <= (kind == 0 ? 2 : 10));
        for (size_t i = 0; i < 10000; i++) {
            mst_table_remove(&table, &nodes[i]);
        }
    }
    assert_true(mem.live == 0);
}

static void every_byte_counts(void **state)
{
    unsigned char bytes[24] = {0};
    uint64_t none = mst_table_hash(&secret, mst_slice_of(NULL, 0));

    (void)state;
    for (size_t size = 1; size <= sizeof bytes; size++) {
        uint64_t zeros = mst_table_hash(&secret, mst_slice_of(bytes, size));

        assert_true(zeros != none &&
                    zeros != mst_table_hash(&secret, mst_slice_of(bytes, size - 1)));
        for (size_t at = 0; at < size; at++) {
            bytes[at] = 1;
            assert_true(mst_table_hash(&secret, mst_slice_of(bytes, size)) != zeros);
            bytes[at] = 0;
        }
    }
}

/* Who does not know it cannot choose names that share a chain. */
static void a_secret_scatters_what_collides_without(void **state)
{
    enum { CHAINS = 64 };
    const struct mst_table_secret other = {{18, 23}};
    unsigned longest = 0;
    unsigned chains[CHAINS] = {0};
    unsigned chosen = 0;

    (void)state;
    for (uint64_t i = 0; chosen < CHAINS; i++) {
        struct mst_slice name = mst_slice_of(&i, sizeof i);

        if (mst_table_hash(&secret, name) % CHAINS == 0) {
            unsigned *chain = &chains[mst_table_hash(&other, name) % CHAINS];

            chosen++;
            longest = ++*chain > longest ? *chain : longest;
        }
    }
    assert_true(longest <= 8);
}

/* The key and the message of the published example, which is for two and four rounds: with one and
 * three. */
static void it_is_the_known_function(void **state)
{
    unsigned char bytes[16];
    struct mst_table_secret known;

    (void)state;
    for (unsigned i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)i;
    }
    memcpy(&known, bytes, sizeof known);
    assert_true(mst_table_hash(&known, mst_slice_of(bytes, 15)) == UINT64_C(0xd320d86d2a519956));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_is_there),
        cmocka_unit_test(without_memory_its_chains_grow),
        cmocka_unit_test(spreads),
        cmocka_unit_test(a_secret_scatters_what_collides_without),
        cmocka_unit_test(it_is_the_known_function),
        cmocka_unit_test(every_byte_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
