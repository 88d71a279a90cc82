/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/cluster/message.h"

#include "proto/cluster/cluster.h"
#include "proto/native/stream.h"

bool mst_cluster_origin_known(uint64_t origin)
{
    return origin >= MST_ORIGIN_FUNCTION && origin <= MST_ORIGIN_RETRYABLE;
}

struct mst_slice mst_cluster_failure_text(struct mst_slice text)
{
    return mst_slice_of(text.data,
                        text.size < MST_FAILURE_TEXT_MAX ? text.size : MST_FAILURE_TEXT_MAX);
}

uint32_t mst_cluster_failure_depth(const struct mst_failure *failure)
{
    uint32_t depth = 0;

    if (failure->origin != MST_ORIGIN_NONE) {
        for (; failure && depth < MST_FAILURE_DEPTH_MAX; failure = failure->cause) {
            depth++;
        }
    }
    return depth;
}

/* ---- out ---- */

/* An array of messages and of the pointers to them that protobuf-c wants. */
struct messages {
    void *items;
    void *pointers;
};

static bool messages_new(struct messages *out, size_t count, size_t size,
                         struct mst_native_arena *arena)
{
    out->items = mst_native_arena_array(arena, count, size);
    out->pointers = mst_native_arena_array(arena, count, sizeof(void *));
    return out->items && out->pointers;
}

static muster_status encode_parts(Muster__Cluster__Part ***out, size_t *count,
                                  const struct mst_parts *parts, struct mst_native_arena *arena)
{
    struct messages messages;
    Muster__Cluster__Part *items;
    Muster__Cluster__Part **pointers;

    if (parts->count == 0) {
        return MUSTER_OK;
    }
    if (!messages_new(&messages, parts->count, sizeof(*items), arena)) {
        return MUSTER_ENOMEM;
    }
    items = messages.items;
    pointers = messages.pointers;
    for (uint32_t i = 0; i < parts->count; i++) {
        muster__cluster__part__init(&items[i]);
        items[i].type = parts->items[i].type;
        items[i].data = mst_native_bytes(parts->items[i].data);
        pointers[i] = &items[i];
    }
    *out = pointers;
    *count = parts->count;
    return MUSTER_OK;
}

static muster_status encode_failure(Muster__Cluster__Failure ***out, size_t *count,
                                    const struct mst_failure *failure,
                                    struct mst_native_arena *arena)
{
    uint32_t depth = mst_cluster_failure_depth(failure);
    struct messages messages;
    Muster__Cluster__Failure *items;
    Muster__Cluster__Failure **pointers;

    if (depth == 0) {
        return MUSTER_OK;
    }
    if (!messages_new(&messages, depth, sizeof(*items), arena)) {
        return MUSTER_ENOMEM;
    }
    items = messages.items;
    pointers = messages.pointers;
    for (uint32_t i = 0; i < depth; i++, failure = failure->cause) {
        muster__cluster__failure__init(&items[i]);
        items[i].origin = (uint32_t)failure->origin;
        items[i].code = failure->code;
        items[i].worker = failure->worker + 1;
        items[i].attempt = failure->attempt;
        items[i].incarnation = failure->incarnation;
        items[i].text = mst_native_bytes(mst_cluster_failure_text(failure->text));
        items[i].state = mst_native_bytes(mst_cluster_failure_text(failure->state));
        pointers[i] = &items[i];
    }
    *out = pointers;
    *count = depth;
    return MUSTER_OK;
}

/* protobuf-c has no const in its arrays. */
static uint64_t *numbers(const uint64_t *in)
{
    union {
        const uint64_t *in;
        uint64_t *out;
    } cast = {.in = in};

    return cast.out;
}

static muster_status encode_functions(Muster__Cluster__Hello *out,
                                      const struct mst_cluster_message *message,
                                      struct mst_native_arena *arena)
{
    struct messages messages;
    Muster__Cluster__Function *items;

    if (message->function_count == 0) {
        return MUSTER_OK;
    }
    if (!messages_new(&messages, message->function_count, sizeof(*items), arena)) {
        return MUSTER_ENOMEM;
    }
    items = messages.items;
    out->functions = messages.pointers;
    out->n_functions = message->function_count;
    for (uint32_t i = 0; i < message->function_count; i++) {
        muster__cluster__function__init(&items[i]);
        items[i].name = mst_native_bytes(message->functions[i].name);
        items[i].version = message->functions[i].version;
        items[i].flags = message->functions[i].flags;
        out->functions[i] = &items[i];
    }
    return MUSTER_OK;
}

