/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_CORE_ARCHIVE_H
#define MST_SERVICE_CORE_ARCHIVE_H

/* Bytes with a direction: one description of a struct both saves and loads it, so the two cannot
 * disagree. Numbers are little-endian.
 *
 * Saving goes to a sink, or only into the digest, and writes to nothing that is saved: a forked
 * child would copy every page. Loading trusts nothing: the first bytes that make no sense, and a
 * lack of memory, break the archive, and everything read from then on is 0 and empty. So a
 * description asks once at the end of a step, not at every field. */

#include "service/core/part.h"
#include "service/core/snapshot.h"

struct mst_archive {
    bool loading;
    muster_status status; /* EPROTO, ENOMEM; saving: EFAILED, the sink could not */
    uint64_t digest;
    const struct mst_mem *mem;            /* loading */
    struct mst_slice rest;                /* loading: not read yet */
    const struct mst_snapshot_sink *sink; /* saving; NULL: only the digest */
    size_t used;
    unsigned char bytes[16384]; /* saving: on their way */
};

void mst_archive_save_to(struct mst_archive *archive, const struct mst_snapshot_sink *sink);
/* The digest that ends these bytes. */
uint64_t mst_archive_digest(struct mst_slice bytes);
/* The digest at the end was found right, or the archive is broken. */
void mst_archive_load_from(struct mst_archive *archive, struct mst_slice bytes,
                           const struct mst_mem *mem);
/* Saving: puts the rest and the digest. Loading: nothing may be left. The status. */
muster_status mst_archive_end(struct mst_archive *archive);

bool mst_archive_good(const struct mst_archive *archive);
void mst_archive_break(struct mst_archive *archive,
                       muster_status status); /* the first one counts */
/* Loading: what was read makes no sense unless `holds`. Whether it does, and the archive is good.
 */
static inline bool mst_archive_expect(struct mst_archive *archive, bool holds)
{
    if (archive->loading && !holds) {
        mst_archive_break(archive, MUSTER_EPROTO);
    }
    return holds && mst_archive_good(archive);
}

/* Loading: `memory` was allocated for what is loaded; NULL breaks the archive. Returns it. */
void *mst_archive_made(struct mst_archive *archive, void *memory);

void mst_archive_u64(struct mst_archive *archive, uint64_t *field);
void mst_archive_i64(struct mst_archive *archive, int64_t *field);
void mst_archive_u32(struct mst_archive *archive, uint32_t *field);
/* Several, one after the other; NULL ends them. */
void mst_archive_u64s(struct mst_archive *archive, uint64_t *const fields[]);
void mst_archive_u32s(struct mst_archive *archive, uint32_t *const fields[]);
#define MST_ARCHIVE_U64S(archive, ...)                                                             \
    mst_archive_u64s((archive), (uint64_t *const[]){__VA_ARGS__, NULL})
#define MST_ARCHIVE_U32S(archive, ...)                                                             \
    mst_archive_u32s((archive), (uint32_t *const[]){__VA_ARGS__, NULL})
void mst_archive_i32(struct mst_archive *archive, int32_t *field);
void mst_archive_bool(struct mst_archive *archive, bool *field);
/* Two in one byte. A flag that an older snapshot did not have comes second: where it is not set the
 * bytes are the same, and so is the digest. */
void mst_archive_bools(struct mst_archive *archive, bool *first, bool *second);
void mst_archive_token(struct mst_archive *archive, struct mst_token *field);

/* A number of things that take at least `each` bytes apiece: when loading, there are that many
 * bytes, so it is safe to reserve for them. */
void mst_archive_count(struct mst_archive *archive, uint32_t *field, size_t each);

/* The records of a list in their order, of at least `each` bytes. `keep` gets each of them;
 * loading: it gets NULL, and makes the next one. */
typedef void mst_archive_keep(struct mst_archive *archive, void *ctx, struct mst_list *node);
void mst_archive_list(struct mst_archive *archive, const struct mst_list *list, size_t each,
                      mst_archive_keep *keep, void *ctx);

/* Loading: borrowed from the bytes that are loaded. */
void mst_archive_slice(struct mst_archive *archive, struct mst_slice *field);
/* NULL stays NULL. Loading: a copy with one reference, `*field` was NULL. */
void mst_archive_blob(struct mst_archive *archive, struct mst_blob **field);

/* The name of a record; loading: of the next one, which no record in `names` has. */
struct mst_slice mst_archive_name(struct mst_archive *archive, const struct mst_names *names,
                                  const struct mst_list *node);

/* An enum, or a status, from `least` to `most`. */
int32_t mst_archive_choice(struct mst_archive *archive, int32_t value, int32_t least, int32_t most);
#define MST_ARCHIVE_ENUM(archive, field, type, least, most)                                        \
    do {                                                                                           \
        int32_t choice_ = mst_archive_choice((archive), (int32_t)(field), (least), (most));        \
                                                                                                   \
        if ((archive)->loading) {                                                                  \
            (field) = (type)choice_;                                                               \
        }                                                                                          \
    } while (0)

#endif
