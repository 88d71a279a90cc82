/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes between two replicas.
 *
 * behaviour: replicas / Messages between replicas */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/prng.h"
#include "failing_mem.h"
#include "replica_generator.h"

enum { ROUNDS = 300, SEED = 7 };

struct stage {
    struct failing_mem memory;
    struct mst_prng prng;
    struct replica_chooser chooser;
    struct mst_buffer stream;
};

static uint64_t below(void *ctx, uint64_t bound)
{
    return mst_prng_below(ctx, bound);
}

static int set_up(void **state)
{
    struct stage *stage = calloc(1, sizeof *stage);

    assert_non_null(stage);
    failing_mem_init(&stage->memory, 0);
    stage->prng.state = SEED;
    stage->chooser = (struct replica_chooser){.ctx = &stage->prng, .below = below};
    mst_buffer_init(&stage->stream, &stage->memory.mem, 64 << 20);
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    mst_buffer_fini(&stage->stream);
    assert_int_equal(stage->memory.live, 0);
    free(stage);
    return 0;
}

static uint64_t again(const struct mst_replica_message *message, const struct mst_mem *mem,
                      uint64_t digest)
{
    struct mst_buffer buffer;

    mst_buffer_init(&buffer, mem, MST_REPLICA_MESSAGE_MAX);
    assert_int_equal(mst_replica_message_write(&buffer, message), MUSTER_OK);
    digest = mst_digest_slice(digest, mst_buffer_content(&buffer));
    mst_buffer_fini(&buffer);
    return digest;
}

/* The bytes as they come: given, or received where they are read. */
static void come(struct stage *stage, struct mst_replica_reader *reader, struct mst_slice bytes)
{
    unsigned char *room;
    size_t size;

    if (mst_prng_below(&stage->prng, 2) == 0) {
        assert_int_equal(mst_replica_reader_take(reader, bytes), MUSTER_OK);
        return;
    }
    room = mst_replica_reader_room(reader, &size);
    assert_non_null(room);
    assert_true(size >= MST_REPLICA_TAKE_MAX);
    memcpy(room, bytes.data, bytes.size);
    mst_replica_reader_took(reader, bytes.size);
}

/* Reads all of `bytes`, in pieces of at most `most` of them; the digest of what was read. */
static uint64_t read_all(struct stage *stage, struct mst_slice bytes, size_t most, size_t *count)
{
    struct mst_replica_reader reader;
    struct mst_replica_message message;
    const char *why = NULL;
    uint64_t digest = MST_DIGEST_INIT;

    *count = 0;
    mst_replica_reader_init(&reader, &stage->memory.mem);
    mst_replica_reader_admit(&reader);
    while (bytes.size > 0) {
        size_t size = 1 + mst_prng_below(&stage->prng, most);
        muster_status status;

        size = size < bytes.size ? size : bytes.size;
        come(stage, &reader, mst_slice_of(bytes.data, size));
        bytes = mst_slice_from(bytes, size);
        while ((status = mst_replica_reader_next(&reader, &message, &why)) == MUSTER_OK) {
            digest = again(&message, &stage->memory.mem, digest);
            ++*count;
        }
        assert_int_equal(status, MUSTER_MORE);
    }
    mst_replica_reader_fini(&reader);
    return digest;
}

/* Every message of each type is the same after it was written and read, in whatever pieces its
 * bytes come. */
static void messages_are_the_same_in_any_pieces(void **state)
{
    struct stage *stage = *state;
    static struct replica_generated generated;
    uint64_t written = MST_DIGEST_INIT;
    size_t count;

    for (unsigned i = 0; i < ROUNDS; i++) {
        replica_generate(&generated, i, &stage->chooser);
        assert_int_equal(mst_replica_message_write(&stage->stream, &generated.message), MUSTER_OK);
        written = again(&generated.message, &stage->memory.mem, written);
    }
    for (size_t most = 1; most <= MST_REPLICA_TAKE_MAX; most *= 16) {
        assert_int_equal(read_all(stage, mst_buffer_content(&stage->stream), most, &count),
                         written);
        assert_int_equal(count, ROUNDS);
    }
}

