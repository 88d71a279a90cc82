/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "launch/streams.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/torch/error_file.h"
#include "process/pty.h"
#include "process/spawn.h"

/* Which of our streams is a terminal that the only process may have for itself; -1: none. */
static int terminal_of(const struct mst_run_job *job)
{
    if (job->places.count != 1 || mst_run_several(job->options) || job->options->log_dir != NULL) {
        return -1;
    }
    return isatty(STDOUT_FILENO) ? STDOUT_FILENO : isatty(STDERR_FILENO) ? STDERR_FILENO : -1;
}

bool mst_streams_begin(struct mst_run_job *job)
{
    struct mst_streams *streams = &job->streams;
    int flags = fcntl(STDIN_FILENO, F_GETFL);

    /* What stands in for a closed one is not for reading, and a secret has been read. */
    streams->reads = job->options->input != MST_RUN_NO_INPUT && flags >= 0 &&
                     (flags & O_ACCMODE) != O_WRONLY && job->options->secret_fd != STDIN_FILENO;
    streams->terminal = terminal_of(job);
    streams->pty = -1;
    if (streams->reads && isatty(STDIN_FILENO) &&
        mst_typed_new(&streams->typed, STDIN_FILENO, job->output) != MUSTER_OK) {
        return false;
    }
    if (streams->terminal >= 0) {
        mst_output_pass(job->output, streams->typed != NULL);
    }
    return true;
}

void mst_streams_end(struct mst_run_job *job)
{
    mst_typed_free(job->streams.typed);
    job->streams.typed = NULL;
    if (job->streams.pty > 0) {
        (void)close(job->streams.pty);
        job->streams.pty = -1;
    }
}

/* ---- signals of the terminal ---- */

static void on_resized(uv_signal_t *handle, int number)
{
    const struct mst_streams *streams = handle->data;

    (void)number;
    if (streams->pty >= 0) {
        mst_pty_resize(streams->pty, streams->terminal);
    }
}

static void on_continued(uv_signal_t *handle, int number)
{
    const struct mst_streams *streams = handle->data;

    (void)number;
    mst_typed_resume(streams->typed);
}

/* The shell gets its terminal back as it was. */
static void on_suspended(uv_signal_t *handle, int number)
{
    const struct mst_streams *streams = handle->data;
    struct sigaction stops = {.sa_handler = SIG_DFL}, before;

    mst_typed_suspend(streams->typed);
    if (sigaction(number, &stops, &before) == 0) {
        (void)raise(number);
        (void)sigaction(number, &before, NULL);
    }
    mst_typed_resume(streams->typed);
}

void mst_streams_listen(struct mst_run_job *job)
{
    struct mst_streams *streams = &job->streams;
    struct sigaction action;

    (void)uv_signal_init(&job->loop, &streams->resized);
    (void)uv_signal_init(&job->loop, &streams->suspended);
    (void)uv_signal_init(&job->loop, &streams->continued);
    streams->resized.data = streams->suspended.data = streams->continued.data = streams;
    if (streams->terminal < 0) {
        return;
    }
    (void)uv_signal_start(&streams->resized, on_resized, SIGWINCH);
    if (streams->typed != NULL && sigaction(SIGTSTP, NULL, &action) == 0 &&
        action.sa_handler != SIG_IGN) {
        (void)uv_signal_start(&streams->suspended, on_suspended, SIGTSTP);
        (void)uv_signal_start(&streams->continued, on_continued, SIGCONT);
    }
}

/* ---- the streams of a process ---- */

