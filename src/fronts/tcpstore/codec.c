/* SPDX-License-Identifier: Apache-2.0 */
#include "fronts/tcpstore/codec.h"

#include "base/text.h"

/* Fields: m the magic, n a nonce of 32 bits, i a number, k a key, v a value; K a list of keys, P of
 * pairs of a key and a value. A list is the only field of its request. */
static const struct {
    const char *word, *fields;
} opcodes[MST_TCPSTORE_OPCODES] = {
    [MST_TCPSTORE_VALIDATE] = {"VALIDATE", "m"},
    [MST_TCPSTORE_SET] = {"SET", "kv"},
    [MST_TCPSTORE_COMPARE_SET] = {"COMPARE_SET", "kvv"},
    [MST_TCPSTORE_GET] = {"GET", "k"},
    [MST_TCPSTORE_ADD] = {"ADD", "ki"},
    [MST_TCPSTORE_CHECK] = {"CHECK", "K"},
    [MST_TCPSTORE_WAIT] = {"WAIT", "K"},
    [MST_TCPSTORE_GETNUMKEYS] = {"GETNUMKEYS", ""},
    [MST_TCPSTORE_DELETE_KEY] = {"DELETE_KEY", "k"},
    [MST_TCPSTORE_APPEND] = {"APPEND", "kv"},
    [MST_TCPSTORE_MULTI_GET] = {"MULTI_GET", "K"},
    [MST_TCPSTORE_MULTI_SET] = {"MULTI_SET", "P"},
    [MST_TCPSTORE_CANCEL_WAIT] = {"CANCEL_WAIT", ""},
    [MST_TCPSTORE_PING] = {"PING", "n"},
    [MST_TCPSTORE_QUEUE_PUSH] = {"QUEUE_PUSH", "kv"},
    [MST_TCPSTORE_QUEUE_POP] = {"QUEUE_POP", "k"},
    [MST_TCPSTORE_QUEUE_LEN] = {"QUEUE_LEN", "k"},
    [MST_TCPSTORE_LIST_KEYS] = {"LIST_KEYS", ""},
    [MST_TCPSTORE_BARRIER] = {"BARRIER", "ki"},
};

enum { NUMBER = 8, NONCE = 4, ROOM_KEPT = 65536 /* by an idle client */ };

const char *mst_tcpstore_opcode_word(enum mst_tcpstore_opcode opcode)
{
    return opcodes[opcode].word;
}

static uint64_t number_at(const unsigned char *bytes, size_t size)
{
    uint64_t number = 0;

    for (size_t i = 0; i < size; i++) {
        number |= (uint64_t)bytes[i] << (8 * i);
    }
    return number;
}

void mst_tcpstore_put_number(unsigned char out[8], uint64_t number)
{
    for (size_t i = 0; i < NUMBER; i++) {
        out[i] = (unsigned char)(number >> (8 * i));
    }
}

void mst_tcpstore_reader_init(struct mst_tcpstore_reader *reader, uint64_t value_bytes_max,
                              const struct mst_mem *mem)
{
    *reader = (struct mst_tcpstore_reader){.value_bytes_max = value_bytes_max};
    mst_buffer_init(&reader->in, mem, MST_TCPSTORE_REQUEST_MAX + MST_TCPSTORE_AHEAD_MAX);
}

void mst_tcpstore_reader_fini(struct mst_tcpstore_reader *reader)
{
    mst_buffer_fini(&reader->in);
}

muster_status mst_tcpstore_reader_take(struct mst_tcpstore_reader *reader, struct mst_slice bytes)
{
    size_t used = mst_buffer_content(&reader->in).size;

    if (bytes.size > reader->in.size_max - used) {
        return MUSTER_ELIMIT;
    }
    return mst_buffer_append(&reader->in, bytes) ? MUSTER_OK : MUSTER_ENOMEM;
}

/* ---- the check ---- */

