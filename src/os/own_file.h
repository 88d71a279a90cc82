/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_OWN_FILE_H
#define MST_OS_OWN_FILE_H

/* Files that muster makes for itself and finds again. The folder they lie in may be open to others,
 * or may have been. */

#include <stdbool.h>

/* Opens `name` in `folder` (AT_FDCWD: a path), with mode 0600 where O_CREAT makes it. No link is
 * followed and no FIFO waited for. -1 with errno; ELOOP: it is no regular file; EPERM: it is of
 * another user, or others may write to it. */
int mst_own_file_open(int folder, const char *name, int flags);

/* Makes a new file to write, as other programs would, in the place of whatever has that path: a
 * draft of a process that was killed, or what another user has put there to be written to. -1 with
 * errno. */
int mst_own_file_new(const char *path);

/* `name` is still the file that was opened. One that was removed meanwhile can be locked, and that
 * locks no process out. */
bool mst_own_file_found(int folder, const char *name, int fd);

/* Of an errno, for a reader. */
const char *mst_own_file_why(int os_errno);

#endif