static muster_status encode_held(Muster__Cluster__Hello *out,
                                 const struct mst_cluster_message *message,
                                 struct mst_native_arena *arena)
{
    struct messages messages;
    Muster__Cluster__Attempt *items;

    if (message->held_count == 0) {
        return MUSTER_OK;
    }
    if (!messages_new(&messages, message->held_count, sizeof(*items), arena)) {
        return MUSTER_ENOMEM;
    }
    items = messages.items;
    out->held = messages.pointers;
    out->n_held = message->held_count;
    for (uint32_t i = 0; i < message->held_count; i++) {
        muster__cluster__attempt__init(&items[i]);
        items[i].closure = message->held[i].closure;
        items[i].attempt = message->held[i].attempt;
        out->held[i] = &items[i];
    }
    return MUSTER_OK;
}

static muster_status encode_hello(Muster__Cluster__Hello *out,
                                  const struct mst_cluster_message *message,
                                  struct mst_native_arena *arena)
{
    muster_status status;

    muster__cluster__hello__init(out);
    out->version = message->version;
    out->cluster = mst_native_bytes(message->cluster);
    out->index = message->index;
    out->incarnation = message->incarnation;
    out->pid = message->pid;
    out->host = mst_native_bytes(message->host);
    out->slots = message->slots;
    out->term = message->term;
    out->results = message->results;
    out->turn = message->turn;
    out->values = numbers(message->values);
    out->n_values = message->value_count;
    status = encode_functions(out, message, arena);
    return status == MUSTER_OK ? encode_held(out, message, arena) : status;
}

static muster_status encode_result(Muster__Cluster__Result *out,
                                   const struct mst_cluster_message *message,
                                   struct mst_native_arena *arena)
{
    muster_status status;

    muster__cluster__result__init(out);
    out->closure = message->attempt.closure;
    out->attempt = message->attempt.attempt;
    out->series = message->series;
    out->run_ns = message->run_ns;
    status = encode_failure(&out->failures, &out->n_failures, &message->failure, arena);
    return status == MUSTER_OK ? encode_parts(&out->parts, &out->n_parts, &message->parts, arena)
                               : status;
}

static muster_status encode_built(Muster__Cluster__Built *out,
                                  const struct mst_cluster_message *message,
                                  struct mst_native_arena *arena)
{
    muster_status status;

    muster__cluster__built__init(out);
    out->value = message->value;
    status = encode_failure(&out->failures, &out->n_failures, &message->failure, arena);
    return status == MUSTER_OK ? encode_parts(&out->parts, &out->n_parts, &message->parts, arena)
                               : status;
}

static muster_status encode_run(Muster__Cluster__Run *out,
                                const struct mst_cluster_message *message,
                                struct mst_native_arena *arena)
{
    muster__cluster__run__init(out);
    out->closure = message->attempt.closure;
    out->attempt = message->attempt.attempt;
    out->series = message->series;
    out->function = message->function;
    out->key = mst_native_bytes(message->key);
    out->run_limit_ms = message->run_limit_ms;
    out->left_ms = message->left_ms;
    out->needs = numbers(message->needs);
    out->n_needs = message->need_count;
    return encode_parts(&out->parts, &out->n_parts, &message->parts, arena);
}

static muster_status encode_build(Muster__Cluster__Build *out,
                                  const struct mst_cluster_message *message,
                                  struct mst_native_arena *arena)
{
    muster__cluster__build__init(out);
    out->value = message->value;
    out->function = message->function;
    return encode_parts(&out->parts, &out->n_parts, &message->parts, arena);
}

static void encode_progress(Muster__Cluster__Progress *out,
                            const struct mst_cluster_message *message)
{
    muster__cluster__progress__init(out);
    out->closure = message->attempt.closure;
    out->attempt = message->attempt.attempt;
    out->series = message->series;
    out->fraction = message->fraction;
    out->text = mst_native_bytes(message->text);
    out->overdue = message->overdue;
}

static void encode_log(Muster__Cluster__Log *out, const struct mst_cluster_message *message)
{
    muster__cluster__log__init(out);
    out->closure = message->attempt.closure;
    out->attempt = message->attempt.attempt;
    out->series = message->series;
    out->text = mst_native_bytes(message->text);
}

static void encode_welcome(Muster__Cluster__Welcome *out, const struct mst_cluster_message *message)
{
    muster__cluster__welcome__init(out);
    out->term = message->term;
    out->worker = message->worker;
    out->results = message->results;
    out->grace_ms = message->left_ms;
}

static void encode_refused(Muster__Cluster__Refused *out, const struct mst_cluster_message *message)
{
    muster__cluster__refused__init(out);
    out->term = message->term;
    out->status = (int32_t)message->status;
    out->text = mst_native_bytes(message->text);
}

