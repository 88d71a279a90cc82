/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of what workers and users pass in: failures, and lists of parts. */
#include "base/panic.h"
#include "tasks/machine.h"

void *mst_array_grow(const struct mst_mem *mem, void *array, uint32_t count, uint32_t room,
                     size_t size)
{
    void *grown = mst_mem_array(mem, room, size);

    if (grown) {
        if (count > 0) {
            memcpy(grown, array, count * size);
        }
        mst_mem_release(mem, array);
    }
    return grown;
}

/* ---- failures ---- */

static size_t text_size(struct mst_slice text)
{
    return text.size < MST_FAILURE_TEXT_MAX ? text.size : MST_FAILURE_TEXT_MAX;
}

static struct mst_slice text_copy(char **to, struct mst_slice text)
{
    struct mst_slice out = mst_slice_of(*to, text_size(text));

    if (out.size > 0) {
        memcpy(*to, text.data, out.size);
        *to += out.size;
    }
    return out;
}

struct mst_task_failure *mst_failure_copy(const struct mst_mem *mem,
                                          const struct mst_failure *failure)
{
    size_t depth = 0;
    size_t bytes = 0;
    struct mst_task_failure *copy;
    char *to;

    for (const struct mst_failure *f = failure; f && depth < MST_FAILURE_DEPTH_MAX; f = f->cause) {
        bytes += text_size(f->text) + text_size(f->state);
        depth++;
    }
    copy = mem->alloc(mem->ctx, sizeof(*copy) + depth * sizeof(struct mst_failure) + bytes);
    if (!copy) {
        return NULL;
    }
    copy->references = 1;
    copy->depth = (uint32_t)depth;
    to = (char *)&copy->chain[depth];
    for (size_t i = 0; i < depth; i++, failure = failure->cause) {
        copy->chain[i] = *failure;
        copy->chain[i].text = text_copy(&to, failure->text);
        copy->chain[i].state = text_copy(&to, failure->state);
        copy->chain[i].cause = i + 1 < depth ? &copy->chain[i + 1] : NULL;
    }
    return copy;
}

void mst_failure_drop(const struct mst_mem *mem, struct mst_task_failure *copy)
{
    if (copy && --copy->references == 0) {
        mst_mem_release(mem, copy);
    }
}

/* The text of a failure that the machine itself found. */
struct mst_slice mst_failure_text(enum mst_origin origin)
{
    static const char *const texts[MST_ORIGINS] = {
        [MST_ORIGIN_LOST] =
            "its worker was lost after it may have begun, and it must not run twice",
        [MST_ORIGIN_CANCELLED] = "cancelled before it was done: schedule it again if it is needed",
        [MST_ORIGIN_DEADLINE] = "its deadline passed",
        [MST_ORIGIN_POISON] = "too many workers died while they ran it: it is not run again",
        [MST_ORIGIN_UNKNOWN] = "no worker has it in this version",
        [MST_ORIGIN_INPUT] = "a per-worker value that it needs could not be built"};

    return mst_slice_text(texts[origin]);
}

/* ---- parts ---- */

bool mst_parts_size(const struct mst_parts *parts, size_t *out)
{
    size_t size = 0;

    if (parts->count > MST_CLUSTER_PARTS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < parts->count; i++) {
        size_t more = parts->items[i].data.size;

        if (more > MST_CLUSTER_BYTES_MAX || size + more > MST_CLUSTER_BYTES_MAX) {
            return false;
        }
        size += more;
    }
    *out = size;
    return true;
}

char *mst_parts_copy(struct mst_part *to, char *bytes, const struct mst_parts *parts)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        struct mst_slice data = parts->items[i].data;

        to[i] =
            (struct mst_part){.data = mst_slice_of(bytes, data.size), .type = parts->items[i].type};
        if (data.size > 0) {
            memcpy(bytes, data.data, data.size);
            bytes += data.size;
        }
    }
    return bytes;
}

struct mst_task_result *mst_result_new(const struct mst_mem *mem, const struct mst_parts *parts)
{
    struct mst_task_result *result = NULL;
    size_t size;

    if (mst_parts_size(parts, &size)) {
        result =
            mem->alloc(mem->ctx, sizeof(*result) + parts->count * sizeof(struct mst_part) + size);
    }
    if (result) {
        result->parts = (struct mst_parts){.items = result->items, .count = parts->count};
        (void)mst_parts_copy(result->items, (char *)&result->items[parts->count], parts);
    }
    return result;
}
