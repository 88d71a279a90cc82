/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/native/reply_message.h"

#include <string.h>

#include "base/panic.h"
#include "proto/command.h"
#include "proto/native/stream.h"

enum { ITEMS_TAG = 10 << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, BYTE_BITS = 7 };

/* ---- Encoding ---- */

static void encode_who(Muster__Who *message, const struct mst_who *who)
{
    *message = (Muster__Who)MUSTER__WHO__INIT;
    message->index = who->index;
    message->rank = who->rank;
    message->incarnation = who->incarnation;
    message->role = (Muster__Role)who->role;
    message->state = (Muster__State)who->state;
    message->cause = (Muster__Cause)who->cause;
    message->code = who->code;
    message->losses = who->losses;
    message->heard_ms = who->heard_ms;
    message->pid = who->pid;
    message->host = mst_native_bytes(who->host);
    message->node = who->node + 1; /* MST_NODE_NONE becomes 0 */
}

static void encode_view(Muster__View *message, const struct mst_view *view)
{
    *message = (Muster__View)MUSTER__VIEW__INIT;
    message->generation = view->generation;
    message->size = view->size;
    message->rank = view->rank;
    message->index = view->index;
    message->incarnation = view->incarnation;
    message->attention = (Muster__Attention)view->attention;
    message->faults = view->faults;
    message->spare = view->spare;
    message->ordered = view->ordered;
}

static void encode_detail(struct mst_native_reply_message *out, const struct mst_detail *detail)
{
    MST_ASSERT(detail->who_count <= MST_NAMES_MAX);
    out->detail = (Muster__Detail)MUSTER__DETAIL__INIT;
    out->detail.arrived = detail->arrived;
    out->detail.expected = detail->expected;
    out->detail.lost = detail->lost;
    out->detail.missing = detail->missing;
    out->detail.multiple = detail->multiple;
    out->detail.limit = detail->limit;
    out->detail.limit_kind = detail->limit_kind;
    out->detail.asked = detail->asked;
    out->detail.n_who = detail->who_count;
    out->detail.who = out->who_pointers;
    for (uint32_t i = 0; i < detail->who_count; i++) {
        encode_who(&out->who[i], &detail->who[i]);
        out->who_pointers[i] = &out->who[i];
    }
}

void mst_native_reply_encode(struct mst_native_reply_message *out, const struct mst_reply *reply)
{
    out->base = (Muster__Reply)MUSTER__REPLY__INIT;
    out->base.id = reply->id;
    out->base.command = (uint32_t)reply->command;
    out->base.status = (int32_t)reply->status;
    out->base.number = reply->number;
    out->base.revision = reply->revision;
    out->base.next = reply->next;
    out->base.value = mst_native_bytes(reply->value);
    if (reply->has_view) {
        encode_view(&out->view, &reply->view);
        out->base.view = &out->view;
    }
    if (reply->has_detail) {
        encode_detail(out, &reply->detail);
        out->base.detail = &out->detail;
    }
}

static bool who_is_told(const struct mst_who *who)
{
    return who->index || who->rank || who->incarnation || (int)who->role || (int)who->state ||
           (int)who->cause || who->code || who->losses || who->heard_ms || who->pid ||
           who->host.size || who->node;
}

static void encode_item(Muster__Item *message, Muster__Who *who, const struct mst_item *item)
{
    *message = (Muster__Item)MUSTER__ITEM__INIT;
    message->kind = (Muster__ItemKind)item->kind;
    message->revision = item->revision;
    message->number = item->number;
    message->arrived = item->arrived;
    message->expected = item->expected;
    message->listening = item->listening;
    message->name = mst_native_bytes(item->name);
    message->value = mst_native_bytes(item->value);
    if (who_is_told(&item->who)) {
        encode_who(who, &item->who);
        message->who = who;
    }
}

static size_t varint_size(size_t number)
{
    size_t size = 1;

    while (number >> BYTE_BITS) {
        number >>= BYTE_BITS;
        size++;
    }
    return size;
}

static unsigned char *varint_put(unsigned char *out, size_t number)
{
    while (number >> BYTE_BITS) {
        *out++ = (unsigned char)(number | 1u << BYTE_BITS);
        number >>= BYTE_BITS;
    }
    *out++ = (unsigned char)number;
    return out;
}

size_t mst_native_reply_size(const struct mst_native_reply_message *message,
                             const struct mst_reply *reply)
{
    size_t size = protobuf_c_message_get_packed_size(&message->base.base);

    for (uint32_t i = 0; i < reply->item_count; i++) {
        Muster__Item item;
        Muster__Who who;
        size_t item_size;

        encode_item(&item, &who, &reply->items[i]);
        item_size = protobuf_c_message_get_packed_size(&item.base);
        size += 1 + varint_size(item_size) + item_size;
    }
    return size;
}