static muster_status refuse(char why[MST_TCPSTORE_WHY_MAX], enum mst_tcpstore_opcode opcode,
                            const char *what, uint64_t size, uint64_t most)
{
    (void)mst_text_print(why, MST_TCPSTORE_WHY_MAX,
                         "%s: %s of %" PRIu64 ", and at most %" PRIu64 " are possible",
                         opcodes[opcode].word, what, size, most);
    return MUSTER_EPROTO;
}

/* MORE: `size` bytes are not here. */
static muster_status pass(struct mst_tcpstore_reader *reader, size_t whole, uint64_t size)
{
    if (whole - reader->seen < size) {
        return MUSTER_MORE;
    }
    reader->seen += (size_t)size;
    return MUSTER_OK;
}

/* A length is checked when it is here, before the bytes are. */
static muster_status pass_bytes(struct mst_tcpstore_reader *reader, struct mst_slice in, bool key,
                                char why[MST_TCPSTORE_WHY_MAX])
{
    const unsigned char *bytes = in.data;
    uint64_t most = key ? MST_TCPSTORE_KEY_MAX : reader->value_bytes_max;
    uint64_t size;

    if (in.size - reader->seen < NUMBER) {
        return MUSTER_MORE;
    }
    size = number_at(bytes + reader->seen, NUMBER);
    if (size > most) {
        return refuse(why, (enum mst_tcpstore_opcode)bytes[0],
                      key ? "a key with a size" : "a value with a size", size, most);
    }
    return pass(reader, in.size, NUMBER + size);
}

static muster_status pass_list(struct mst_tcpstore_reader *reader, struct mst_slice in, bool pairs,
                               char why[MST_TCPSTORE_WHY_MAX])
{
    const unsigned char *bytes = in.data;
    muster_status status = MUSTER_OK;

    if (!reader->counted) {
        uint64_t count;

        if (in.size - reader->seen < NUMBER) {
            return MUSTER_MORE;
        }
        count = number_at(bytes + reader->seen, NUMBER);
        if (count > MST_TCPSTORE_KEYS_MAX) {
            return refuse(why, (enum mst_tcpstore_opcode)bytes[0], "a number of keys", count,
                          MST_TCPSTORE_KEYS_MAX);
        }
        reader->seen += NUMBER;
        reader->counted = true;
        reader->items = pairs ? 2 * count : count;
    }
    while (status == MUSTER_OK && reader->items > 0) {
        status = pass_bytes(reader, in, !pairs || reader->items % 2 == 0, why);
        reader->items -= status == MUSTER_OK;
    }
    return status;
}

static muster_status pass_magic(struct mst_tcpstore_reader *reader, struct mst_slice in,
                                char why[MST_TCPSTORE_WHY_MAX])
{
    const unsigned char *bytes = in.data;
    muster_status status = pass(reader, in.size, NONCE);

    if (status == MUSTER_OK && number_at(bytes + 1, NONCE) != MST_TCPSTORE_MAGIC) {
        (void)mst_text_print(why, MST_TCPSTORE_WHY_MAX,
                             "its first bytes are not those of a TCPStore client of torch 2.2 or "
                             "later");
        return MUSTER_EPROTO;
    }
    return status;
}

static muster_status pass_field(struct mst_tcpstore_reader *reader, struct mst_slice in, char field,
                                char why[MST_TCPSTORE_WHY_MAX])
{
    switch (field) {
    case 'm':
        return pass_magic(reader, in, why);
    case 'n':
        return pass(reader, in.size, NONCE);
    case 'i':
        return pass(reader, in.size, NUMBER);
    case 'K':
    case 'P':
        return pass_list(reader, in, field == 'P', why);
    default:
        return pass_bytes(reader, in, field == 'k', why);
    }
}