static void encode_cancel(Muster__Cluster__Cancel *out, const struct mst_cluster_message *message)
{
    muster__cluster__cancel__init(out);
    out->closure = message->attempt.closure;
    out->attempt = message->attempt.attempt;
    out->series = message->series;
    out->grace_ms = message->left_ms;
}

static void encode_take_back(Muster__Cluster__TakeBack *out,
                             const struct mst_cluster_message *message)
{
    muster__cluster__take_back__init(out);
    out->closure = message->attempt.closure;
    out->attempt = message->attempt.attempt;
    out->series = message->series;
}

muster_status mst_cluster_message_encode(struct mst_cluster_schema_message *out,
                                         const struct mst_cluster_message *message,
                                         struct mst_native_arena *arena)
{
    muster__cluster__message__init(&out->base);
    out->base.body_case = (Muster__Cluster__Message__BodyCase)message->type;
    out->base.hello = &out->hello; /* which of them does not matter: all begin alike */
    switch (message->type) {
    case MST_CLUSTER_HELLO:
        return encode_hello(&out->hello, message, arena);
    case MST_CLUSTER_RESULT:
        return encode_result(&out->result, message, arena);
    case MST_CLUSTER_BUILT:
        return encode_built(&out->built, message, arena);
    case MST_CLUSTER_PROGRESS:
        encode_progress(&out->progress, message);
        return MUSTER_OK;
    case MST_CLUSTER_LOG:
        encode_log(&out->log, message);
        return MUSTER_OK;
    case MST_CLUSTER_DRAINING:
    case MST_CLUSTER_DRAIN:
        muster__cluster__nothing__init(&out->nothing);
        return MUSTER_OK;
    case MST_CLUSTER_WELCOME:
        encode_welcome(&out->welcome, message);
        return MUSTER_OK;
    case MST_CLUSTER_REFUSED:
        encode_refused(&out->refused, message);
        return MUSTER_OK;
    case MST_CLUSTER_RUN:
        return encode_run(&out->run, message, arena);
    case MST_CLUSTER_CANCEL:
        encode_cancel(&out->cancel, message);
        return MUSTER_OK;
    case MST_CLUSTER_TAKE_BACK:
        encode_take_back(&out->take_back, message);
        return MUSTER_OK;
    case MST_CLUSTER_BUILD:
        return encode_build(&out->build, message, arena);
    case MST_CLUSTER_DROP:
        muster__cluster__drop__init(&out->drop);
        out->drop.value = message->value;
        return MUSTER_OK;
    }
    return MUSTER_EINVAL;
}

/* ---- in ---- */

static muster_status decode_parts(struct mst_parts *out, Muster__Cluster__Part *const *parts,
                                  size_t count, struct mst_native_arena *arena,
                                  struct mst_native_fault *fault)
{
    struct mst_part *items;

    if (!mst_native_expect(fault, count <= MST_CLUSTER_PARTS_MAX,
                           "more parts than a message may have:", (int64_t)count)) {
        return MUSTER_EPROTO;
    }
    if (count == 0) {
        return MUSTER_OK;
    }
    items = mst_native_arena_array(arena, count, sizeof(*items));
    if (!items) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        items[i] =
            (struct mst_part){.data = mst_native_slice(parts[i]->data), .type = parts[i]->type};
    }
    *out = (struct mst_parts){.items = items, .count = (uint32_t)count};
    return MUSTER_OK;
}

static bool failure_makes_sense(const Muster__Cluster__Failure *failure,
                                struct mst_native_fault *fault)
{
    return mst_native_expect(fault, mst_cluster_origin_known(failure->origin),
                             "an origin that does not exist:", (int64_t)failure->origin) &&
           mst_native_expect(fault, failure->text.len <= MST_FAILURE_TEXT_MAX,
                             "a failure whose text is too long:", (int64_t)failure->text.len) &&
           mst_native_expect(fault, failure->state.len <= MST_FAILURE_TEXT_MAX,
                             "a failure whose state is too long:", (int64_t)failure->state.len);
}

