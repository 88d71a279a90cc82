/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_OS_DESCRIPTORS_H
#define MST_OS_DESCRIPTORS_H

/* Where a program cannot go on without descriptors it is to say so in words: libuv, which begins
 * with a pipe, ends the process without one. And where a program has closed its standard streams,
 * what is opened next gets their numbers. */

#include <stdbool.h>
#include <stddef.h>

/* Enough for an event loop, with some for what follows at once. */
#define MST_DESCRIPTORS_OF_A_LOOP 8u

/* False: so many more cannot be opened now, and errno says why. */
bool mst_descriptors_left(unsigned count);

/* The same file above the numbers of the standard streams; `fd` is closed if it was one of them:
 * what the program prints there must not go into it, nor must a stream that it opens anew take its
 * place. -1 with errno: there was none (errno stays), or none was left. */
int mst_descriptor_beyond_streams(int fd);

/* "no descriptors left: the limit is 24 (ulimit -n); raise it, or close some". */
void mst_descriptors_text(char *text, size_t room);

/* The same for any limit of the system on what a process opens or forks, by errno. */
void mst_shortage_text(int error, char *text, size_t room);
/* For a thread: its EAGAIN does not tell a limit from no memory. Ends with "out of memory". */
void mst_thread_text(char *text, size_t room);

#endif
