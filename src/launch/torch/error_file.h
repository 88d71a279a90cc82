/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_TORCH_ERROR_FILE_H
#define MST_LAUNCH_TORCH_ERROR_FILE_H

/* The error file of torch: a worker whose function torch.distributed.elastic's `@record` wraps
 * writes its exception there as JSON before it ends. TORCHELASTIC_ERROR_FILE names the file.
 * Without a folder for the ranks' output it is a file in memory that goes with the launcher. */

#include <stdbool.h>
#include <stddef.h>

#define MST_ERROR_FILE_BYTES_MAX 65536u /* of a longer one nothing is taken */

/* A new file in memory, for one process. -1: there is no descriptor or no memory for it. */
int mst_error_file_new(void);

/* The path by which processes of this user open it, while this process has it open. */
void mst_error_file_path(int fd, char *path, size_t room);

/* The message of the file, in one line. False: it has none; `text` is empty. */
bool mst_error_file_read(int fd, char *text, size_t room);

/* The same of its bytes. */
bool mst_error_file_message(const char *bytes, size_t size, char *text, size_t room);

#endif