static muster_status decode_failure(struct mst_failure *out,
                                    Muster__Cluster__Failure *const *failures, size_t count,
                                    struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    struct mst_failure *causes = NULL;

    out->worker = MST_WORKER_NONE;
    if (!mst_native_expect(fault, count <= MST_FAILURE_DEPTH_MAX,
                           "more failures than a message may have:", (int64_t)count)) {
        return MUSTER_EPROTO;
    }
    if (count > 1) {
        causes = mst_native_arena_array(arena, count - 1, sizeof(*causes));
        if (!causes) {
            return MUSTER_ENOMEM;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const Muster__Cluster__Failure *failure = failures[i];
        struct mst_failure *at = i == 0 ? out : &causes[i - 1];

        if (!failure_makes_sense(failure, fault)) {
            return MUSTER_EPROTO;
        }
        *at = (struct mst_failure){
            .origin = (enum mst_origin)failure->origin,
            .code = failure->code,
            .worker = failure->worker - 1,
            .attempt = failure->attempt,
            .incarnation = failure->incarnation,
            .text = mst_native_slice(failure->text),
            .state = mst_native_slice(failure->state),
            .cause = i + 1 < count ? &causes[i] : NULL,
        };
    }
    return MUSTER_OK;
}

static muster_status decode_functions(struct mst_cluster_message *out,
                                      const Muster__Cluster__Hello *hello,
                                      struct mst_native_arena *arena)
{
    struct mst_function *items;

    if (hello->n_functions == 0) {
        return MUSTER_OK;
    }
    items = mst_native_arena_array(arena, hello->n_functions, sizeof(*items));
    if (!items) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < hello->n_functions; i++) {
        items[i] = (struct mst_function){.name = mst_native_slice(hello->functions[i]->name),
                                         .version = hello->functions[i]->version,
                                         .flags = hello->functions[i]->flags};
    }
    out->functions = items;
    out->function_count = (uint32_t)hello->n_functions;
    return MUSTER_OK;
}

static muster_status decode_held(struct mst_cluster_message *out,
                                 const Muster__Cluster__Hello *hello,
                                 struct mst_native_arena *arena)
{
    struct mst_attempt *items;

    if (hello->n_held == 0) {
        return MUSTER_OK;
    }
    items = mst_native_arena_array(arena, hello->n_held, sizeof(*items));
    if (!items) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < hello->n_held; i++) {
        items[i] = (struct mst_attempt){.closure = hello->held[i]->closure,
                                        .attempt = hello->held[i]->attempt};
    }
    out->held = items;
    out->held_count = (uint32_t)hello->n_held;
    return MUSTER_OK;
}

static muster_status decode_hello(struct mst_cluster_message *out,
                                  const Muster__Cluster__Hello *hello,
                                  struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    muster_status status;

    if (!mst_native_expect(
            fault, hello->n_functions <= MST_CLUSTER_FUNCTIONS_MAX,
            "more functions than a message may have:", (int64_t)hello->n_functions) ||
        !mst_native_expect(fault, hello->n_held <= MST_CLUSTER_HELD_MAX,
                           "more held than a message may have:", (int64_t)hello->n_held) ||
        !mst_native_expect(fault, hello->n_values <= MST_CLUSTER_VALUES_MAX,
                           "more values than a message may have:", (int64_t)hello->n_values)) {
        return MUSTER_EPROTO;
    }
    out->version = hello->version;
    out->cluster = mst_native_slice(hello->cluster);
    out->index = hello->index;
    out->incarnation = hello->incarnation;
    out->pid = hello->pid;
    out->host = mst_native_slice(hello->host);
    out->slots = hello->slots;
    out->term = hello->term;
    out->results = hello->results;
    out->turn = hello->turn;
    out->values = hello->values;
    out->value_count = (uint32_t)hello->n_values;
    status = decode_functions(out, hello, arena);
    return status == MUSTER_OK ? decode_held(out, hello, arena) : status;
}

static muster_status decode_result(struct mst_cluster_message *out,
                                   const Muster__Cluster__Result *result,
                                   struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    muster_status status;

    out->attempt = (struct mst_attempt){.closure = result->closure, .attempt = result->attempt};
    out->series = result->series;
    out->run_ns = result->run_ns;
    status = decode_failure(&out->failure, result->failures, result->n_failures, arena, fault);
    return status == MUSTER_OK
               ? decode_parts(&out->parts, result->parts, result->n_parts, arena, fault)
               : status;
}

static muster_status decode_built(struct mst_cluster_message *out,
                                  const Muster__Cluster__Built *built,
                                  struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    muster_status status;

    out->value = built->value;
    status = decode_failure(&out->failure, built->failures, built->n_failures, arena, fault);
    return status == MUSTER_OK
               ? decode_parts(&out->parts, built->parts, built->n_parts, arena, fault)
               : status;
}

