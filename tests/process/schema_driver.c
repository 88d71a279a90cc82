/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of fields and the codec, for test_schema.py. Commands come line by line; every answer
 * is lines, the last of them `end`.
 *
 *   table                what the rows say
 *   enums                our numbers of the schema's names
 *   random ROOT SEED     a message made from the rows: its fields, its bytes
 *   decode ROOT HEX      what is in these bytes, and how we encode that; or what is wrong with them
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "proto/cluster.h"
#include "proto/greeting.h"
#include "proto/protobuf.h"
#include "proto/reply.h"

enum { LINE_MAX_BYTES = 1 << 20, POOL = 1 << 20, PATH_ROOM = 256, LONGEST = 200 };

union any {
    struct mst_hello hello;
    struct mst_welcome welcome;
    struct mst_request request;
    struct mst_reply reply;
    struct mst_cluster_message message;
};

static const struct root {
    const char *name, *package;
    const struct mst_message *type;
} roots[] = {
    {"Hello", "muster", &mst_hello_fields},
    {"Welcome", "muster", &mst_welcome_fields},
    {"Request", "muster", &mst_request_fields},
    {"Reply", "muster", &mst_reply_fields},
    {"Message", "muster.cluster", &mst_cluster_fields},
};

enum { ROOTS = sizeof roots / sizeof roots[0] };

static const char *const types[] = {
    [MST_FIELD_NONE] = "none",       [MST_FIELD_UINT32] = "uint32", [MST_FIELD_ENUM] = "enum",
    [MST_FIELD_PLUS_ONE] = "uint32", [MST_FIELD_SINT32] = "sint32", [MST_FIELD_BOOL] = "bool",
    [MST_FIELD_UINT64] = "uint64",   [MST_FIELD_SINT64] = "sint64", [MST_FIELD_FIXED64] = "fixed64",
    [MST_FIELD_DOUBLE] = "double",   [MST_FIELD_BYTES] = "bytes",   [MST_FIELD_STRING] = "string",
    [MST_FIELD_MESSAGE] = "message",
};

static const struct {
    const char *name;
    int number;
} numbers[] = {
    {"ROLE_OBSERVER", MST_ROLE_OBSERVER},
    {"ROLE_RANK", MST_ROLE_RANK},
    {"ROLE_WORKER", MST_ROLE_WORKER},
    {"ROLE_AGENT", MST_ROLE_AGENT},
    {"GROW_CHECK", MST_GROW_CHECK},
    {"GROW_FAULT", MST_GROW_FAULT},
    {"GROW_OFF", MST_GROW_OFF},
    {"OPERATION_UNSPECIFIED", 0},
    {"OPERATION_INSERT", MST_INSERT},
    {"OPERATION_PUT", MST_PUT},
    {"OPERATION_CAS", MST_CAS},
    {"OPERATION_ADD", MST_ADD},
    {"OPERATION_APPEND", MST_APPEND},
    {"OPERATION_DELETE", MST_DELETE},
    {"ON_LOSS_FAIL", MST_FAIL},
    {"ON_LOSS_PROCEED", MST_PROCEED},
    {"REDUCE_NONE", MST_REDUCE_NONE},
    {"REDUCE_GATHER", MST_REDUCE_GATHER},
    {"REDUCE_MIN", MST_REDUCE_MIN},
    {"REDUCE_MAX", MST_REDUCE_MAX},
    {"REDUCE_SUM", MST_REDUCE_SUM},
    {"REDUCE_EQUAL", MST_REDUCE_EQUAL},
    {"REDUCE_XOR", MST_REDUCE_XOR},
    {"REDUCE_SUM_DOUBLE", MST_REDUCE_SUM_DOUBLE},
    {"REDUCE_MIN_DOUBLE", MST_REDUCE_MIN_DOUBLE},
    {"REDUCE_MAX_DOUBLE", MST_REDUCE_MAX_DOUBLE},
    {"REDUCE_BROADCAST", MST_REDUCE_BROADCAST},
#define X(NAME, number, word, verb, words, code, shown) {"CAUSE_" #NAME, MST_CAUSE_##NAME},
#include "proto/cause.def"
#undef X
    {"ATTENTION_CALM", MST_CALM},
    {"ATTENTION_GROW", MST_GROW},
    {"ATTENTION_INTERRUPT", MST_INTERRUPT},
    {"STATE_UNSPECIFIED", 0},
    {"STATE_JOINING", MST_JOINING},
    {"STATE_PRESENT", MST_PRESENT},
    {"STATE_SILENT", MST_SILENT},
    {"STATE_LOST", MST_STATE_LOST},
    {"STATE_LEFT", MST_LEFT},
    {"STATE_ABSENT", MST_ABSENT},
    {"STATE_SPARE", MST_SPARE},
    {"ITEM_UNSPECIFIED", 0},
    {"ITEM_KEY", MST_ITEM_KEY},
    {"ITEM_DELETED", MST_ITEM_DELETED},
    {"ITEM_MEMBER", MST_ITEM_MEMBER},
    {"ITEM_FAULT", MST_ITEM_FAULT},
    {"ITEM_VIEW", MST_ITEM_VIEW},
    {"ITEM_RESET", MST_ITEM_RESET},
    {"ITEM_ROUND", MST_ITEM_ROUND},
    {"ITEM_PART", MST_ITEM_PART},
    {"ITEM_JOB", MST_ITEM_JOB},
    {"ITEM_HOST", MST_ITEM_HOST},
    {"ITEM_INCIDENT", MST_ITEM_INCIDENT},
    {"INCIDENT_NONE", 0},
    {"INCIDENT_SEALED", MST_INCIDENT_SEALED},
    {"INCIDENT_LOST", MST_INCIDENT_LOST},
    {"INCIDENT_NODE", MST_INCIDENT_NODE},
    {"INCIDENT_FAULT", MST_INCIDENT_FAULT},
    {"INCIDENT_TOO_FEW", MST_INCIDENT_TOO_FEW},
    {"INCIDENT_NOTICE", MST_INCIDENT_NOTICE},
    {"INCIDENT_SAVED", MST_INCIDENT_SAVED},
    {"INCIDENT_SERVICE", MST_INCIDENT_SERVICE},
    {"INCIDENT_STRAGGLER", MST_INCIDENT_STRAGGLER},
    {"WORK_NONE", MST_WORK_NONE},
    {"WORK_SECTIONS", MST_WORK_SECTIONS},
    {"WORK_WAITS", MST_WORK_WAITS},
    {"WORK_CPU", MST_WORK_CPU},
    {"INCIDENT_GROUP", MST_INCIDENT_GROUP},
};