void mst_native_reply_pack(const struct mst_native_reply_message *message,
                           const struct mst_reply *reply, unsigned char *out)
{
    out += protobuf_c_message_pack(&message->base.base, out);
    for (uint32_t i = 0; i < reply->item_count; i++) {
        Muster__Item item;
        Muster__Who who;

        encode_item(&item, &who, &reply->items[i]);
        *out++ = ITEMS_TAG;
        out = varint_put(out, protobuf_c_message_get_packed_size(&item.base));
        out += protobuf_c_message_pack(&item.base, out);
    }
}

/* ---- Decoding ---- */

static bool decode_who(struct mst_who *out, const Muster__Who *message,
                       struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, mst_native_role_known((int)message->role), "who.role",
                           (int64_t)message->role) ||
        !mst_native_expect(fault, mst_native_state_known((int)message->state), "who.state",
                           (int64_t)message->state) ||
        !mst_native_expect(fault, mst_native_cause_known((int)message->cause), "who.cause",
                           (int64_t)message->cause)) {
        return false;
    }
    *out = (struct mst_who){
        .index = message->index,
        .rank = message->rank,
        .incarnation = message->incarnation,
        .role = (enum mst_role)message->role,
        .state = (enum mst_state)message->state,
        .cause = (enum mst_cause)message->cause,
        .code = message->code,
        .losses = message->losses,
        .heard_ms = message->heard_ms,
        .pid = message->pid,
        .host = mst_native_slice(message->host),
        .node = message->node - 1,
    };
    return true;
}

static bool decode_view(struct mst_view *out, const Muster__View *message,
                        struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, mst_native_attention_known((int)message->attention),
                           "view.attention", (int64_t)message->attention)) {
        return false;
    }
    *out = (struct mst_view){
        .generation = message->generation,
        .size = message->size,
        .rank = message->rank,
        .index = message->index,
        .incarnation = message->incarnation,
        .attention = (enum mst_attention)message->attention,
        .faults = message->faults,
        .spare = message->spare != 0,
        .ordered = message->ordered != 0,
    };
    return true;
}

static bool decode_detail(struct mst_detail *out, const Muster__Detail *message,
                          struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, message->n_who <= MST_NAMES_MAX, "number of detail.who",
                           (int64_t)message->n_who)) {
        return false;
    }
    out->arrived = message->arrived;
    out->expected = message->expected;
    out->lost = message->lost;
    out->missing = message->missing;
    out->multiple = message->multiple;
    out->limit = message->limit;
    out->limit_kind = message->limit_kind;
    out->asked = message->asked;
    out->who_count = (uint32_t)message->n_who;
    for (uint32_t i = 0; i < out->who_count; i++) {
        if (!decode_who(&out->who[i], message->who[i], fault)) {
            return false;
        }
    }
    return true;
}

static bool decode_item(struct mst_item *out, const Muster__Item *message,
                        struct mst_native_fault *fault)
{
    if (!mst_native_expect(fault, mst_native_item_kind_known((int)message->kind), "items.kind",
                           (int64_t)message->kind)) {
        return false;
    }
    *out = (struct mst_item){
        .kind = (enum mst_item_kind)message->kind,
        .revision = message->revision,
        .number = message->number,
        .arrived = message->arrived,
        .expected = message->expected,
        .listening = message->listening,
        .name = mst_native_slice(message->name),
        .value = mst_native_slice(message->value),
    };
    return !message->who || decode_who(&out->who, message->who, fault);
}

static muster_status decode_items(struct mst_reply *out, const Muster__Reply *message,
                                  struct mst_native_arena *arena, struct mst_native_fault *fault)
{
    struct mst_item *items;

    if (message->n_items == 0) {
        return MUSTER_OK;
    }
    items = mst_native_arena_array(arena, message->n_items, sizeof(*items));
    if (!items) {
        return MUSTER_ENOMEM;
    }
    for (size_t i = 0; i < message->n_items; i++) {
        if (!decode_item(&items[i], message->items[i], fault)) {
            return MUSTER_EPROTO;
        }
    }
    out->items = items;
    out->item_count = (uint32_t)message->n_items;
    return MUSTER_OK;
}

muster_status mst_native_reply_decode(struct mst_reply *out, const Muster__Reply *message,
                                      struct mst_native_arena *arena,
                                      struct mst_native_fault *fault)
{
    fault->what = NULL;
    if (!mst_native_expect(fault, mst_command_known(message->command), "command",
                           (int64_t)message->command) ||
        !mst_native_expect(fault, message->status <= 0, "status", (int64_t)message->status)) {
        return MUSTER_EPROTO;
    }
    *out = (struct mst_reply){
        .id = message->id,
        .command = (enum mst_command)message->command,
        .status = (muster_status)message->status,
        .number = message->number,
        .revision = message->revision,
        .next = message->next,
        .value = mst_native_slice(message->value),
        .has_view = message->view != NULL,
        .has_detail = message->detail != NULL,
    };
    if (message->view && !decode_view(&out->view, message->view, fault)) {
        return MUSTER_EPROTO;
    }
    if (message->detail && !decode_detail(&out->detail, message->detail, fault)) {
        return MUSTER_EPROTO;
    }
    return decode_items(out, message, arena, fault);
}