static muster_status decode_run(struct mst_cluster_message *out, const Muster__Cluster__Run *run,
                                struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, run->n_needs <= MST_CLUSTER_PARTS_MAX,
                           "more needs than a message may have:", (int64_t)run->n_needs)) {
        return MUSTER_EPROTO;
    }
    out->attempt = (struct mst_attempt){.closure = run->closure, .attempt = run->attempt};
    out->series = run->series;
    out->function = run->function;
    out->key = mst_native_slice(run->key);
    out->run_limit_ms = run->run_limit_ms;
    out->left_ms = run->left_ms;
    out->needs = run->needs;
    out->need_count = (uint32_t)run->n_needs;
    return decode_parts(&out->parts, run->parts, run->n_parts, arena, fault);
}

static void decode_progress(struct mst_cluster_message *out,
                            const Muster__Cluster__Progress *progress)
{
    bool share = progress->fraction >= 0 && progress->fraction <= 1; /* a NaN is neither */

    out->attempt = (struct mst_attempt){.closure = progress->closure, .attempt = progress->attempt};
    out->series = progress->series;
    out->fraction = share ? progress->fraction : -1;
    out->text = mst_native_slice(progress->text);
    out->overdue = progress->overdue != 0;
}

static void decode_log(struct mst_cluster_message *out, const Muster__Cluster__Log *log)
{
    out->attempt = (struct mst_attempt){.closure = log->closure, .attempt = log->attempt};
    out->series = log->series;
    out->text = mst_native_slice(log->text);
}

static muster_status decode_refused(struct mst_cluster_message *out,
                                    const Muster__Cluster__Refused *refused,
                                    struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, refused->status < 0,
                           "refused with a status that is no error:", refused->status)) {
        return MUSTER_EPROTO;
    }
    out->term = refused->term;
    out->status = (muster_status)refused->status;
    out->text = mst_native_slice(refused->text);
    return MUSTER_OK;
}

static void decode_cancel(struct mst_cluster_message *out, const Muster__Cluster__Cancel *cancel)
{
    out->attempt = (struct mst_attempt){.closure = cancel->closure, .attempt = cancel->attempt};
    out->series = cancel->series;
    out->left_ms = cancel->grace_ms;
}

static muster_status decode_build(struct mst_cluster_message *out,
                                  const Muster__Cluster__Build *build,
                                  struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    out->value = build->value;
    out->function = build->function;
    return decode_parts(&out->parts, build->parts, build->n_parts, arena, fault);
}

muster_status mst_cluster_message_decode(struct mst_cluster_message *out,
                                         const Muster__Cluster__Message *message,
                                         struct mst_native_arena *arena,
                                         struct mst_native_fault *fault)
{
    fault->what = NULL;
    *out = (struct mst_cluster_message){.type = (enum mst_cluster_message_type)message->body_case,
                                        .failure = {.worker = MST_WORKER_NONE}};
    switch (out->type) {
    case MST_CLUSTER_HELLO:
        return decode_hello(out, message->hello, arena, fault);
    case MST_CLUSTER_RESULT:
        return decode_result(out, message->result, arena, fault);
    case MST_CLUSTER_BUILT:
        return decode_built(out, message->built, arena, fault);
    case MST_CLUSTER_PROGRESS:
        decode_progress(out, message->progress);
        return MUSTER_OK;
    case MST_CLUSTER_LOG:
        decode_log(out, message->log);
        return MUSTER_OK;
    case MST_CLUSTER_DRAINING:
    case MST_CLUSTER_DRAIN:
        return MUSTER_OK;
    case MST_CLUSTER_WELCOME:
        out->term = message->welcome->term;
        out->worker = message->welcome->worker;
        out->results = message->welcome->results;
        out->left_ms = message->welcome->grace_ms;
        return MUSTER_OK;
    case MST_CLUSTER_REFUSED:
        return decode_refused(out, message->refused, fault);
    case MST_CLUSTER_RUN:
        return decode_run(out, message->run, arena, fault);
    case MST_CLUSTER_CANCEL:
        decode_cancel(out, message->cancel);
        return MUSTER_OK;
    case MST_CLUSTER_TAKE_BACK:
        out->attempt = (struct mst_attempt){.closure = message->take_back->closure,
                                            .attempt = message->take_back->attempt};
        out->series = message->take_back->series;
        return MUSTER_OK;
    case MST_CLUSTER_BUILD:
        return decode_build(out, message->build, arena, fault);
    case MST_CLUSTER_DROP:
        out->value = message->drop->value;
        return MUSTER_OK;
    }
    (void)mst_native_expect(fault, false, "a message of a type that does not exist:",
                            message->base.n_unknown_fields > 0 ? message->base.unknown_fields[0].tag
                                                               : 0);
    return MUSTER_EPROTO;
}
