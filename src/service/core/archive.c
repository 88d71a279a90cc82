/* SPDX-License-Identifier: Apache-2.0 */
#include "service/core/archive.h"

#include <string.h>

#include "base/digest.h"

enum { WORD = 8 };

/* ---- the digest: by words, because a snapshot is long ---- */

/* Bytes are little-endian on every machine. */
static uint64_t swap(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

static uint64_t load_number(const unsigned char *bytes, size_t size)
{
    uint64_t word = 0;

    memcpy(&word, bytes, size);
    return swap(word);
}

static uint64_t step(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * UINT64_C(0x100000001b3);
    return digest ^ (digest >> 32);
}

/* Only the last piece may be no whole number of words. */
static uint64_t add_bytes(uint64_t digest, const unsigned char *bytes, size_t size)
{
    while (size >= WORD) {
        digest = step(digest, load_number(bytes, WORD));
        bytes += WORD;
        size -= WORD;
    }
    return size > 0 ? step(digest, load_number(bytes, size) | (uint64_t)size << 56) : digest;
}

/* ---- life ---- */

void mst_archive_save_to(struct mst_archive *archive, const struct mst_snapshot_sink *sink)
{
    archive->loading = false;
    archive->status = MUSTER_OK;
    archive->digest = MST_DIGEST_INIT;
    archive->mem = NULL;
    archive->rest = mst_slice_of(NULL, 0);
    archive->sink = sink;
    archive->used = 0;
}

uint64_t mst_archive_digest(struct mst_slice bytes)
{
    return add_bytes(MST_DIGEST_INIT, bytes.data, bytes.size);
}

void mst_archive_load_from(struct mst_archive *archive, struct mst_slice bytes,
                           const struct mst_mem *mem)
{
    const unsigned char *data = bytes.data;

    mst_archive_save_to(archive, NULL);
    archive->loading = true;
    archive->mem = mem;
    if (bytes.size < WORD) {
        archive->status = MUSTER_EPROTO;
        return;
    }
    archive->rest = mst_slice_of(data, bytes.size - WORD);
    if (mst_archive_digest(archive->rest) != load_number(data + archive->rest.size, WORD)) {
        archive->status = MUSTER_EPROTO;
    }
}

bool mst_archive_good(const struct mst_archive *archive)
{
    return archive->status == MUSTER_OK;
}

void mst_archive_break(struct mst_archive *archive, muster_status status)
{
    if (archive->status == MUSTER_OK) {
        archive->status = status;
    }
}

void *mst_archive_made(struct mst_archive *archive, void *memory)
{
    if (!memory) {
        mst_archive_break(archive, MUSTER_ENOMEM);
    }
    return memory;
}

static void put(struct mst_archive *archive, const void *bytes, size_t size)
{
    if (archive->sink && mst_archive_good(archive) &&
        !archive->sink->put(archive->sink->ctx, mst_slice_of(bytes, size))) {
        mst_archive_break(archive, MUSTER_EFAILED);
    }
}

static void flush(struct mst_archive *archive)
{
    archive->digest = add_bytes(archive->digest, archive->bytes, archive->used);
    if (archive->used > 0) {
        put(archive, archive->bytes, archive->used);
    }
    archive->used = 0;
}

muster_status mst_archive_end(struct mst_archive *archive)
{
    uint64_t word;

    if (archive->loading) {
        (void)mst_archive_expect(archive, archive->rest.size == 0);
        return archive->status;
    }
    flush(archive);
    word = swap(archive->digest);
    put(archive, &word, WORD);
    return archive->status;
}

/* ---- bytes ---- */

static void save_bytes(struct mst_archive *archive, const unsigned char *bytes, size_t size)
{
    while (size > 0 && mst_archive_good(archive)) {
        size_t room = sizeof(archive->bytes) - archive->used;
        size_t piece = size < room ? size : room;

        memcpy(archive->bytes + archive->used, bytes, piece);
        archive->used += piece;
        bytes += piece;
        size -= piece;
        if (archive->used == sizeof(archive->bytes)) {
            flush(archive);
        }
    }
}

/* NULL: there are not that many. */
static const unsigned char *load_bytes(struct mst_archive *archive, size_t size)
{
    const unsigned char *bytes = archive->rest.data;

    if (!mst_archive_expect(archive, size <= archive->rest.size)) {
        return NULL;
    }
    archive->rest = mst_slice_of(bytes + size, archive->rest.size - size);
    return bytes;
}

static uint64_t number(struct mst_archive *archive, uint64_t value, size_t size)
{
    const unsigned char *bytes;
    uint64_t word = swap(value);

    if (archive->loading) {
        bytes = load_bytes(archive, size);
        return bytes ? load_number(bytes, size) : 0;
    }
    if (archive->used + WORD > sizeof(archive->bytes)) {
        save_bytes(archive, (const unsigned char *)&word, size);
        return value;
    }
    memcpy(archive->bytes + archive->used, &word, WORD); /* what follows is put over the rest */
    archive->used += size;
    if (archive->used == sizeof(archive->bytes)) {
        flush(archive);
    }
    return value;
}

/* ---- fields ---- */

void mst_archive_u64(struct mst_archive *archive, uint64_t *field)
{
    uint64_t value = number(archive, *field, 8);

    if (archive->loading) {
        *field = value;
    }
}

void mst_archive_i64(struct mst_archive *archive, int64_t *field)
{
    uint64_t value = number(archive, (uint64_t)*field, 8);

    if (archive->loading) {
        *field = (int64_t)value;
    }
}

void mst_archive_u32(struct mst_archive *archive, uint32_t *field)
{
    uint64_t value = number(archive, *field, 4);

    if (archive->loading) {
        *field = (uint32_t)value;
    }
}

void mst_archive_u64s(struct mst_archive *archive, uint64_t *const fields[])
{
    for (; *fields; fields++) {
        mst_archive_u64(archive, *fields);
    }
}

void mst_archive_u32s(struct mst_archive *archive, uint32_t *const fields[])
{
    for (; *fields; fields++) {
        mst_archive_u32(archive, *fields);
    }
}

void mst_archive_i32(struct mst_archive *archive, int32_t *field)
{
    uint64_t value = number(archive, (uint32_t)*field, 4);

    if (archive->loading) {
        *field = (int32_t)(uint32_t)value;
    }
}

void mst_archive_bool(struct mst_archive *archive, bool *field)
{
    uint64_t value = number(archive, *field, 1);

    if (archive->loading) {
        *field = mst_archive_expect(archive, value <= 1) && value == 1;
    }
}

void mst_archive_bools(struct mst_archive *archive, bool *first, bool *second)
{
    uint64_t value = number(archive, (uint64_t)*first | (uint64_t)*second << 1, 1);

    if (archive->loading) {
        bool good = mst_archive_expect(archive, value <= 3);

        *first = good && (value & 1) != 0;
        *second = good && (value & 2) != 0;
    }
}

void mst_archive_token(struct mst_archive *archive, struct mst_token *field)
{
    mst_archive_u64(archive, &field->high);
    mst_archive_u64(archive, &field->low);
}

void mst_archive_count(struct mst_archive *archive, uint32_t *field, size_t each)
{
    mst_archive_u32(archive, field);
    if (archive->loading && !mst_archive_expect(archive, *field <= archive->rest.size / each)) {
        *field = 0;
    }
}

void mst_archive_slice(struct mst_archive *archive, struct mst_slice *field)
{
    uint64_t size = number(archive, field->size, 8);

    if (!archive->loading) {
        save_bytes(archive, field->data, field->size);
        return;
    }
    if (!mst_archive_expect(archive, size <= archive->rest.size)) {
        size = 0;
    }
    *field = mst_slice_of(size > 0 ? load_bytes(archive, (size_t)size) : NULL, (size_t)size);
}

void mst_archive_blob(struct mst_archive *archive, struct mst_blob **field)
{
    struct mst_slice bytes = mst_blob_slice(*field);
    bool there = *field != NULL;

    mst_archive_bool(archive, &there);
    if (!there) {
        return;
    }
    mst_archive_slice(archive, &bytes);
    if (archive->loading && mst_archive_good(archive)) {
        *field = mst_archive_made(archive, mst_blob_new(archive->mem, bytes));
    }
}

int32_t mst_archive_choice(struct mst_archive *archive, int32_t value, int32_t least, int32_t most)
{
    mst_archive_i32(archive, &value);
    return mst_archive_expect(archive, value >= least && value <= most) ? value : least;
}

void mst_archive_list(struct mst_archive *archive, const struct mst_list *list, size_t each,
                      mst_archive_keep *keep, void *ctx)
{
    struct mst_list *node = list->next;
    uint32_t count = 0;

    for (const struct mst_list *one = node; !archive->loading && one != list; one = one->next) {
        count++;
    }
    mst_archive_count(archive, &count, each);
    for (uint32_t i = 0; i < count && mst_archive_good(archive); i++) {
        if (archive->loading) {
            keep(archive, ctx, NULL);
        } else {
            keep(archive, ctx, node);
            node = node->next;
        }
    }
}

struct mst_slice mst_archive_name(struct mst_archive *archive, const struct mst_names *names,
                                  const struct mst_list *node)
{
    struct mst_slice name =
        node ? MST_CONTAINER_CONST(node, struct mst_named, in_list)->name : (struct mst_slice){0};

    mst_archive_slice(archive, &name);
    if (archive->loading) {
        (void)mst_archive_expect(archive, name.size > 0 && name.size < UINT32_MAX &&
                                              !mst_named_find(names, name));
    }
    return name;
}
