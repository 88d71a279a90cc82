/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_FRONTS_TCPSTORE_CODEC_H
#define MST_FRONTS_TCPSTORE_CODEC_H

/* The protocol of torch's TCPStore: bytes in, requests out. A request is an opcode and its fields,
 * without a frame around them; all integers are little-endian. The protocol has no error reply: a
 * client with an invalid request is disconnected. */

#include "base/buffer.h"
#include "muster/status.h"

enum mst_tcpstore_opcode {
    MST_TCPSTORE_VALIDATE = 0,
    MST_TCPSTORE_SET = 1,
    MST_TCPSTORE_COMPARE_SET = 2,
    MST_TCPSTORE_GET = 3,
    MST_TCPSTORE_ADD = 4,
    MST_TCPSTORE_CHECK = 5,
    MST_TCPSTORE_WAIT = 6,
    MST_TCPSTORE_GETNUMKEYS = 7,
    MST_TCPSTORE_DELETE_KEY = 8,
    MST_TCPSTORE_APPEND = 9,
    MST_TCPSTORE_MULTI_GET = 10,
    MST_TCPSTORE_MULTI_SET = 11,
    MST_TCPSTORE_CANCEL_WAIT = 12,
    MST_TCPSTORE_PING = 13,
    MST_TCPSTORE_QUEUE_PUSH = 14,
    MST_TCPSTORE_QUEUE_POP = 15,
    MST_TCPSTORE_QUEUE_LEN = 16,
    MST_TCPSTORE_LIST_KEYS = 17,
    MST_TCPSTORE_BARRIER = 18,
    MST_TCPSTORE_OPCODES
};

#define MST_TCPSTORE_MAGIC UINT32_C(0x3C85F7CE)
#define MST_TCPSTORE_KEY_MAX 8192u           /* bytes of a key, as torch's server has it */
#define MST_TCPSTORE_KEYS_MAX 131072u        /* keys of one request, likewise */
#define MST_TCPSTORE_REQUEST_MAX (64u << 20) /* bytes of one request */
#define MST_TCPSTORE_AHEAD_MAX (1u << 20)    /* bytes of further requests behind it */

/* Borrowed from the reader. */
struct mst_tcpstore_request {
    enum mst_tcpstore_opcode opcode;
    struct mst_slice key;
    struct mst_slice value;   /* of COMPARE_SET the expected one */
    struct mst_slice desired; /* of COMPARE_SET */
    int64_t number;           /* ADD: the delta. BARRIER: the world size. PING: the nonce */
    uint64_t count;           /* of the list's keys, or of its pairs */
    struct mst_slice list;    /* of a request with one key: that. For mst_tcpstore_item */
};

struct mst_tcpstore_reader {
    struct mst_buffer in;
    uint64_t value_bytes_max;
    bool greeted; /* VALIDATE has come */
    /* How far the first request is checked. No byte is looked at twice. */
    size_t seen;
    uint32_t field;
    bool counted;   /* the list's count was read, and... */
    uint64_t items; /* ...so many of its items are not checked */
};

#define MST_TCPSTORE_WHY_MAX 160

void mst_tcpstore_reader_init(struct mst_tcpstore_reader *reader, uint64_t value_bytes_max,
                              const struct mst_mem *mem);
void mst_tcpstore_reader_fini(struct mst_tcpstore_reader *reader);

/* Bytes of the client. ENOMEM; ELIMIT: more than a request may have, and AHEAD_MAX. What was
 * borrowed dies. */
muster_status mst_tcpstore_reader_take(struct mst_tcpstore_reader *reader, struct mst_slice bytes);

/* The first request; the same again until it is done. MORE: it is not complete. EPROTO: the bytes
 * are no request, and `why` says it. */
muster_status mst_tcpstore_reader_next(struct mst_tcpstore_reader *reader,
                                       struct mst_tcpstore_request *out,
                                       char why[MST_TCPSTORE_WHY_MAX]);
void mst_tcpstore_reader_done(struct mst_tcpstore_reader *reader);

/* Takes the first item off a list: a key or a value. */
struct mst_slice mst_tcpstore_item(struct mst_slice *list);

const char *mst_tcpstore_opcode_word(enum mst_tcpstore_opcode opcode);

/* Of replies. */
void mst_tcpstore_put_number(unsigned char out[8], uint64_t number);

#endif
