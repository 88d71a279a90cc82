/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/request_message.h"

#include "proto/native/stream.h"

enum { COMMAND_BASE = 16, WATCH_ALL = 15 };

#define X(NAME, name, number, flags, help)                                                         \
    _Static_assert(MUSTER__REQUEST__COMMAND_##NAME == COMMAND_BASE + (number),                     \
                   "the field of a command is 16 + its number");
#include "proto/commands.def"
#undef X

_Static_assert(WATCH_ALL ==
                   (MST_WATCH_KEYS | MST_WATCH_MEMBERS | MST_WATCH_FAULTS | MST_WATCH_VIEW),
               "every kind of watch");

/* ---- Encoding ---- */

static void encode_open(Muster__Open *message, const struct mst_open *open)
{
    *message = (Muster__Open)MUSTER__OPEN__INIT;
    message->token_high = open->token.high;
    message->token_low = open->token.low;
    message->job = mst_native_bytes(open->job);
    message->role = (Muster__Role)open->role;
    message->index = open->index;
    message->incarnation = open->incarnation;
    message->generation = open->generation;
    message->size = open->size;
    message->min_size = open->min_size;
    message->join_wait_ms = open->join_wait_ms;
    message->grow = (Muster__Grow)open->grow;
    message->host = mst_native_bytes(open->host);
    message->pid = open->pid;
    message->node = open->node + 1; /* MST_NODE_NONE becomes 0 */
    message->max_size = open->max_size;
    message->size_multiple = open->size_multiple;
}

static muster_status encode_write(Muster__Write *message, const struct mst_request *request,
                                  struct mst_native_arena *arena)
{
    size_t count = request->write.count;
    Muster__Operation **pointers =
        mst_native_arena_array(arena, count, sizeof(Muster__Operation *));
    Muster__Operation *ops = mst_native_arena_array(arena, count, sizeof(*ops));

    if (!pointers || !ops) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct mst_write *op = &request->write.ops[i];

        ops[i] = (Muster__Operation)MUSTER__OPERATION__INIT;
        ops[i].kind = (Muster__OperationKind)op->kind;
        ops[i].owned = op->owned;
        ops[i].key = mst_native_bytes(op->key);
        ops[i].value = mst_native_bytes(op->value);
        ops[i].expected = op->expected;
        ops[i].delta = op->delta;
        pointers[i] = &ops[i];
    }
    *message = (Muster__Write)MUSTER__WRITE__INIT;
    message->generation = request->write.generation;
    message->n_ops = count;
    message->ops = pointers;
    return MUSTER_OK;
}

static void encode_get(Muster__Get *message, const struct mst_request *request)
{
    *message = (Muster__Get)MUSTER__GET__INIT;
    message->generation = request->get.generation;
    message->key = mst_native_bytes(request->get.key);
    message->wait = request->get.wait;
}

static void encode_list(Muster__List *message, const struct mst_request *request)
{
    *message = (Muster__List)MUSTER__LIST__INIT;
    message->generation = request->list.generation;
    message->prefix = mst_native_bytes(request->list.prefix);
    message->after = mst_native_bytes(request->list.after);
}

static muster_status encode_wait(Muster__Wait *message, const struct mst_request *request,
                                 struct mst_native_arena *arena)
{
    size_t count = request->wait.count;
    ProtobufCBinaryData *keys = mst_native_arena_array(arena, count, sizeof(*keys));

    if (!keys) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        keys[i] = mst_native_bytes(request->wait.keys[i]);
    }
    *message = (Muster__Wait)MUSTER__WAIT__INIT;
    message->generation = request->wait.generation;
    message->n_keys = count;
    message->keys = keys;
    return MUSTER_OK;
}

static void encode_watch(Muster__Watch *message, const struct mst_request *request)
{
    *message = (Muster__Watch)MUSTER__WATCH__INIT;
    message->kinds = request->watch.kinds;
    message->generation = request->watch.generation;
    message->prefix = mst_native_bytes(request->watch.prefix);
    message->after = request->watch.after;
    message->node = request->watch.node + 1; /* MST_NODE_NONE becomes 0 */
}