/* ---- a walk over all fields of a message ---- */

struct frame {
    const struct mst_message *type;
    char *base;
    unsigned number;      /* of the field at hand */
    uint32_t next, count; /* of its elements, if it is a message */
    size_t path;          /* what is said of it before its own fields */
};

struct walk {
    /* May be NULL: makes the field at hand, before it is looked at. */
    void (*make)(struct walk *walk, const struct mst_field *field, char *base);
    void (*leaf)(struct walk *walk, unsigned type, const struct mst_field *field, char *at);
    char path[PATH_ROOM];
    struct frame frames[MST_MESSAGE_DEPTH_MAX];
    unsigned depth;
    struct mst_prng *prng;
};

static bool anything_in(const struct mst_field *field, const char *base)
{
    for (size_t i = 0; i < field->message->size; i++) {
        if (base[field->offset + i] != 0) {
            return true;
        }
    }
    return false;
}

static uint32_t count_of(const struct frame *frame, const struct mst_field *field)
{
    if (field->label == MST_FIELD_CASE) {
        return mst_field_case(frame->type, frame->base) == field;
    }
    if (field->label != MST_FIELD_ONE) {
        return mst_field_count(field, frame->base);
    }
    return field->count > 0 ? *(bool *)(void *)(frame->base + field->count)
                            : anything_in(field, frame->base);
}

static void leaves(struct walk *walk, const struct frame *frame, const struct mst_field *field)
{
    size_t behind = frame->path + strlen(field->name);

    if (field->type != MST_FIELD_ARRAY) {
        walk->leaf(walk, field->type, field, frame->base + field->offset);
        return;
    }
    for (uint32_t i = 0; i < mst_field_count(field, frame->base); i++) {
        (void)snprintf(walk->path + behind, PATH_ROOM - behind, "[%u]", i);
        walk->leaf(walk, field->item, field, mst_field_item(field, frame->base, i));
    }
}