/* Every field of an entry is read as it was written. */
static void entries_are_read_one_by_one(void **state)
{
    struct stage *stage = *state;
    const struct mst_replica_entry entries[] = {
        {.term = 3, .type = MST_REPLICA_COMMAND, .bytes = mst_slice_text("one")},
        {.term = 4, .type = MST_REPLICA_BARRIER}};
    struct mst_replica_message message = {
        .type = MST_REPLICA_APPEND,
        .append = {
            .term = 5, .prev_index = 7, .prev_term = 3, .commit = 6, .count = 2, .from = entries}};
    struct mst_replica_reader reader;
    struct mst_replica_message read;
    struct mst_replica_entry entry;
    const char *why;

    assert_int_equal(mst_replica_message_write(&stage->stream, &message), MUSTER_OK);
    mst_replica_reader_init(&reader, &stage->memory.mem);
    assert_int_equal(mst_replica_reader_take(&reader, mst_buffer_content(&stage->stream)),
                     MUSTER_OK);
    assert_int_equal(mst_replica_reader_next(&reader, &read, &why), MUSTER_OK);
    assert_int_equal(read.append.term, 5);
    assert_int_equal(read.append.prev_index, 7);
    assert_int_equal(read.append.prev_term, 3);
    assert_int_equal(read.append.commit, 6);
    assert_int_equal(read.append.count, 2);
    assert_true(mst_replica_entry_next(&read.append.entries, &entry));
    assert_int_equal(entry.term, 3);
    assert_int_equal(entry.type, MST_REPLICA_COMMAND);
    assert_true(mst_slice_is(entry.bytes, "one"));
    assert_true(mst_replica_entry_next(&read.append.entries, &entry));
    assert_int_equal(entry.term, 4);
    assert_int_equal(entry.type, MST_REPLICA_BARRIER);
    assert_int_equal(entry.bytes.size, 0);
    assert_false(mst_replica_entry_next(&read.append.entries, &entry));
    mst_replica_reader_fini(&reader);
}

static muster_status read_one(struct stage *stage, struct mst_slice bytes, bool admitted,
                              const char **why)
{
    struct mst_replica_reader reader;
    struct mst_replica_message message;
    muster_status status;

    mst_replica_reader_init(&reader, &stage->memory.mem);
    if (admitted) {
        mst_replica_reader_admit(&reader);
    }
    assert_int_equal(mst_replica_reader_take(&reader, bytes), MUSTER_OK);
    status = mst_replica_reader_next(&reader, &message, why);
    mst_replica_reader_fini(&reader);
    return status;
}

/* A message with one byte changed is refused, or is another message that makes sense; it is never
 * read beyond its end. */
static void a_changed_byte_is_refused_or_makes_sense(void **state)
{
    struct stage *stage = *state;
    static struct replica_generated generated;
    unsigned refused = 0, changed = 0;

    for (unsigned i = 0; i < 4 * REPLICA_GENERATED_TYPES; i++) {
        struct mst_slice whole;
        unsigned char *copy;

        replica_generate(&generated, i, &stage->chooser);
        assert_int_equal(mst_replica_message_write(&stage->stream, &generated.message), MUSTER_OK);
        whole = mst_buffer_content(&stage->stream);
        copy = malloc(whole.size + 1);
        assert_non_null(copy);
        for (size_t at = 0; at < whole.size; at++) {
            const char *why = NULL;
            muster_status status;

            memcpy(copy, whole.data, whole.size);
            copy[at] ^= (unsigned char)(1u << (at % 8));
            status = read_one(stage, mst_slice_of(copy, whole.size), true, &why);
            assert_true(status == MUSTER_OK || status == MUSTER_MORE ||
                        (status == MUSTER_EPROTO && why));
            refused += status == MUSTER_EPROTO;
            changed++;
        }
        free(copy);
        mst_buffer_take(&stage->stream, whole.size);
    }
    assert_true(refused > changed / 10);
}

/* A piece of a snapshot with any byte of its content changed is refused. */
static void a_damaged_piece_is_refused(void **state)
{
    struct stage *stage = *state;
    const struct mst_replica_message message = {
        .type = MST_REPLICA_PIECE,
        .piece = {
            .index = 9, .term = 2, .offset = 0, .bytes = mst_slice_text("state of the core")}};
    struct mst_slice whole;
    unsigned char copy[128];
    const char *why = NULL;

    assert_int_equal(mst_replica_message_write(&stage->stream, &message), MUSTER_OK);
    whole = mst_buffer_content(&stage->stream);
    for (size_t at = whole.size - message.piece.bytes.size; at < whole.size; at++) {
        memcpy(copy, whole.data, whole.size);
        copy[at] ^= 0x10;
        assert_int_equal(read_one(stage, mst_slice_of(copy, whole.size), true, &why),
                         MUSTER_EPROTO);
        assert_string_equal(why, "its checksum is wrong");
    }
}

static void put(unsigned char *at, uint64_t number, unsigned size)
{
    for (unsigned i = 0; i < size; i++) {
        at[i] = (unsigned char)(number >> (8 * i));
    }
}

/* A head that promises the longest message allocates for the bytes that came and no more; one that
 * promises more is refused at once, and before the hello everything longer than a hello is. */