static void encode_round(Muster__Round *message, const struct mst_round_request *round)
{
    union {
        const uint32_t *in;
        uint32_t *out;
    } participants = {.in = round->participants}, order = {.in = round->order};

    *message = (Muster__Round)MUSTER__ROUND__INIT;
    message->generation = round->generation;
    message->name = mst_native_bytes(round->name);
    message->number = round->number;
    message->n_participants = round->participant_count;
    message->participants = participants.out;
    message->deadline_ms = round->deadline_ms;
    message->on_loss = (Muster__OnLoss)round->on_loss;
    message->reduce = (Muster__Reduce)round->reduce;
    message->present_only = round->present_only;
    message->seal = round->seal;
    message->data = mst_native_bytes(round->data);
    message->n_order = round->order_count;
    message->order = order.out;
    message->final = round->final;
    message->any_deadline = round->any_deadline;
}

static void encode_round_members(Muster__RoundMembers *message, const struct mst_request *request)
{
    *message = (Muster__RoundMembers)MUSTER__ROUND_MEMBERS__INIT;
    message->generation = request->round_members.generation;
    message->name = mst_native_bytes(request->round_members.name);
    message->number = request->round_members.number;
    message->after = request->round_members.after;
}

static void encode_fault(Muster__Fault *message, const struct mst_request *request)
{
    *message = (Muster__Fault)MUSTER__FAULT__INIT;
    message->generation = request->fault.generation;
    message->code = request->fault.code;
    message->text = mst_native_bytes(request->fault.text);
    message->kind = (Muster__Cause)request->fault.kind;
    message->pid = request->fault.pid;
    message->index = request->fault.index;
}

static void encode_lost(Muster__Lost *message, const struct mst_request *request)
{
    *message = (Muster__Lost)MUSTER__LOST__INIT;
    message->index = request->lost.index;
    message->pid = request->lost.pid;
    message->cause = (Muster__Cause)request->lost.cause;
    message->code = request->lost.code;
    message->text = mst_native_bytes(request->lost.text);
}

static void encode_cut(Muster__Cut *message, const struct mst_request *request)
{
    *message = (Muster__Cut)MUSTER__CUT__INIT;
    message->index = request->cut.index;
    message->incarnation = request->cut.incarnation;
    message->for_ms = request->cut.for_ms;
    message->worker = request->cut.worker;
}

muster_status mst_native_request_encode(struct mst_native_request_message *out,
                                        const struct mst_request *request,
                                        struct mst_native_arena *arena)
{
    out->base = (Muster__Request)MUSTER__REQUEST__INIT;
    out->base.id = request->id;
    out->base.oldest = request->oldest;
    out->base.command_case = (Muster__Request__CommandCase)(COMMAND_BASE + (int)request->command);
    out->base.open =
        &out->open; /* whichever it is: the parts lie in one union, their pointers too */
    switch (request->command) {
    case MST_OPEN:
        encode_open(&out->open, &request->open);
        return MUSTER_OK;
    case MST_JOIN:
        out->join = (Muster__Join)MUSTER__JOIN__INIT;
        out->join.spare = request->join.spare;
        out->join.heard = request->join.heard;
        return MUSTER_OK;
    case MST_RENEW:
        out->renew = (Muster__Renew)MUSTER__RENEW__INIT;
        return MUSTER_OK;
    case MST_LEAVE:
        out->leave = (Muster__Leave)MUSTER__LEAVE__INIT;
        return MUSTER_OK;
    case MST_CANCEL:
        out->cancel = (Muster__Cancel)MUSTER__CANCEL__INIT;
        out->cancel.id = request->cancel.id;
        return MUSTER_OK;
    case MST_WRITE:
        return encode_write(&out->write, request, arena);
    case MST_GET:
        encode_get(&out->get, request);
        return MUSTER_OK;
    case MST_LIST:
        encode_list(&out->list, request);
        return MUSTER_OK;
    case MST_WAIT:
        return encode_wait(&out->wait, request, arena);
    case MST_WATCH:
        encode_watch(&out->watch, request);
        return MUSTER_OK;
    case MST_ROUND:
        encode_round(&out->round, &request->round);
        return MUSTER_OK;
    case MST_ROUND_MEMBERS:
        encode_round_members(&out->round_members, request);
        return MUSTER_OK;
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
        out->page = (Muster__Page)MUSTER__PAGE__INIT;
        out->page.after = request->page.after;
        return MUSTER_OK;
    case MST_FAULT:
        encode_fault(&out->fault, request);
        return MUSTER_OK;
    case MST_LOST:
        encode_lost(&out->lost, request);
        return MUSTER_OK;
    case MST_CUT:
        encode_cut(&out->cut, request);
        return MUSTER_OK;
    }
    return MUSTER_EINVAL;
}

