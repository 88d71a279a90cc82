/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_RANK_H
#define MST_RANK_H

/* One program is every rank that a test starts. The name that it is started by, a link to it, says
 * which kind of rank it is; each kind is a file of this folder, whose head lists the orders and
 * events that only this kind has. What all of them can be ordered to do is here. */

#include <stdbool.h>

#include "muster/muster.h"

int rank_agent(int argc, char **argv);
int rank_calls(int argc, char **argv);
int rank_fixed(int argc, char **argv);
int rank_hang(int argc, char **argv);
int rank_heartbeat(int argc, char **argv);
int rank_journal(int argc, char **argv);
int rank_loop(int argc, char **argv);
int rank_pace(int argc, char **argv);
int rank_preempt(int argc, char **argv);
int rank_restart(int argc, char **argv);
int rank_run(int argc, char **argv);
int rank_save(int argc, char **argv);
int rank_soak(int argc, char **argv);
int rank_train(int argc, char **argv);

/* A line on stdout, at once. A rank whose test listens on a socket has `event` instead. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Ends the first word of an order with a zero. Returns what follows it: "" if nothing does. */
char *order_split(char *order);

/* Carries out an order that any rank can get, if this is one:
 *
 *   exit CODE | _exit CODE      the process ends
 *   kill SIGNAL                 the process sends it to itself
 *   crash HOW                   segv, abort, fpe: as a program with a mistake ends
 *   exec                        the process becomes a program that does not know muster
 *   thread                      starts a thread that ends at once
 *   child                       starts a child that ends at once
 *
 * true: it was one, and the process is still there. */
bool order_obey(const char *order, const char *rest);

/* Whether an order ends the function, and with what:
 *
 *   ok | status N | fail CODE TEXT | abort CODE TEXT | again | leave
 *   fail-leave CODE TEXT: reports a failure, and leaves */
bool order_ends(muster_restart *restart, const char *order, const char *rest, muster_status *out);

/* Blocks in a way that a signal ends: read, recv, poll, sleep, semaphore. Or in one that no signal
 * does: deaf (reads on after EINTR), sleep-on (sleeps on after EINTR), mutex (its owner has ended),
 * condition, join, malloc, printf (into a pipe that is full), spin. Ends the process if it knows no
 * such way. Returns errno, or 0. */
int block_in(const char *how);

/* Sleeps, and goes on sleeping after a signal. */
void pass(int ms);

/* Fills that much memory: the kernel has to free it when the process ends. */
void be_large(const char *mib);

/* How many entries a folder has. */
unsigned entries_of(const char *path);

#endif
