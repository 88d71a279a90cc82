/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "process/output.h"
#include "os/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/system.h"
#include "process/screen.h"

#define READY_MAX 64          /* streams in a turn */
#define TERMINAL_HOLDS 16384u /* the kernel's 8 KiB, 4 KiB for the reader, and room */
#define SHOWN_AFTER_NS (MST_OUTPUT_SHOWN_AFTER_MS * NS_PER_MS)

/* Where lines come out. Streams that go to the same terminal, pipe or file share it. */
struct sink {
    struct sink *next;
    struct mst_screen screen;
    struct mst_output *output;
    int fd;
    bool terminal;
    dev_t device; /* of the terminal, or of where the file is... */
    ino_t file;   /* ...and 0, or the file */
    size_t size;
    char out[65536];
};

struct mst_output_stream {
    struct mst_output_stream *next;
    int from; /* -1: at its end */
    struct sink *to;
    int file;       /* -1: none */
    bool shown;     /* its lines come out */
    bool passed;    /* its bytes come out as they are */
    bool forgotten; /* it is freed at its end, by the thread */
    bool comments;  /* its lines come after what others had written before */
    char last[MST_OUTPUT_LAST_MAX];
    struct mst_screen_line line; /* the one that is not at its end yet */
    uint64_t shown_at_ns;        /* what there is of it comes out then; 0: nothing has changed */
    size_t owed;                 /* to be read before the output is drained */
    char *tail;                  /* MST_OUTPUT_TAIL_MAX bytes; NULL: nothing was written so far */
    size_t tail_size;
    bool tail_cut; /* more was written */
};

struct mst_output {
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows, and of the streams; not held while writing */
    pthread_cond_t drained;
    int bell, epoll; /* the bell has no stream */
    bool label, passes, raw, draining, stopping, echoed;
    uint32_t echoed_to; /* the index */
    struct mst_output_stream *streams;
    struct sink *sinks;
    void (*failed)(void *ctx, int error);
    void *failed_ctx;
    /* Of the thread alone. */
    bool failure_told;
    char in[65536];
};

