/* SPDX-License-Identifier: Apache-2.0 */
#include "restart/record.h"

#include <string.h>

#include "base/digest.h"

static void copy(char *out, size_t room, struct mst_slice text)
{
    size_t size = text.size < room ? text.size : room - 1;

    if (size > 0) {
        memcpy(out, text.data, size);
    }
    out[size] = 0;
}

void mst_record_list_clear(struct mst_record_list *list)
{
    list->count = 0;
    list->total = 0;
}

static void take_one(struct mst_fault_record *record, uint64_t now_ns, const struct mst_item *item)
{
    *record = (struct mst_fault_record){.kind = item->who.cause,
                                        .code = item->who.code,
                                        .index = item->who.index,
                                        .rank = item->who.rank,
                                        .generation = item->number,
                                        .incarnation = item->who.incarnation,
                                        .pid = item->who.pid,
                                        .after_ms = item->arrived,
                                        .ago_ms = item->who.heard_ms,
                                        .heard_ns = now_ns,
                                        .detector = (int64_t)item->expected - 1};
    copy(record->host, sizeof(record->host), item->who.host);
    copy(record->text, sizeof(record->text), item->value);
}

void mst_record_list_take(struct mst_record_list *list, uint64_t now_ns,
                          const struct mst_reply *reply)
{
    mst_record_list_clear(list);
    for (uint32_t i = 0; i < reply->item_count && list->count < MST_NAMES_MAX; i++) {
        if (reply->items[i].kind == MST_ITEM_FAULT) {
            take_one(&list->first[list->count++], now_ns, &reply->items[i]);
        }
    }
    list->total = reply->next > UINT32_MAX ? UINT32_MAX : (uint32_t)reply->next;
    if (list->total < list->count) {
        list->total = list->count;
    }
}

void mst_record_list_own(struct mst_record_list *list, uint64_t now_ns, const struct mst_view *view,
                         enum mst_cause kind, int32_t code, struct mst_slice text)
{
    struct mst_fault_record *record = &list->first[0];

    *record = (struct mst_fault_record){.kind = kind,
                                        .code = code,
                                        .index = view->index,
                                        .rank = view->rank,
                                        .generation = view->generation,
                                        .incarnation = view->incarnation,
                                        .heard_ns = now_ns,
                                        .detector = -1};
    copy(record->text, sizeof(record->text), text);
    list->count = 1;
    list->total = 1;
}

bool mst_record_list_has(const struct mst_record_list *list, enum mst_cause kind)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->first[i].kind == kind) {
            return true;
        }
    }
    return false;
}

uint64_t mst_record_list_digest(const struct mst_record_list *list, uint64_t digest)
{
    digest = mst_digest_number(digest, (uint64_t)list->count << 32 | list->total);
    for (uint32_t i = 0; i < list->count; i++) {
        const struct mst_fault_record *record = &list->first[i];

        digest = mst_digest_number(digest, (uint64_t)record->kind << 32 | record->index);
        digest = mst_digest_number(digest, record->generation);
        digest = mst_digest_slice(digest, mst_slice_text(record->text));
    }
    return digest;
}
