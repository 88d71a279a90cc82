/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_SERVICE_SERVER_RECORD_FILE_H
#define MST_SERVICE_SERVER_RECORD_FILE_H

/* The next file of a record, and the thread that writes it: once it has begun, mst_record_file_put
 * never waits for the disk. Two buffers: one is filled while the other is written. When the waiting
 * bytes reach a limit, because the disk is too slow, the record ends. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "muster/status.h"

#define MST_RECORD_WAITING_MIB 64 /* wait for the disk at most */
/* The disk is given so long for the state that a record begins with, and at the end for the rest.
 */
#define MST_RECORD_PATIENCE_NS 5000000000

struct mst_record_file;

/* Makes the folder (mode 0700) where it is missing, and in it a new file, whose number is the next
 * one: nothing is overwritten. EFAILED: `err` is one line; `err->os_errno` says why. */
muster_status mst_record_file_open(struct mst_record_file **out, const char *folder,
                                   struct muster_error *err);

const char *mst_record_file_path(const struct mst_record_file *file);
uint64_t mst_record_file_sequence(const struct mst_record_file *file);

/* Copies the bytes, which will be written in their order. False: they never will, nor any others.
 */
bool mst_record_file_put(struct mst_record_file *file, struct mst_slice bytes);

/* The begin of the record was put, which may exceed the limit of waiting bytes. Until this call a
 * put waits for the disk instead, at most MST_RECORD_PATIENCE_NS after the file was opened. */
void mst_record_file_begun(struct mst_record_file *file);

/* Why nothing is written any more, in a few words; NULL: it is. */
const char *mst_record_file_trouble(struct mst_record_file *file);

/* No more will come. Waits until all is written, but no longer than MST_RECORD_PATIENCE_NS: whether
 * it is. */
bool mst_record_file_finish(struct mst_record_file *file);

/* Does not wait: a thread that hangs in the disk is abandoned. */
void mst_record_file_free(struct mst_record_file *file);

/* Whether the folder is unsuitable by a mistake of the user: it does not exist, or is not
 * accessible. Other failures, such as a full disk, may not happen the next time. */
bool mst_record_file_misnamed(const struct muster_error *err);

#endif