/* ---- Decoding ---- */

static muster_status decode_open(struct mst_open *out, const Muster__Open *message,
                                 struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, mst_native_role_known((int)message->role), "open.role",
                           (int64_t)message->role) ||
        !mst_native_expect(fault, mst_native_grow_known((int)message->grow), "open.grow",
                           (int64_t)message->grow)) {
        return MUSTER_EPROTO;
    }
    *out = (struct mst_open){
        .token = {.high = message->token_high, .low = message->token_low},
        .job = mst_native_slice(message->job),
        .role = (enum mst_role)message->role,
        .index = message->index,
        .incarnation = message->incarnation,
        .generation = message->generation,
        .size = message->size,
        .min_size = message->min_size,
        .join_wait_ms = message->join_wait_ms,
        .grow = (enum mst_grow)message->grow,
        .host = mst_native_slice(message->host),
        .pid = message->pid,
        .node = message->node - 1,
        .max_size = message->max_size,
        .size_multiple = message->size_multiple,
    };
    return MUSTER_OK;
}

static muster_status decode_write(struct mst_request *out, const Muster__Write *message,
                                  struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    struct mst_write *ops = mst_native_arena_array(arena, message->n_ops, sizeof(*ops));

    if (!ops) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < message->n_ops; i++) {
        const Muster__Operation *op = message->ops[i];

        if (!mst_native_expect(fault, mst_native_write_kind_known((int)op->kind), "write.ops.kind",
                               (int64_t)op->kind)) {
            return MUSTER_EPROTO;
        }
        ops[i] = (struct mst_write){
            .kind = (enum mst_write_kind)op->kind,
            .owned = op->owned != 0,
            .key = mst_native_slice(op->key),
            .value = mst_native_slice(op->value),
            .expected = op->expected,
            .delta = op->delta,
        };
    }
    out->write.generation = message->generation;
    out->write.ops = ops;
    out->write.count = (uint32_t)message->n_ops;
    return MUSTER_OK;
}

static muster_status decode_get(struct mst_request *out, const Muster__Get *message)
{
    out->get.generation = message->generation;
    out->get.key = mst_native_slice(message->key);
    out->get.wait = message->wait != 0;
    return MUSTER_OK;
}

static muster_status decode_list(struct mst_request *out, const Muster__List *message)
{
    out->list.generation = message->generation;
    out->list.prefix = mst_native_slice(message->prefix);
    out->list.after = mst_native_slice(message->after);
    return MUSTER_OK;
}

static muster_status decode_wait(struct mst_request *out, const Muster__Wait *message,
                                 struct mst_native_arena *arena)
{
    struct mst_slice *keys = mst_native_arena_array(arena, message->n_keys, sizeof(*keys));

    if (!keys) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < message->n_keys; i++) {
        keys[i] = mst_native_slice(message->keys[i]);
    }
    out->wait.generation = message->generation;
    out->wait.keys = keys;
    out->wait.count = (uint32_t)message->n_keys;
    return MUSTER_OK;
}

static muster_status decode_watch(struct mst_request *out, const Muster__Watch *message,
                                  struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, message->kinds <= WATCH_ALL, "watch.kinds",
                           (int64_t)message->kinds)) {
        return MUSTER_EPROTO;
    }
    out->watch.kinds = message->kinds;
    out->watch.generation = message->generation;
    out->watch.prefix = mst_native_slice(message->prefix);
    out->watch.after = message->after;
    out->watch.node = message->node - 1;
    return MUSTER_OK;
}

static muster_status decode_round(struct mst_round_request *out, const Muster__Round *message,
                                  struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, mst_native_on_loss_known((int)message->on_loss), "round.on_loss",
                           (int64_t)message->on_loss) ||
        !mst_native_expect(fault, mst_native_reduce_known((int)message->reduce), "round.reduce",
                           (int64_t)message->reduce)) {
        return MUSTER_EPROTO;
    }
    *out = (struct mst_round_request){
        .generation = message->generation,
        .name = mst_native_slice(message->name),
        .number = message->number,
        .participants = message->n_participants > 0 ? message->participants : NULL,
        .participant_count = (uint32_t)message->n_participants,
        .deadline_ms = message->deadline_ms,
        .on_loss = (enum mst_on_loss)message->on_loss,
        .reduce = (enum mst_reduce)message->reduce,
        .present_only = message->present_only != 0,
        .seal = message->seal != 0,
        .order = message->n_order > 0 ? message->order : NULL,
        .order_count = (uint32_t)message->n_order,
        .final = message->final != 0,
        .any_deadline = message->any_deadline != 0,
        .data = mst_native_slice(message->data),
    };
    return MUSTER_OK;
}