static void down(struct walk *walk, struct frame *frame, const struct mst_field *field)
{
    size_t behind = frame->path + strlen(field->name);
    bool many = field->label != MST_FIELD_ONE && field->label != MST_FIELD_CASE;
    char *base =
        many ? mst_field_item(field, frame->base, frame->next) : frame->base + field->offset;

    if (many) {
        (void)snprintf(walk->path + behind, PATH_ROOM - behind, "[%u].", frame->next);
    } else {
        (void)snprintf(walk->path + behind, PATH_ROOM - behind, ".");
    }
    frame->next++;
    walk->frames[walk->depth++] =
        (struct frame){.type = field->message, .base = base, .path = strlen(walk->path)};
}

/* The next field of the innermost message, or out of it. */
static void step(struct walk *walk)
{
    struct frame *frame = &walk->frames[walk->depth - 1];
    const struct mst_field *field = mst_field_of(frame->type, frame->number);

    if (field && frame->next < frame->count) {
        (void)snprintf(walk->path + frame->path, PATH_ROOM - frame->path, "%s", field->name);
        down(walk, frame, field);
        return;
    }
    if (frame->number == frame->type->last) {
        walk->depth--;
        return;
    }
    field = mst_field_of(frame->type, ++frame->number);
    frame->next = frame->count = 0;
    if (!field) {
        return;
    }
    (void)snprintf(walk->path + frame->path, PATH_ROOM - frame->path, "%s", field->name);
    if (walk->make) {
        walk->make(walk, field, frame->base);
    }
    if (field->type == MST_FIELD_MESSAGE) {
        frame->count = count_of(frame, field);
    } else {
        leaves(walk, frame, field);
    }
}

static void walk_over(struct walk *walk, const struct mst_message *type, void *base)
{
    walk->frames[0] = (struct frame){.type = type, .base = base};
    walk->depth = 1;
    while (walk->depth > 0) {
        step(walk);
    }
}

/* ---- made at random ---- */

static unsigned char pool[POOL];
static size_t pool_used;

static void *take(size_t size)
{
    unsigned char *at = pool + pool_used;

    size = (size + 15) & ~(size_t)15;
    if (size > POOL - pool_used) {
        (void)fprintf(stderr, "schema_driver: the pool is empty\n");
        exit(1);
    }
    pool_used += size;
    memset(at, 0, size);
    return at;
}

static uint64_t below(const struct walk *walk, uint64_t bound)
{
    return mst_prng_below(walk->prng, bound);
}

static uint64_t any_number(const struct walk *walk)
{
    static const uint64_t edges[] = {0,         1,          127,        128,       16383,     16384,
                                     INT32_MAX, UINT32_MAX, 1ull << 32, INT64_MAX, UINT64_MAX};

    return below(walk, 2) ? edges[below(walk, sizeof edges / sizeof edges[0])]
                          : mst_prng_next(walk->prng) >> below(walk, 64);
}

static uint64_t bounded_number(const struct walk *walk, const struct mst_field *field)
{
    int64_t span = (int64_t)field->most - field->least;

    return (uint64_t)(field->most - (int64_t)below(walk, (uint64_t)(span < 999 ? span : 999) + 1));
}

static void make_bytes(struct walk *walk, unsigned type, struct mst_slice *out)
{
    size_t size = (size_t)below(walk, below(walk, 2) ? 4 : LONGEST);
    unsigned char *data = take(size);

    for (size_t i = 0; i < size; i++) {
        data[i] =
            (unsigned char)(type == MST_FIELD_STRING ? 'a' + below(walk, 26) : below(walk, 256));
    }
    *out = mst_slice_of(data, size);
}