/* A client says VALIDATE first, and once. */
static muster_status check_opcode(const struct mst_tcpstore_reader *reader, unsigned char opcode,
                                  char why[MST_TCPSTORE_WHY_MAX])
{
    if (!reader->greeted && opcode != MST_TCPSTORE_VALIDATE) {
        (void)mst_text_print(why, MST_TCPSTORE_WHY_MAX,
                             "its first byte, %u, is not that of a TCPStore client of torch 2.2 or "
                             "later",
                             (unsigned)opcode);
        return MUSTER_EPROTO;
    }
    if (opcode >= MST_TCPSTORE_OPCODES || (reader->greeted && opcode == MST_TCPSTORE_VALIDATE)) {
        (void)mst_text_print(why, MST_TCPSTORE_WHY_MAX,
                             "opcode %u is none that may come here; known are 1 to %u",
                             (unsigned)opcode, MST_TCPSTORE_OPCODES - 1u);
        return MUSTER_EPROTO;
    }
    return MUSTER_OK;
}

static muster_status check_request(struct mst_tcpstore_reader *reader, struct mst_slice in,
                                   char why[MST_TCPSTORE_WHY_MAX])
{
    unsigned char opcode;
    const char *fields;

    if (in.size == 0) {
        return MUSTER_MORE;
    }
    opcode = *(const unsigned char *)in.data;
    if (reader->seen == 0) {
        muster_status status = check_opcode(reader, opcode, why);

        if (status != MUSTER_OK) {
            return status;
        }
        reader->seen = 1;
    }
    for (fields = opcodes[opcode].fields; fields[reader->field]; reader->field++) {
        muster_status status = pass_field(reader, in, fields[reader->field], why);

        if (status != MUSTER_OK) {
            return status;
        }
    }
    return MUSTER_OK;
}

/* ---- what is complete ---- */

struct mst_slice mst_tcpstore_item(struct mst_slice *list)
{
    struct mst_slice rest = mst_slice_from(*list, NUMBER);
    struct mst_slice item = {.data = rest.data, .size = (size_t)number_at(list->data, NUMBER)};

    *list = mst_slice_from(rest, item.size);
    return item;
}

static void read_fields(struct mst_slice rest, const char *fields, struct mst_tcpstore_request *out)
{
    for (; *fields; fields++) {
        switch (*fields) {
        case 'm':
        case 'n':
            out->number = (int64_t)number_at(rest.data, NONCE);
            rest = mst_slice_from(rest, NONCE);
            break;
        case 'i':
            out->number = (int64_t)number_at(rest.data, NUMBER);
            rest = mst_slice_from(rest, NUMBER);
            break;
        case 'k':
            out->count = 1;
            out->list = rest;
            out->key = mst_tcpstore_item(&rest);
            break;
        case 'K':
        case 'P':
            out->count = number_at(rest.data, NUMBER);
            out->list = mst_slice_from(rest, NUMBER);
            break;
        default:
            *(fields[-1] == 'v' ? &out->desired : &out->value) = mst_tcpstore_item(&rest);
        }
    }
}

muster_status mst_tcpstore_reader_next(struct mst_tcpstore_reader *reader,
                                       struct mst_tcpstore_request *out,
                                       char why[MST_TCPSTORE_WHY_MAX])
{
    struct mst_slice in = mst_buffer_content(&reader->in);
    muster_status status = check_request(reader, in, why);

    if (status == MUSTER_OK) {
        *out = (struct mst_tcpstore_request){.opcode = (enum mst_tcpstore_opcode) *
                                                       (const unsigned char *)in.data};
        read_fields(mst_slice_from(mst_slice_of(in.data, reader->seen), 1),
                    opcodes[out->opcode].fields, out);
    }
    return status;
}

void mst_tcpstore_reader_done(struct mst_tcpstore_reader *reader)
{
    mst_buffer_take(&reader->in, reader->seen);
    reader->greeted = true;
    reader->seen = 0;
    reader->field = 0;
    reader->counted = false;
    if (mst_buffer_content(&reader->in).size == 0 && reader->in.room > ROOM_KEPT) {
        const struct mst_mem *mem = reader->in.mem;
        size_t size_max = reader->in.size_max;

        mst_buffer_fini(&reader->in);
        mst_buffer_init(&reader->in, mem, size_max);
    }
}
