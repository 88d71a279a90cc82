/* SPDX-License-Identifier: Apache-2.0 */
#include "fronts/tcpstore/machine.h"

#include <string.h>

/* A name of the service is not empty and has no NUL, and a key may be both: the prefix of its space
 * comes first, and these two bytes become two. */
enum { ESCAPE = 1, ESCAPED_NUL = 1, ESCAPED_ESCAPE = 2, ITEM_DIGITS = 16 };

size_t mst_tcpstore_name_size(struct mst_slice key)
{
    const unsigned char *bytes = key.data;
    size_t size = MST_TCPSTORE_PREFIX_ROOM + key.size + 1 + ITEM_DIGITS;

    for (size_t i = 0; i < key.size; i++) {
        size += bytes[i] <= ESCAPE;
    }
    return size;
}

static unsigned char *put_key(unsigned char *at, struct mst_slice key)
{
    const unsigned char *bytes = key.data;

    for (size_t i = 0; i < key.size; i++) {
        if (bytes[i] <= ESCAPE) {
            *at++ = ESCAPE;
            *at++ = bytes[i] == ESCAPE ? ESCAPED_ESCAPE : ESCAPED_NUL;
        } else {
            *at++ = bytes[i];
        }
    }
    return at;
}

static unsigned char *put_item(unsigned char *at, uint64_t item)
{
    static const char digits[] = "0123456789abcdef";

    *at++ = '/';
    for (size_t i = ITEM_DIGITS; i-- > 0;) {
        *at++ = (unsigned char)digits[item >> (4 * i) & 15];
    }
    return at;
}

struct mst_slice mst_tcpstore_name(const struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                                   enum mst_tcpstore_space space, struct mst_slice key,
                                   uint64_t item)
{
    struct mst_slice prefix = mst_slice_text(front->prefix[space]);
    unsigned char *start = call->at;

    MST_ASSERT((size_t)(call->end - start) >= mst_tcpstore_name_size(key));
    memcpy(start, prefix.data, prefix.size);
    call->at = put_key(start + prefix.size, key);
    if (space == MST_TCPSTORE_ITEMS) {
        call->at = put_item(call->at, item);
    }
    return mst_slice_of(start, (size_t)(call->at - start));
}

struct mst_slice mst_tcpstore_name_in(const struct mst_tcpstore *front,
                                      struct mst_tcpstore_call *call, enum mst_tcpstore_space space,
                                      struct mst_slice name, enum mst_tcpstore_space before)
{
    struct mst_slice bare = mst_slice_from(name, strlen(front->prefix[before]));
    struct mst_slice prefix = mst_slice_text(front->prefix[space]);
    unsigned char *start = mst_tcpstore_room(call, prefix.size + bare.size);

    memcpy(start, prefix.data, prefix.size);
    if (bare.size > 0) {
        memcpy(start + prefix.size, bare.data, bare.size);
    }
    return mst_slice_of(start, prefix.size + bare.size);
}

struct mst_slice mst_tcpstore_key_of(struct mst_slice name, unsigned char *out)
{
    const unsigned char *bytes = name.data;
    size_t size = 0;

    for (size_t i = 0; i < name.size; i++) {
        if (bytes[i] == ESCAPE && i + 1 < name.size) {
            i++;
            out[size++] = bytes[i] == ESCAPED_NUL ? 0 : ESCAPE;
        } else {
            out[size++] = bytes[i];
        }
    }
    return mst_slice_of(out, size);
}

/* ---- calls ---- */

static size_t aligned(size_t size)
{
    return (size + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
}

struct mst_tcpstore_call *mst_tcpstore_call_new(struct mst_tcpstore *front, size_t room)
{
    struct mst_tcpstore_call *call = mst_mem_zalloc(&front->mem, aligned(sizeof(*call)) + room);

    if (call) {
        call->at = (unsigned char *)call + aligned(sizeof(*call));
        call->end = call->at + room;
    }
    return call;
}

/* Lists come before names, which leave the room unaligned. */
void *mst_tcpstore_room(struct mst_tcpstore_call *call, size_t size)
{
    void *room = call->at;

    MST_ASSERT((size_t)(call->end - call->at) >= size);
    call->at += size;
    return room;
}

void mst_tcpstore_post(struct mst_tcpstore *front, struct mst_tcpstore_call *call,
                       struct mst_tcpstore_session *session, struct mst_list *owner_calls,
                       mst_tcpstore_replied *replied, void *owner)
{
    uint64_t tag = ++front->tags;

    MST_ASSERT(session->open);
    call->session = session;
    call->replied = replied;
    call->owner = owner;
    call->out.effect.session = session->id;
    call->out.effect.tag = tag;
    call->out.effect.request = &call->request;
    call->out.effect.deadline_ns = NEVER;
    switch (call->request.command) {
    case MST_WRITE:
        call->request.write.generation = session->generation;
        break;
    case MST_GET:
        call->request.get.generation = session->generation;
        break;
    case MST_LIST:
        call->request.list.generation = session->generation;
        break;
    case MST_WAIT:
        call->request.wait.generation = session->generation;
        break;
    default:
        MST_ASSERT(call->request.command == MST_WATCH);
        call->request.watch.generation = session->generation;
    }
    mst_list_append(owner_calls, &call->in_owner);
    MST_ASSERT(mst_tree_append(&front->calls, &tag, &call->by_tag));
    mst_tcpstore_emit(front, &call->out, MST_FRONT_POST);
}

static void forget(struct mst_tcpstore *front, struct mst_tcpstore_call *call)
{
    mst_list_remove(&call->in_owner);
    mst_tree_remove(&front->calls, &call->by_tag);
}

static void dropped(struct mst_tcpstore *front, struct mst_tcpstore_out *out)
{
    mst_mem_release(&front->mem, MST_CONTAINER(out, struct mst_tcpstore_call, out));
}

/* One that the driver has not seen is never made. */
void mst_tcpstore_drop_calls(struct mst_tcpstore *front, struct mst_list *calls)
{
    MST_EACH(call, calls, struct mst_tcpstore_call, in_owner) {
        bool made = !mst_list_linked(&call->out.link);

        forget(front, call);
        mst_list_remove(&call->out.link);
        if (made && !call->session->leaving) {
            call->out.drained = dropped;
            mst_tcpstore_emit(front, &call->out, MST_FRONT_DROP);
        } else {
            mst_mem_release(&front->mem, call);
        }
    }
}

/* A reply to a call that was dropped may have been on its way. */
void mst_tcpstore_reply(struct mst_tcpstore *front, uint64_t tag, const struct mst_reply *reply)
{
    struct mst_tree_node *node = mst_tree_find(&front->calls, &tag);

    if (node) {
        struct mst_tcpstore_call *call = MST_CONTAINER(node, struct mst_tcpstore_call, by_tag);

        forget(front, call);
        call->replied(front, call, reply);
        mst_mem_release(&front->mem, call);
    }
}
