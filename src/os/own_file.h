/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_OWN_FILE_H
#define MST_OS_OWN_FILE_H

/* Files that muster makes for itself and finds again. The folder they lie in may be open to others,
 * or may have been. */

#include <stdbool.h>
#include <stddef.h>

/* Opens `name` in `folder` (AT_FDCWD: a path), with mode 0600 where O_CREAT makes it. No link is
 * followed and no FIFO waited for. -1 with errno; ELOOP: it is no regular file; EPERM: it is of
 * another user, or others may write to it. */
int mst_own_file_open(int folder, const char *name, int flags);

/* Makes a new file to write, as other programs would, in the place of whatever has that path: a
 * draft of a process that was killed, or what another user has put there to be written to. -1 with
 * errno. */
int mst_own_file_new(const char *path);

/* Puts a file in the place of `path` in one step: a reader finds the old one or this one. What it
 * is made of has `mark` and the process in its name, as hosts may share the folder. It is on the
 * disk then. False with errno. */
bool mst_own_file_replace(const char *path, const char *mark, const char *bytes, size_t size);

/* `name` is still the file that was opened. One that was removed meanwhile can be locked, and that
 * locks no process out. */
bool mst_own_file_found(int folder, const char *name, int fd);

/* Of an errno, for a reader. */
const char *mst_own_file_why(int os_errno);

#endif
