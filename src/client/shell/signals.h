/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_CLIENT_SHELL_SIGNALS_H
#define MST_CLIENT_SHELL_SIGNALS_H

/* Signals of this process that are notices. One handler for the whole process: it counts, rings the
 * event of each handle, and calls the handler that was there before. In a child after fork a signal
 * does what it did before, its default action included.
 *
 * The agent of this process ends it by the same signals. It says so in the progress page first, and
 * not by its pid: that is 0 from outside of a container, and a wrapper that forwards the signal has
 * its own. Such a signal is no notice and does what it did before. Only where a notice is known,
 * its default action is left out: the process may be saving, and the agent kills it later. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "muster/status.h"

struct mst_page;
struct sigaction;

enum { MST_SIGNALS_MAX = 64, MST_SIGNAL_NAME_ROOM = 16 };

struct mst_signals {
    uint64_t wanted; /* bit s - 1: signal s */
    bool open;
    int event; /* -1: none. Readable when one may have come */
    uint32_t slot;
    uint32_t seen[MST_SIGNALS_MAX + 1];
};

/* "TERM,USR1", also with SIG or as numbers; "" and "none": no signal. EINVAL with its text. */
muster_status mst_signals_read(uint64_t *out, const char *text, struct muster_error *err);

/* ELIMIT when too many handles have signals, EINVAL for one that interrupts a function
 * (interrupt.h). With `wanted` 0 nothing is done. The page, or NULL, stays until mst_signals_close.
 */
muster_status mst_signals_open(struct mst_signals *signals, uint64_t wanted,
                               const struct mst_page *page, struct muster_error *err);

/* The page, where there was none; likewise. */
void mst_signals_page(const struct mst_signals *signals, const struct mst_page *page);

/* Whether a notice is known, by a signal or otherwise. */
void mst_signals_noticed(const struct mst_signals *signals, bool noticed);

/* Quietens the event. */
void mst_signals_quiet(const struct mst_signals *signals);

/* A signal that came since the last look, and who sent it (0: the system); 0: none. */
int mst_signals_next(struct mst_signals *signals, pid_t *from);

/* The program has closed the event, whose number may be another file's by now: it is not used any
 * more, nor closed. The handlers stay until mst_signals_close. */
void mst_signals_disown(struct mst_signals *signals);

/* Restores the action before, once no handle has the signal any more. */
void mst_signals_close(struct mst_signals *signals);

/* Whether this is the handler that mst_signals_open installs. */
bool mst_signals_handle(const struct sigaction *action);

/* Not a signal, one that cannot be handled, or one that reports an error of the thread itself. */
bool mst_signals_unusable(int signal);

/* "SIGTERM" */
void mst_signals_name(char name[MST_SIGNAL_NAME_ROOM], int signal);

#endif
