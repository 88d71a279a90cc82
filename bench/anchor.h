/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_ANCHOR_H
#define BENCH_ANCHOR_H

/* The anchors over sockets, for the table in anchor.c. `kind` is "tcp" or "unix". */

#include <stdbool.h>

#include "measure.h"

enum { MESSAGE_BYTES = 64 };

void anchor_make_pair(const char *kind, int fd[2]);

/* Round trips of one message; `pause` idle before each; with or without an epoll_wait before each
 * read. */
void anchor_pingpong(const char *kind, bool use_epoll, unsigned idle_us, size_t count);

/* Requests per second of an epoll server that echoes, `depth` messages under way on each of the
 * connections. */
void anchor_echo(int connections, int depth, double seconds);

/* One message from each of `count`, then one to each, through one epoll server. `one_process` holds
 * all connections itself, so that only the server's work shows; otherwise `count` processes take
 * part, and a sample is one round as the first sees it, back to back. */
void anchor_barrier(int count, bool one_process, size_t rounds);

/* One message from the first of `count` processes, which the server passes on to all; then a
 * barrier of all. Until the last one is released, after 30 ms of rest. */
void anchor_news(int count, size_t rounds);

/* connect, one message there and back, close. */
void anchor_connect(size_t count);

#endif