static void make_leaf(struct walk *walk, unsigned type, const struct mst_field *field, char *at)
{
    bool within = field->bounded && field->type != MST_FIELD_ARRAY;
    uint64_t number = within ? bounded_number(walk, field) : any_number(walk);
    double share = (double)below(walk, 1025) / 1024;

    switch ((enum mst_field_type)type) {
    case MST_FIELD_BYTES:
    case MST_FIELD_STRING:
        make_bytes(walk, type, (struct mst_slice *)(void *)at);
        break;
    case MST_FIELD_DOUBLE:
        memcpy(at, &share, sizeof share);
        break;
    case MST_FIELD_BOOL:
        *(bool *)(void *)at = number % 2;
        break;
    case MST_FIELD_UINT64:
    case MST_FIELD_SINT64:
    case MST_FIELD_FIXED64:
        memcpy(at, &number, sizeof number);
        break;
    case MST_FIELD_UINT32:
    case MST_FIELD_ENUM:
    case MST_FIELD_PLUS_ONE:
    case MST_FIELD_SINT32:
        memcpy(at, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
        break;
    case MST_FIELD_ARRAY:
    case MST_FIELD_MESSAGE:
    case MST_FIELD_NONE:
        break;
    }
}

static void make_chain(struct walk *walk, const struct mst_field *field, char *base)
{
    char *at = base + field->offset;
    uint32_t one = 1;

    memcpy(at + field->message->fields[1].offset, &one, sizeof one); /* or there is none */
    for (uint64_t left = below(walk, (uint64_t)field->most); left > 0; left--) {
        char *next = take(field->size);

        memcpy(at + field->count, &next, sizeof next);
        at = next;
    }
}

static void make_field(struct walk *walk, const struct mst_field *field, char *base)
{
    uint32_t count = (uint32_t)below(walk, 5);
    void *array;

    switch ((enum mst_field_label)field->label) {
    case MST_FIELD_ONE:
        if (field->type != MST_FIELD_MESSAGE || below(walk, 2)) {
            return;
        }
        base[field->count > 0 ? field->count : field->offset] = 1; /* that there is something */
        return;
    case MST_FIELD_MANY:
        array = take((size_t)count * field->size);
        memcpy(base + field->offset, &array, sizeof array);
        memcpy(base + field->count, &count, sizeof count);
        return;
    case MST_FIELD_FEW:
        count = (uint32_t)below(walk, (uint64_t)field->most + 1);
        memcpy(base + field->count, &count, sizeof count);
        return;
    case MST_FIELD_CHAIN:
        if (below(walk, 2)) {
            make_chain(walk, field, base);
        }
        return;
    case MST_FIELD_CASE:
        return;
    }
}

static void make_case(struct mst_prng *prng, const struct mst_message *type, char *base)
{
    uint64_t number = 0;

    if (!type->which) {
        return;
    }
    while (number <= type->plain || !mst_field_of(type, number)) {
        number = mst_prng_below(prng, (uint64_t)type->last + 1);
    }
    memcpy(base + type->which->offset, &(uint32_t){(uint32_t)number - type->base},
           sizeof(uint32_t));
}

/* ---- told ---- */

static void print_hex(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        (void)printf("%02x", bytes[i]);
    }
}

/* As they are on the wire. */
static void print_leaf(struct walk *walk, unsigned type, const struct mst_field *field, char *at)
{
    const struct mst_slice *slice = (const struct mst_slice *)(const void *)at;
    uint64_t wide = 0;
    uint32_t half = 0;

    (void)field;
    (void)printf("%s=", walk->path);
    switch ((enum mst_field_type)type) {
    case MST_FIELD_BYTES:
    case MST_FIELD_STRING:
        print_hex(slice->data, slice->size);
        break;
    case MST_FIELD_BOOL:
        (void)printf("%d", *(bool *)(void *)at);
        break;
    case MST_FIELD_UINT64:
    case MST_FIELD_FIXED64:
    case MST_FIELD_DOUBLE:
        memcpy(&wide, at, sizeof wide);
        (void)printf("%" PRIu64, wide);
        break;
    case MST_FIELD_SINT64:
        memcpy(&wide, at, sizeof wide);
        (void)printf("%" PRId64, (int64_t)wide);
        break;
    case MST_FIELD_SINT32:
        memcpy(&half, at, sizeof half);
        (void)printf("%" PRId32, (int32_t)half);
        break;
    case MST_FIELD_PLUS_ONE:
        memcpy(&half, at, sizeof half);
        (void)printf("%" PRIu32, half + 1);
        break;
    case MST_FIELD_UINT32:
    case MST_FIELD_ENUM:
    case MST_FIELD_ARRAY:
    case MST_FIELD_MESSAGE:
    case MST_FIELD_NONE:
        memcpy(&half, at, sizeof half);
        (void)printf("%" PRIu32, half);
        break;
    }
    (void)printf("\n");
}

static void print_message(const struct mst_message *type, void *base)
{
    struct walk walk = {.leaf = print_leaf};
    size_t size = mst_encode(type, base, NULL, 0);
    unsigned char *bytes = malloc(size + 1);

    walk_over(&walk, type, base);
    if (bytes && mst_encode(type, base, bytes, size) == size) {
        (void)printf("bytes=");
        print_hex(bytes, size);
        (void)printf("\n");
    }
    free(bytes);
}

static void *mem_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size > 0 ? size : 1);
}

