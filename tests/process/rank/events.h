/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_EVENTS_H
#define MST_EVENTS_H

/* How a rank under test control speaks: what happens to it goes out as one datagram each to the
 * socket of the test, "PID INDEX WHAT key=value ...", and orders come in as datagrams on a socket
 * of its own, beside that of the test. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LINE_ROOM = 1024 };

/* Where the orders come in, for poll. */
extern int orders_fd;

__attribute__((noreturn)) void die(const char *what);
/* path: the test's socket. */
void events_open(const char *path);
/* Removes the socket of the orders. */
void events_close(void);
/* The path of the socket of the orders. */
const char *events_mine(void);
/* Whose the events are from now on; before that, of -1. */
void events_index_set(uint32_t index);
__attribute__((format(printf, 1, 2))) void event(const char *format, ...);
/* The next order, ended by a zero; flags as of recv. Not above 0: there is none. */
ssize_t order_take(char *order, size_t room, int flags);

#endif