static void a_length_alone_costs_no_memory(void **state)
{
    struct stage *stage = *state;
    unsigned char head[MST_REPLICA_MESSAGE_HEAD] = {0};
    const char *why = NULL;

    put(head + 4, MST_REPLICA_APPEND, 4);
    put(head, MST_REPLICA_MESSAGE_MAX, 4);
    assert_int_equal(read_one(stage, mst_slice_of(head, sizeof head), true, &why), MUSTER_MORE);
    assert_true(stage->memory.bytes <= 1024);
    put(head, MST_REPLICA_MESSAGE_MAX + 1, 4);
    assert_int_equal(read_one(stage, mst_slice_of(head, sizeof head), true, &why), MUSTER_EPROTO);
    put(head, UINT32_MAX, 4);
    assert_int_equal(read_one(stage, mst_slice_of(head, sizeof head), true, &why), MUSTER_EPROTO);
    put(head, MST_REPLICA_HELLO_MAX + 1, 4);
    assert_int_equal(read_one(stage, mst_slice_of(head, sizeof head), false, &why), MUSTER_EPROTO);
    put(head, 0, 4);
    assert_int_equal(read_one(stage, mst_slice_of(head, sizeof head), true, &why), MUSTER_EPROTO);
}

/* A configuration that libraft would read beyond its end, or that names a member twice, is refused,
 * as an entry and as a snapshot's. */
static void a_damaged_configuration_is_refused(void **state)
{
    struct mst_replica_servers servers = {
        .count = 2,
        .of = {{.id = 1, .role = MST_REPLICA_VOTER, .address = "a:1"},
               {.id = 2, .role = MST_REPLICA_STANDBY, .address = "b:1"}}};
    struct mst_replica_servers read;
    unsigned char bytes[64];
    size_t size = mst_replica_configuration_bytes(&servers);

    (void)state;
    mst_replica_configuration_write(bytes, &servers);
    assert_true(mst_replica_configuration_read(mst_slice_of(bytes, size), &read));
    assert_int_equal(read.count, 2);
    assert_int_equal(read.of[1].role, MST_REPLICA_STANDBY);
    assert_string_equal(read.of[1].address, "b:1");
    for (size_t shorter = 0; shorter < size; shorter++) {
        assert_false(mst_replica_configuration_read(mst_slice_of(bytes, shorter), &read));
    }
    put(bytes + 1, 3, 8); /* more than there are */
    assert_false(mst_replica_configuration_read(mst_slice_of(bytes, size), &read));
    put(bytes + 1, UINT64_MAX, 8);
    assert_false(mst_replica_configuration_read(mst_slice_of(bytes, size), &read));
    servers.of[1].id = 1;
    mst_replica_configuration_write(bytes, &servers);
    assert_false(mst_replica_configuration_read(mst_slice_of(bytes, size), &read));
    servers.of[1].id = 2;
    servers.of[1].address[0] = 'a';
    mst_replica_configuration_write(bytes, &servers);
    assert_false(mst_replica_configuration_read(mst_slice_of(bytes, size), &read));
}

static struct mst_replica_message hello_of(uint64_t id, uint32_t rules, const char *run)
{
    return (struct mst_replica_message){.type = MST_REPLICA_HELLO,
                                        .hello = {.protocol = MST_REPLICA_PROTOCOL,
                                                  .rules = rules,
                                                  .id = id,
                                                  .run = mst_slice_text(run),
                                                  .address = mst_slice_text("n2:4000"),
                                                  .version = mst_slice_text("0.2.0")}};
}

/* A replica of another run, of other rules, or with the same id does not fit, and one line says
 * which and of what version. */
static void a_hello_that_does_not_fit_is_explained(void **state)
{
    const struct mst_replica_message own = hello_of(1, 3, "train");
    struct mst_replica_message other = hello_of(2, 3, "train");
    char line[256];

    (void)state;
    assert_true(mst_replica_hello_fits(&own, &other, line, sizeof line));
    other = hello_of(2, 3, "other");
    assert_false(mst_replica_hello_fits(&own, &other, line, sizeof line));
    assert_string_equal(line, "the replica at n2:4000 is of run 'other', this one of 'train'");
    other = hello_of(2, 4, "train");
    assert_false(mst_replica_hello_fits(&own, &other, line, sizeof line));
    assert_string_equal(line,
                        "the replica at n2:4000 is muster 0.2.0 (rules 4, protocol 1), this one "
                        "0.2.0 (rules 3, protocol 1): replicas of a run are of one version");
    other = hello_of(1, 3, "train");
    assert_false(mst_replica_hello_fits(&own, &other, line, sizeof line));
    assert_string_equal(line, "the replica at n2:4000 has the id 1, which is that of this one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_are_the_same_in_any_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(entries_are_read_one_by_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_changed_byte_is_refused_or_makes_sense, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_piece_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_length_alone_costs_no_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_damaged_configuration_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hello_that_does_not_fit_is_explained, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