static void mem_release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static void random_message(const struct root *root, uint64_t seed)
{
    static union any any;
    struct mst_prng prng = {.state = seed};
    struct walk walk = {.make = make_field, .leaf = make_leaf, .prng = &prng};

    memset(&any, 0, sizeof any);
    pool_used = 0;
    make_case(&prng, root->type, (char *)&any);
    walk_over(&walk, root->type, &any);
    print_message(root->type, &any);
}

static void decode_message(const struct root *root, const unsigned char *bytes, size_t size)
{
    static const struct mst_mem mem = {.alloc = mem_alloc, .release = mem_release};
    static struct mst_native_arena arena;
    static union any any;
    struct mst_wrong wrong;
    char line[512];
    struct mst_text text = mst_text_in(line, sizeof line);

    mst_native_arena_init(&arena, &mem);
    memset(&any, 0, sizeof any); /* also what is not cleared where it is not told */
    if (mst_decode(root->type, &any, mst_slice_of(bytes, size), &arena, &wrong) == MUSTER_OK) {
        print_message(root->type, &any);
    } else {
        mst_wrong_say(&text, &wrong);
        (void)printf("wrong=%s\n", line);
    }
    mst_native_arena_fini(&arena);
}

/* ---- the rows ---- */

struct listed {
    const struct mst_message *types[64];
    unsigned count;
};

static void list(struct listed *listed, const struct mst_message *type)
{
    for (unsigned i = 0; i < listed->count; i++) {
        if (listed->types[i] == type) {
            return;
        }
    }
    listed->types[listed->count++] = type;
}

static void print_row(const struct root *root, const struct mst_message *type, unsigned number,
                      struct listed *listed)
{
    const struct mst_field *field = mst_field_of(type, number);
    bool many;

    if (!field) {
        return;
    }
    many = field->label != MST_FIELD_ONE && field->label != MST_FIELD_CASE;
    (void)printf("%s.%s %u %s %s %s %s", root->package, type->name, number, field->name,
                 types[field->type == MST_FIELD_ARRAY ? field->item : field->type],
                 many                             ? "repeated"
                 : field->label == MST_FIELD_CASE ? "case"
                                                  : "one",
                 field->message ? field->message->name : "-");
    if (field->bounded) {
        (void)printf(" %" PRId32 " %" PRId32, field->least, field->most);
    }
    (void)printf("\n");
    if (field->message) {
        list(listed, field->message);
    }
}

static void print_table(void)
{
    for (unsigned i = 0; i < ROOTS; i++) {
        struct listed listed = {.count = 0};

        list(&listed, roots[i].type);
        for (unsigned at = 0; at < listed.count; at++) {
            (void)printf("%s.%s\n", roots[i].package, listed.types[at]->name);
            for (unsigned number = 1; number <= listed.types[at]->last; number++) {
                print_row(&roots[i], listed.types[at], number, &listed);
            }
        }
    }
}

/* ---- commands ---- */

static size_t unhex(unsigned char *out, const char *text)
{
    size_t size = 0;
    unsigned byte;

    for (; text[0] > ' ' && text[1] > ' '; text += 2) {
        char pair[3] = {text[0], text[1], '\0'};

        byte = (unsigned)strtoul(pair, NULL, 16);
        out[size++] = (unsigned char)byte;
    }
    return size;
}

static void obey(char *line)
{
    static unsigned char bytes[LINE_MAX_BYTES];
    char *save = NULL, *command = strtok_r(line, " \n", &save);
    char *name = strtok_r(NULL, " \n", &save), *rest = strtok_r(NULL, " \n", &save);

    if (strcmp(command, "table") == 0) {
        print_table();
    }
    for (size_t i = 0; strcmp(command, "enums") == 0 && i < sizeof numbers / sizeof numbers[0];
         i++) {
        (void)printf("%s %d\n", numbers[i].name, numbers[i].number);
    }
    for (unsigned i = 0; name && i < ROOTS; i++) {
        if (strcmp(roots[i].name, name) != 0) {
            continue;
        }
        if (strcmp(command, "random") == 0) {
            random_message(&roots[i], strtoull(rest, NULL, 10));
        } else {
            decode_message(&roots[i], bytes, rest ? unhex(bytes, rest) : 0);
        }
    }
    (void)printf("end\n");
    (void)fflush(stdout);
}

int main(void)
{
    static char line[2 * LINE_MAX_BYTES];

    while (fgets(line, sizeof line, stdin)) {
        obey(line);
    }
    return 0;
}