static int copy_of(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

static bool gets_input(const struct mst_run_job *job, uint32_t index)
{
    return job->streams.reads && index == job->options->input;
}

static int open_input(struct mst_run_job *job, uint32_t index, int *fd_out)
{
    *fd_out = gets_input(job, index) ? MST_SPAWN_OURS : MST_SPAWN_NOWHERE;
    if (*fd_out == MST_SPAWN_OURS && job->streams.typed != NULL) {
        *fd_out = mst_typed_open(job->streams.typed, index);
        return *fd_out >= 0 ? 0 : errno;
    }
    return 0;
}

static int open_pipes(struct mst_run_job *job, uint32_t index, struct mst_process *process,
                      int fds[MST_STREAMS])
{
    struct mst_log *log = &process->log;
    bool tee = job->options->tee;

    fds[MST_STREAM_OUT] = mst_output_open(job->output, index, STDOUT_FILENO,
                                          (struct mst_output_file){log->out, tee}, &process->out);
    fds[MST_STREAM_ERROR] =
        mst_output_open(job->output, index, STDERR_FILENO,
                        (struct mst_output_file){log->error, tee}, &process->error);
    if (fds[MST_STREAM_OUT] < 0 || fds[MST_STREAM_ERROR] < 0) {
        return errno;
    }
    return open_input(job, index, &fds[MST_STREAM_INPUT]);
}

/* One stream of a process that has a terminal: that, where ours is one, or a pipe. False with
 * errno. */
static bool open_beside(struct mst_run_job *job, uint32_t index, int number, int terminal,
                        struct mst_output_stream **stream, int *fd_out)
{
    *fd_out = isatty(number) ? copy_of(terminal)
                             : mst_output_open(job->output, index, number,
                                               (struct mst_output_file){.fd = -1}, stream);
    return *fd_out >= 0;
}

/* Our side of it: to read from, to write to, and to tell its size. */
static int open_pty(struct mst_streams *streams, struct mst_output *output,
                    struct mst_process *process, int *terminal_out)
{
    bool has_errors = isatty(STDERR_FILENO);
    int pty = mst_pty_open(streams->terminal, terminal_out);

    if (pty < 0) {
        return errno;
    }
    if (streams->pty >= 0) {
        (void)close(streams->pty);
    }
    streams->pty = copy_of(pty);
    process->on_terminal = has_errors;
    return mst_output_open_pty(output, pty, streams->terminal,
                               has_errors ? &process->error : &process->out) == 0
               ? 0
               : errno;
}

static int open_terminal(struct mst_run_job *job, uint32_t index, struct mst_process *process,
                         int fds[MST_STREAMS])
{
    struct mst_streams *streams = &job->streams;
    int error = open_pty(streams, job->output, process, &fds[MST_STREAM_TERMINAL]), keys;
    int terminal = fds[MST_STREAM_TERMINAL];

    if (error != 0) {
        return error;
    }
    if (!open_beside(job, index, STDOUT_FILENO, terminal, &process->out, &fds[MST_STREAM_OUT]) ||
        !open_beside(job, index, STDERR_FILENO, terminal, &process->error,
                     &fds[MST_STREAM_ERROR])) {
        return errno;
    }
    if (!gets_input(job, index) || streams->typed == NULL) {
        return open_input(job, index, &fds[MST_STREAM_INPUT]);
    }
    fds[MST_STREAM_INPUT] = copy_of(terminal);
    keys = copy_of(streams->pty);
    if (fds[MST_STREAM_INPUT] < 0 || keys < 0) {
        return errno;
    }
    mst_typed_open_pty(streams->typed, keys);
    return 0;
}

int mst_streams_open(struct mst_run_job *job, uint32_t index, uint32_t attempts,
                     struct mst_process *process, int fds[MST_STREAMS])
{
    mst_logs_make(&job->logs, index, attempts, &process->log);
    process->error_fd = process->log.made ? -1 : mst_error_file_new();
    return job->streams.terminal > 0 ? open_terminal(job, index, process, fds)
                                     : open_pipes(job, index, process, fds);
}

void mst_streams_close(struct mst_run_job *job, uint32_t index)
{
    if (job->streams.typed != NULL && gets_input(job, index)) {
        mst_typed_close(job->streams.typed);
    }
}
