/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MST_LAUNCH_STREAMS_H
#define MST_LAUNCH_STREAMS_H

/* The standard streams of the processes of a run. Output and errors go through us. What the run is
 * given on its own standard input is for one rank (--input). From a pipe or a file that rank reads
 * by itself, so what it leaves is there for its replacement and for the caller's next command; what
 * is typed at a terminal is passed on.
 *
 * The only process of a run that stands on a terminal gets a terminal of its own instead. With
 * --log-dir it does not: a terminal changes the bytes that go through it. */

#include <stdbool.h>
#include <uv.h>

#include "process/typed.h"

struct mst_process;
struct mst_run_job;

/* Of a process that is to be started: an open file, or as struct mst_spawn has it. Its own terminal
 * is more than one of them. */
enum { MST_STREAM_INPUT, MST_STREAM_OUT, MST_STREAM_ERROR, MST_STREAM_TERMINAL, MST_STREAMS };

struct mst_streams {
    bool reads;              /* there is an input */
    struct mst_typed *typed; /* NULL: it is no terminal */
    int terminal;            /* which of our streams is the terminal that stands for another; -1 */
    int pty;                 /* our side of that one; -1: none is open */
    uv_signal_t resized, suspended, continued;
};

/* False: no memory, or no thread. */
bool mst_streams_begin(struct mst_run_job *job);
void mst_streams_listen(struct mst_run_job *job); /* to the signals of a terminal, on the loop */
void mst_streams_end(struct mst_run_job *job);

/* Opens those of the next process of a place, and its logs. 0, or the error number; the caller
 * closes what is open. */
int mst_streams_open(struct mst_run_job *job, uint32_t index, uint32_t attempts,
                     struct mst_process *process, int fds[MST_STREAMS]);

/* Its process is gone. */
void mst_streams_close(struct mst_run_job *job, uint32_t index);

#endif