/* As much as `fd` takes; 0, or the error number. */
static int write_all(int fd, const char *bytes, size_t size, size_t *wrote_out)
{
    *wrote_out = 0;
    while (*wrote_out < size) {
        ssize_t wrote = write(fd, bytes + *wrote_out, size - *wrote_out);

        if (wrote > 0) {
            *wrote_out += (size_t)wrote;
        } else if (wrote == 0) {
            return ENOSPC;
        } else if (errno == EAGAIN) {
            struct pollfd polled = {.fd = fd, .events = POLLOUT};

            (void)poll(&polled, 1, -1);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

/* ---- where lines come out ---- */

/* With the lock held, which is given up while writing: a reader may take its time. */
static void sink_flush(struct sink *sink)
{
    size_t wrote;

    if (sink->size > 0) {
        (void)pthread_mutex_unlock(&sink->output->lock);
        (void)write_all(sink->fd, sink->out, sink->size, &wrote); /* without a reader: dropped */
        sink->size = 0;
        (void)pthread_mutex_lock(&sink->output->lock);
    }
}

static void sink_write(void *ctx, const char *bytes, size_t size)
{
    struct sink *sink = ctx;

    while (size > 0) {
        size_t room = sizeof sink->out - sink->size, part = size < room ? size : room;

        memcpy(sink->out + sink->size, bytes, part);
        sink->size += part;
        bytes += part;
        size -= part;
        if (sink->size == sizeof sink->out) {
            sink_flush(sink);
        }
    }
}

/* What has no size of its own is taken to have the usual one. */
static unsigned rows_of(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
}

/* At the end of a turn: the streams that were read in it are seen at once, and a terminal is drawn
 * once. With the lock held. */
static void sinks_settle(struct mst_output *output)
{
    for (struct sink *sink = output->sinks; sink != NULL; sink = sink->next) {
        if (sink->screen.moves && sink->screen.stale) {
            sink->screen.rows = rows_of(sink->fd);
        }
        mst_screen_settle(&sink->screen);
        sink_flush(sink);
    }
}

static bool moves_cursor(void)
{
    const char *type = getenv("TERM");

    return type != NULL && *type != '\0' && strcmp(type, "dumb") != 0;
}

/* The one that leads where `fd` does, under whichever number or name. With the lock held. NULL: no
 * memory. */
static struct sink *sink_of(struct mst_output *output, int fd)
{
    struct sink *sink;
    struct stat is;
    bool is_terminal;
    unsigned number;

    if (fstat(fd, &is) != 0) {
        is = (struct stat){.st_ino = (ino_t)fd};
    }
    is_terminal = ioctl(fd, TIOCGDEV, &number) == 0;
    if (is_terminal) { /* /dev/tty has a number of its own */
        is = (struct stat){.st_dev = number};
    }
    for (sink = output->sinks; sink != NULL; sink = sink->next) {
        if (sink->device == is.st_dev && sink->file == is.st_ino) {
            return sink;
        }
    }
    sink = malloc(sizeof *sink);
    if (sink != NULL) {
        *sink = (struct sink){.next = output->sinks,
                              .screen = {.moves = is_terminal && !output->passes && moves_cursor(),
                                         .raw = is_terminal && output->raw,
                                         .write = sink_write,
                                         .ctx = sink},
                              .output = output,
                              .fd = fd,
                              .terminal = is_terminal,
                              .device = is.st_dev,
                              .file = is.st_ino};
        output->sinks = sink;
    }
    return sink;
}

/* ---- lines ---- */

static bool printable(char byte)
{
    return (unsigned char)byte > ' ' && byte != 127;
}

static void keep_last(struct mst_output_stream *stream)
{
    const struct mst_screen_line *line = &stream->line;
    size_t from = mst_screen_version(line->text, line->size), size = line->size - from;

    size = size < sizeof stream->last - 1 ? size : sizeof stream->last - 1;
    while (size > 0 && !printable(line->text[from + size - 1])) {
        size--;
    }
    if (size == 0) {
        return; /* an empty line is not kept */
    }
    for (size_t i = 0; i < size; i++) {
        stream->last[i] = line->text[from + i];
        if (!printable(stream->last[i])) {
            stream->last[i] = ' ';
        }
    }
    stream->last[size] = '\0';
}

static void line_ends(struct mst_output_stream *stream)
{
    keep_last(stream);
    if (stream->shown) {
        mst_screen_end(&stream->to->screen, &stream->line);
    }
    stream->line.size = 0;
    stream->shown_at_ns = 0;
}

/* There is no room in the line. That of its older versions is free, else it comes out as it is. */
static void line_full(struct mst_output_stream *stream)
{
    struct mst_screen_line *line = &stream->line;
    size_t from = mst_screen_version(line->text, line->size);

    if (from == 0) {
        line_ends(stream);
        return;
    }
    if (stream->shown) {
        mst_screen_show(&stream->to->screen, line);
    }
    memmove(line->text, line->text + from, line->size - from);
    line->size -= from;
    line->put -= from < line->put ? from : line->put;
}

static void keep_tail(struct mst_output_stream *stream, const char *bytes, size_t size)
{
    const size_t room = MST_OUTPUT_TAIL_MAX;
    size_t last = size < room ? size : room, kept;

    if (stream->tail == NULL) { /* most processes say nothing, and all are kept */
        stream->tail = malloc(room);
    }
    if (stream->tail == NULL) {
        return;
    }
    kept = stream->tail_size < room - last ? stream->tail_size : room - last;
    stream->tail_cut = stream->tail_cut || kept + last < stream->tail_size + size;
    memmove(stream->tail, stream->tail + stream->tail_size - kept, kept);
    memcpy(stream->tail + kept, bytes + size - last, last);
    stream->tail_size = kept + last;
}

static void take(struct mst_output_stream *stream, const char *bytes, size_t size)
{
    struct mst_screen_line *line = &stream->line;

    while (size > 0) {
        const char *end = memchr(bytes, '\n', size);
        size_t part = end != NULL ? (size_t)(end - bytes) : size;
        size_t room = MST_OUTPUT_LINE_MAX - line->size;
        size_t step = part < room ? part : room;

        memcpy(line->text + line->size, bytes, step);
        line->size += step;
        bytes += step;
        size -= step;
        if (step == part && end != NULL) {
            bytes++;
            size--;
            line_ends(stream);
        } else if (line->size == MST_OUTPUT_LINE_MAX) {
            line_full(stream);
        }
    }
    if (line->size > 0 && stream->shown && stream->shown_at_ns == 0) {
        stream->shown_at_ns = mst_system_now_ns() + SHOWN_AFTER_NS;
    }
}

/* It is written past the sinks. With the lock held, which is given up meanwhile. */
static void report_failure(struct mst_output *output, int error)
{
    output->failure_told = true;
    for (struct sink *sink = output->sinks; sink != NULL; sink = sink->next) {
        mst_screen_part(&sink->screen);
        sink_flush(sink);
    }
    (void)pthread_mutex_unlock(&output->lock);
    output->failed(output->failed_ctx, error);
    (void)pthread_mutex_lock(&output->lock);
}

/* Returns what the file took. With the lock held, which is given up while writing, as below. */
static size_t feed_file(struct mst_output *output, struct mst_output_stream *stream, size_t size)
{
    bool failure = false;
    size_t wrote;
    int error;

    (void)pthread_mutex_unlock(&output->lock);
    error = write_all(stream->file, output->in, size, &wrote);
    if (error != 0) {
        (void)close(stream->file);
        stream->file = -1; /* of this thread alone */
        failure = output->failed != NULL && !output->failure_told;
    }
    (void)pthread_mutex_lock(&output->lock);
    if (failure) {
        report_failure(output, error);
    }
    return wrote;
}

static void stream_finish_line(struct mst_output_stream *stream)
{
    if (stream->line.size > 0) {
        line_ends(stream);
    }
}

static void close_files(struct mst_output_stream *stream)
{
    if (stream->from >= 0) {
        (void)close(stream->from);
    }
    if (stream->file >= 0) {
        (void)close(stream->file);
    }
    stream->from = stream->file = -1;
}

static void stream_end(struct mst_output *output, struct mst_output_stream *stream)
{
    stream_finish_line(stream);
    free(stream->line.text);
    stream->line.text = NULL;
    /* Closing is not enough: a child that was just forked may have it too. */
    (void)epoll_ctl(output->epoll, EPOLL_CTL_DEL, stream->from, NULL);
    close_files(stream);
    stream->owed = 0;
}

/* What was read goes where it belongs; from the byte on that a file does not take, it is shown. */
static void stream_take(struct mst_output *output, struct mst_output_stream *stream, size_t size)
{
    size_t filed = 0;

    keep_tail(stream, output->in, size);
    if (stream->passed) {
        mst_screen_pass(&stream->to->screen, &stream->line, output->in, size);
    }
    if (stream->file >= 0) {
        filed = feed_file(output, stream, size);
        take(stream, output->in, filed);
        stream->shown = stream->shown || stream->file < 0;
    }
    take(stream, output->in + filed, size - filed);
}

/* The rank is about to answer, so this comes before what it writes. With the lock held. */
static void echo_on(struct mst_output *output)
{
    for (struct sink *sink = output->sinks; sink != NULL; sink = sink->next) {
        if (sink->terminal) {
            mst_screen_echoed(&sink->screen);
        }
    }
    for (struct mst_output_stream *stream = output->streams; stream != NULL;
         stream = stream->next) {
        bool seen = stream->to->terminal && stream->shown_at_ns == 0;

        if (seen && stream->line.order == output->echoed_to && stream->line.size > 0) {
            keep_last(stream);
            mst_screen_answered(&stream->to->screen, &stream->line);
        }
    }
    output->echoed = false;
}

/* Reads once, which does not block. With the lock held: what is owed is exact. */
static void stream_read(struct mst_output *output, struct mst_output_stream *stream)
{
    ssize_t got;

    if (output->echoed) {
        echo_on(output);
    }
    got = read(stream->from, output->in, sizeof output->in);
    if (got > 0) {
        stream->owed -= (size_t)got < stream->owed ? (size_t)got : stream->owed;
        stream_take(output, stream, (size_t)got);
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        stream_end(output, stream);
    }
}

/* Whether there is something to read; what is under way in a terminal arrives by asking. */
static bool stream_readable(const struct mst_output_stream *stream)
{
    struct pollfd polled = {.fd = stream->from, .events = POLLIN};

    return stream->from >= 0 && poll(&polled, 1, 0) > 0;
}

/* Counts what waits in each stream now as owed. Of a terminal it is only known that it holds so
 * much at most. With the lock held. */
static void streams_owe(struct mst_output *output)
{
    for (struct mst_output_stream *stream = output->streams; stream != NULL;
         stream = stream->next) {
        int waiting = 0;

        if (stream->passed) {
            stream->owed = stream_readable(stream) ? TERMINAL_HOLDS : 0;
        } else if (stream->from >= 0 && ioctl(stream->from, FIONREAD, &waiting) == 0) {
            stream->owed = (size_t)waiting;
        }
    }
}

/* Whether some of what is owed was not read. With the lock held. */
static bool stream_owes(struct mst_output_stream *stream)
{
    if (stream->passed && stream->owed > 0 && !stream_readable(stream)) {
        stream->owed = 0;
    }
    return stream->owed > 0;
}

/* Reads what the others have written so far. With the lock held. */
static void others_read(struct mst_output *output)
{
    streams_owe(output);
    for (struct mst_output_stream *stream = output->streams; stream != NULL;
         stream = stream->next) {
        while (!stream->comments && stream_owes(stream)) {
            stream_read(output, stream);
        }
    }
}

/* Each is read once, as one that has nothing would block. With the lock held. */
static void streams_read(struct mst_output *output, const struct epoll_event *ready, int count)
{
    struct mst_output_stream *comments = NULL;

    for (int i = 0; i < count; i++) {
        struct mst_output_stream *stream = ready[i].data.ptr;

        if (stream == NULL) {
            mst_system_event_quiet(output->bell);
        } else if (stream->comments) {
            comments = stream;
        } else {
            stream_read(output, stream);
        }
    }
    if (comments != NULL) {
        others_read(output);
        stream_read(output, comments);
    }
}

static void stream_free(struct mst_output_stream *stream)
{
    free(stream->tail);
    free(stream->line.text);
    free(stream);
}

/* With the lock held. */
static void streams_forget(struct mst_output *output)
{
    struct mst_output_stream **link = &output->streams;

    while (*link != NULL) {
        struct mst_output_stream *stream = *link;

        if (stream->forgotten && stream->from < 0) {
            *link = stream->next;
            stream_free(stream);
        } else {
            link = &stream->next;
        }
    }
}

/* With the lock held. */
static void drain_on(struct mst_output *output)
{
    struct mst_output_stream *stream;

    for (stream = output->streams; stream != NULL; stream = stream->next) {
        if (stream_owes(stream)) {
            return;
        }
    }
    for (stream = output->streams; stream != NULL; stream = stream->next) {
        stream_finish_line(stream);
    }
    for (struct sink *sink = output->sinks; sink != NULL; sink = sink->next) {
        mst_screen_part(&sink->screen); /* what is passed has no line to finish */
    }
    sinks_settle(output);
    output->draining = false;
    (void)pthread_cond_broadcast(&output->drained);
}

/* Shows what waits no longer for its end. Returns for how long nothing else does, as epoll_wait
 * takes it. With the lock held. */
static int streams_show(struct mst_output *output)
{
    uint64_t now_ns = mst_system_now_ns(), next_ns = UINT64_MAX;

    for (struct mst_output_stream *stream = output->streams; stream != NULL;
         stream = stream->next) {
        if (stream->shown_at_ns != 0 && stream->shown_at_ns <= now_ns) {
            stream->shown_at_ns = 0;
            mst_screen_show(&stream->to->screen, &stream->line);
        } else if (stream->shown_at_ns != 0 && stream->shown_at_ns < next_ns) {
            next_ns = stream->shown_at_ns;
        }
    }
    return next_ns == UINT64_MAX ? -1 : (int)((next_ns - now_ns) / NS_PER_MS) + 1;
}

static void *output_main(void *arg)
{
    struct mst_output *output = arg;

    (void)pthread_mutex_lock(&output->lock);
    while (!output->stopping) {
        struct epoll_event ready[READY_MAX];
        int count, wait_ms;

        streams_forget(output);
        wait_ms = streams_show(output);
        sinks_settle(output);
        (void)pthread_mutex_unlock(&output->lock);
        count = epoll_wait(output->epoll, ready, READY_MAX, wait_ms);
        (void)pthread_mutex_lock(&output->lock);
        streams_read(output, ready, count);
        if (output->echoed) {
            echo_on(output);
        }
        if (output->draining) {
            drain_on(output);
        }
    }
    (void)pthread_mutex_unlock(&output->lock);
    return NULL;
}

static void output_release(struct mst_output *output)
{
    while (output->streams != NULL) {
        struct mst_output_stream *stream = output->streams;

        output->streams = stream->next;
        close_files(stream);
        stream_free(stream);
    }
    while (output->sinks != NULL) {
        struct sink *sink = output->sinks;

        output->sinks = sink->next;
        free(sink);
    }
    if (output->bell >= 0) {
        (void)close(output->bell);
    }
    if (output->epoll >= 0) {
        (void)close(output->epoll);
    }
    free(output);
}

static bool listen_to(const struct mst_output *output, int fd, struct mst_output_stream *stream)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = stream}};

    return epoll_ctl(output->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

muster_status mst_output_new(struct mst_output **out, bool label)
{
    struct mst_output *output = calloc(1, sizeof *output);

    if (output == NULL) {
        return MUSTER_ENOMEM;
    }
    output->label = label;
    output->bell = mst_system_event();
    output->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (output->bell < 0 || !listen_to(output, output->bell, NULL)) {
        output_release(output);
        return MUSTER_ENOMEM;
    }
    (void)pthread_mutex_init(&output->lock, NULL);
    (void)pthread_cond_init(&output->drained, NULL);
    if (mst_thread_start(&output->thread, 0, output_main, output) != 0) {
        output_release(output);
        return MUSTER_EFAILED;
    }
    *out = output;
    return MUSTER_OK;
}

void mst_output_free(struct mst_output *output)
{
    if (output == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&output->lock);
    output->stopping = true;
    (void)pthread_mutex_unlock(&output->lock);
    mst_system_event_ring(output->bell);
    (void)pthread_join(output->thread, NULL);
    (void)pthread_cond_destroy(&output->drained);
    (void)pthread_mutex_destroy(&output->lock);
    output_release(output);
}

void mst_output_on_failure(struct mst_output *output, void (*failed)(void *ctx, int error),
                           void *ctx)
{
    output->failed = failed;
    output->failed_ctx = ctx;
}

/* Reads `from`, which is closed if it fails; so is `file`. -1 with errno. */
static int stream_add(struct mst_output *output, struct mst_output_stream *stream, int from, int to)
{
    stream->from = from;
    stream->line.text = malloc(MST_OUTPUT_LINE_MAX);
    (void)pthread_mutex_lock(&output->lock);
    stream->to = sink_of(output, to);
    if (stream->line.text == NULL || stream->to == NULL || !listen_to(output, from, stream)) {
        (void)pthread_mutex_unlock(&output->lock);
        close_files(stream);
        stream_free(stream);
        return -1;
    }
    stream->next = output->streams;
    output->streams = stream;
    (void)pthread_mutex_unlock(&output->lock);
    return 0;
}

int mst_output_open(struct mst_output *output, uint32_t index, int to, struct mst_output_file file,
                    struct mst_output_stream **out)
{
    struct mst_output_stream *stream = calloc(1, sizeof *stream);
    int ends[2];

    if (stream == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        if (file.fd >= 0) {
            (void)close(file.fd);
        }
        free(stream);
        return -1;
    }
    stream->file = file.fd;
    stream->shown = file.fd < 0 || file.tee;
    stream->line.order = index;
    if (output->label && index != MST_OUTPUT_NO_LABEL) {
        stream->line.label_size = (size_t)snprintf(stream->line.label, sizeof stream->line.label,
                                                   "[%u]: ", (unsigned)index);
    }
    if (stream_add(output, stream, ends[0], to) != 0) {
        (void)close(ends[1]);
        return -1;
    }
    *out = stream;
    return ends[1];
}

void mst_output_pass(struct mst_output *output, bool raw)
{
    output->passes = true;
    output->raw = raw;
}

int mst_output_open_pty(struct mst_output *output, int pty, int to, struct mst_output_stream **out)
{
    struct mst_output_stream *stream = calloc(1, sizeof *stream);

    if (stream == NULL) {
        (void)close(pty);
        return -1;
    }
    stream->file = -1;
    stream->passed = true;
    if (stream_add(output, stream, pty, to) != 0) {
        return -1;
    }
    *out = stream;
    return 0;
}

void mst_output_comments(struct mst_output *output, struct mst_output_stream *stream)
{
    (void)pthread_mutex_lock(&output->lock);
    stream->comments = true;
    (void)pthread_mutex_unlock(&output->lock);
}

void mst_output_forget(struct mst_output *output, struct mst_output_stream *stream)
{
    if (stream != NULL) {
        (void)pthread_mutex_lock(&output->lock);
        stream->forgotten = true;
        (void)pthread_mutex_unlock(&output->lock);
        mst_system_event_ring(output->bell);
    }
}

void mst_output_last(struct mst_output *output, const struct mst_output_stream *stream,
                     char line[MST_OUTPUT_LAST_MAX])
{
    (void)pthread_mutex_lock(&output->lock);
    memcpy(line, stream->last, sizeof stream->last);
    (void)pthread_mutex_unlock(&output->lock);
}

size_t mst_output_tail(struct mst_output *output, const struct mst_output_stream *stream,
                       char tail[MST_OUTPUT_TAIL_MAX])
{
    const char *from, *end;
    size_t size;

    (void)pthread_mutex_lock(&output->lock);
    from = stream->tail;
    size = stream->tail_size;
    end = size > 0 ? memchr(from, '\n', size) : NULL;
    if (stream->tail_cut && end != NULL && (size_t)(end - from) + 1 < size) {
        size -= (size_t)(end - from) + 1; /* what is left of a line is not its beginning */
        from = end + 1;
    }
    if (size > 0) {
        memcpy(tail, from, size);
    }
    (void)pthread_mutex_unlock(&output->lock);
    return size;
}

void mst_output_echoed(struct mst_output *output, uint32_t index)
{
    (void)pthread_mutex_lock(&output->lock);
    output->echoed = true;
    output->echoed_to = index;
    (void)pthread_mutex_unlock(&output->lock);
    mst_system_event_ring(output->bell);
}

void mst_output_drain(struct mst_output *output)
{
    (void)pthread_mutex_lock(&output->lock);
    streams_owe(output);
    output->draining = true;
    mst_system_event_ring(output->bell);
    while (output->draining) {
        (void)pthread_cond_wait(&output->drained, &output->lock);
    }
    (void)pthread_mutex_unlock(&output->lock);
}
