/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/torch/error_file.h"
#include "process/spawn.h"

bool mst_streams_begin(struct mst_run_job *job)
{
    struct mst_streams *streams = &job->streams;
    int flags = fcntl(STDIN_FILENO, F_GETFL);

    /* What stands in for a closed one is not for reading, and a secret has been read. */
    streams->reads = job->options->input != MST_RUN_NO_INPUT && flags >= 0 &&
                     (flags & O_ACCMODE) != O_WRONLY && job->options->secret_fd != STDIN_FILENO;
    return !streams->reads || !isatty(STDIN_FILENO) ||
           mst_typed_new(&streams->typed, STDIN_FILENO, job->output) == MUSTER_OK;
}

void mst_streams_end(struct mst_run_job *job)
{
    mst_typed_free(job->streams.typed);
    job->streams.typed = NULL;
}

static int open_input(struct mst_run_job *job, uint32_t index, int *fd_out)
{
    const struct mst_streams *streams = &job->streams;

    if (!streams->reads || index != job->options->input) {
        *fd_out = MST_SPAWN_NOWHERE;
        return 0;
    }
    *fd_out = MST_SPAWN_OURS;
    if (streams->typed != NULL) {
        *fd_out = mst_typed_open(streams->typed, index);
        return *fd_out >= 0 ? 0 : errno;
    }
    return 0;
}

int mst_streams_open(struct mst_run_job *job, uint32_t index, uint32_t attempts,
                     struct mst_process *process, int fds[MST_STREAMS])
{
    struct mst_log *log = &process->log;
    bool tee = job->options->tee;
    int error;

    mst_logs_make(&job->logs, index, attempts, log);
    process->error_fd = log->made ? -1 : mst_error_file_new();
    fds[MST_STREAM_OUT] = mst_output_open(job->output, index, STDOUT_FILENO,
                                          (struct mst_output_file){log->out, tee}, &process->out);
    fds[MST_STREAM_ERROR] =
        mst_output_open(job->output, index, STDERR_FILENO,
                        (struct mst_output_file){log->error, tee}, &process->error);
    error = fds[MST_STREAM_OUT] >= 0 && fds[MST_STREAM_ERROR] >= 0 ? 0 : errno;
    return error == 0 ? open_input(job, index, &fds[MST_STREAM_INPUT]) : error;
}
