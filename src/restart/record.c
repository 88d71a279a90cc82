/* SPDX-License-Identifier: Apache-2.0 */
#include "restart/record.h"

#include "base/text.h"
#include "base/time.h"

void mst_fault_fill(struct muster_fault *out, uint64_t now_ns, uint64_t generation,
                    const struct mst_who *who, struct mst_slice text)
{
    struct mst_text line;

    *out = (struct muster_fault){.kind = (enum muster_fault_kind)who->cause,
                                 .code = who->code,
                                 .index = who->index,
                                 .rank = who->rank,
                                 .generation = generation,
                                 .incarnation = who->incarnation,
                                 .pid = who->pid,
                                 .wall_ms = (int64_t)(now_ns / NS_PER_MS - who->heard_ms),
                                 .detector = -1};
    (void)mst_slice_copy(out->host, sizeof(out->host), who->host);
    if (text.size >= sizeof(out->text)) {
        text.size = sizeof(out->text) - 1;
    }
    line = mst_text_in(out->text, sizeof(out->text)); /* one line, whatever the rank sent */
    mst_text_slice(&line, text);
}

void mst_record_list_take(struct mst_record_list *list, uint64_t now_ns,
                          const struct mst_reply *reply)
{
    list->count = 0;
    for (uint32_t i = 0; i < reply->item_count && list->count < MST_NAMES_MAX; i++) {
        const struct mst_item *item = &reply->items[i];
        struct muster_fault *fault = &list->first[list->count];

        if (item->kind == MST_ITEM_FAULT) {
            mst_fault_fill(fault, now_ns, item->number, &item->who, item->value);
            fault->after_ms = item->arrived;
            fault->detector = (int64_t)item->expected - 1;
            list->count++;
        }
    }
    list->total = reply->next > UINT32_MAX ? UINT32_MAX : (uint32_t)reply->next;
    if (list->total < list->count) {
        list->total = list->count;
    }
}

bool mst_record_list_has(const struct mst_record_list *list, enum mst_cause kind)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if ((enum mst_cause)list->first[i].kind == kind) {
            return true;
        }
    }
    return false;
}