static muster_status decode_round_members(struct mst_request *out,
                                          const Muster__RoundMembers *message)
{
    out->round_members.generation = message->generation;
    out->round_members.name = mst_native_slice(message->name);
    out->round_members.number = message->number;
    out->round_members.after = message->after;
    return MUSTER_OK;
}

static muster_status decode_fault(struct mst_request *out, const Muster__Fault *message,
                                  struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, mst_native_cause_known((int)message->kind), "fault.kind",
                           (int64_t)message->kind)) {
        return MUSTER_EPROTO;
    }
    out->fault.generation = message->generation;
    out->fault.code = message->code;
    out->fault.text = mst_native_slice(message->text);
    out->fault.kind = (enum mst_cause)message->kind;
    out->fault.pid = message->pid;
    out->fault.index = message->index;
    return MUSTER_OK;
}

static muster_status decode_lost(struct mst_request *out, const Muster__Lost *message,
                                 struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, mst_native_cause_known((int)message->cause), "lost.cause",
                           (int64_t)message->cause)) {
        return MUSTER_EPROTO;
    }
    out->lost.index = message->index;
    out->lost.pid = message->pid;
    out->lost.cause = (enum mst_cause)message->cause;
    out->lost.code = message->code;
    out->lost.text = mst_native_slice(message->text);
    return MUSTER_OK;
}

static muster_status decode_cut(struct mst_request *out, const Muster__Cut *message)
{
    out->cut.index = message->index;
    out->cut.incarnation = message->incarnation;
    out->cut.for_ms = message->for_ms;
    out->cut.worker = message->worker != 0;
    return MUSTER_OK;
}

/* A command that we do not know is, to protobuf, a field that we do not know. */
static muster_status no_command(const Muster__Request *message, struct mst_native_fault *fault)
{
    for (unsigned i = 0; i < message->base.n_unknown_fields; i++) {
        int64_t tag = message->base.unknown_fields[i].tag;

        if (tag > COMMAND_BASE) {
            (void)mst_native_expect(fault, false, "command", tag - COMMAND_BASE);
            return MUSTER_EPROTO;
        }
    }
    (void)mst_native_expect(fault, false, "command", 0);
    return MUSTER_EPROTO;
}

muster_status mst_native_request_decode(struct mst_request *out, const Muster__Request *message,
                                        struct mst_native_arena *arena,
                                        struct mst_native_fault *fault)
{
    int number = (int)message->command_case - COMMAND_BASE;

    fault->what = NULL;
    *out = (struct mst_request){
        .id = message->id, .oldest = message->oldest, .command = (enum mst_command)number};
    switch (out->command) {
    case MST_OPEN:
        return decode_open(&out->open, message->open, fault);
    case MST_JOIN:
        out->join.spare = message->join->spare != 0;
        out->join.heard = message->join->heard;
        return MUSTER_OK;
    case MST_RENEW:
    case MST_LEAVE:
        return MUSTER_OK;
    case MST_CANCEL:
        out->cancel.id = message->cancel->id;
        return MUSTER_OK;
    case MST_WRITE:
        return decode_write(out, message->write, arena, fault);
    case MST_GET:
        return decode_get(out, message->get);
    case MST_LIST:
        return decode_list(out, message->list);
    case MST_WAIT:
        return decode_wait(out, message->wait, arena);
    case MST_WATCH:
        return decode_watch(out, message->watch, fault);
    case MST_ROUND:
        return decode_round(&out->round, message->round, fault);
    case MST_ROUND_MEMBERS:
        return decode_round_members(out, message->round_members);
    case MST_MEMBERS:
    case MST_ROUNDS:
    case MST_JOBS:
    case MST_HOSTS:
    case MST_FAULTS:
        out->page.after = message->members->after; /* one union, one type */
        return MUSTER_OK;
    case MST_FAULT:
        return decode_fault(out, message->fault, fault);
    case MST_LOST:
        return decode_lost(out, message->lost, fault);
    case MST_CUT:
        return decode_cut(out, message->cut);
    }
    return no_command(message, fault);
}
