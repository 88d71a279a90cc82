/* SPDX-License-Identifier: Apache-2.0 */
/* What the binding has in C beside the public headers: it becomes part of the generated source. */
#include <stdio.h>
#include <sys/socket.h>

typedef void muster_python_log_fn(void *ctx, enum muster_level level, const char *line);
typedef void muster_python_crash_fn(void *ctx, const char *line);

/* The library tells its lines on whatever thread drives the connection, and that must not wait for
 * the interpreter, which a computation may hold for longer than a lease. So a line goes into a
 * socket, one message each, and a thread of Python reads them. If it falls far behind, lines are
 * lost. */
static void muster_python_log(void *ctx, enum muster_level level, const char *line)
{
    char message[1024];
    int size = snprintf(message, sizeof(message), "%d%s", (int)level, line);

    if (size >= (int)sizeof(message)) {
        size = (int)sizeof(message) - 1;
    }
    if (size > 0) {
        (void)!send((int)(intptr_t)ctx, message, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

static muster_python_log_fn *muster_python_log_address(void)
{
    return muster_python_log;
}

/* The process ends with the return: no thread of Python will tell the line. */
static void muster_python_crash(void *ctx, const char *line)
{
    (void)ctx;
    (void)fprintf(stderr, "%s\n", line);
    (void)fflush(stderr);
}

static muster_python_crash_fn *muster_python_crash_address(void)
{
    return muster_python_crash;
}
