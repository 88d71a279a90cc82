/* SPDX-License-Identifier: Apache-2.0 */

/* A program that uses the library while somebody attacks its connection, its memory or its
 * descriptors. It does what the lines of its stdin say, and says of each in one line what became of
 * it, the status first:
 *
 *   session NAME  open, add 1 to NAME, append "x" to log-NAME, wait for answer-NAME, close
 *   open INDEX    as a rank of a job of one, or an observer (-1), and stay open
 *   reach MS      open as an observer within so many milliseconds
 *   put KEY       write it
 *   get KEY       look whether it is there
 *   barrier NAME  of itself
 *   restart       run a function that restarts once
 *   starve        take every descriptor that is left
 *   feed [N]      give back N of them, or all
 *   alone         open, as a job of one where no MUSTER_ADDR is set
 *   preempt       take SIGTERM as a notice
 *   forget        close every descriptor but the standard streams, whose ever they are
 *   occupy        open a file at each number up to 64 that is free now
 *   check         whether each of those is open and as it was
 *   raise         SIGTERM, which comes to this thread
 *   cpu           how many ms of processor time the process has used
 *   close
 *
 *   attacked [ORDER,ORDER...]   without stdin, these orders */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "muster/muster.h"

enum { TAKEN_MAX = 4096, OWN_MAX = 64, TIMEOUT_MS = 20000 };

static muster_client *client;
static muster_preempt *preempt;
static struct muster_error err;
static int taken[TAKEN_MAX];
static int taken_count;

static void say(muster_status status, const char *more)
{
    (void)printf("%s %s\n", muster_status_name(status) + strlen("MUSTER_"),
                 status == MUSTER_OK ? more : err.text);
    (void)fflush(stdout);
}

static muster_status open_as(int32_t index, int64_t timeout_ms)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;

    if (index < 0) {
        options.role = MUSTER_ROLE_OBSERVER;
    } else {
        options.index = index;
        options.size_of_job = 1;
    }
    return muster_client_open(&client, &options, timeout_ms, &err);
}

static struct muster_slice slice_of(const char *text)
{
    return (struct muster_slice){text, strlen(text)};
}

/* ---- one whole session ---- */

static muster_status talk(const char *name, char *said, size_t room)
{
    char log[80], answer[80];
    muster_value *value = NULL;
    uint64_t size = 0;
    int64_t sum = 0;
    muster_status status = muster_key_add(client, name, 1, NULL, TIMEOUT_MS, &sum, &err);

    (void)snprintf(log, sizeof log, "log-%s", name);
    (void)snprintf(answer, sizeof answer, "answer-%s", name);
    if (status == MUSTER_OK) {
        status = muster_key_append(client, log, slice_of("x"), NULL, TIMEOUT_MS, &size, &err);
    }
    if (status == MUSTER_OK) {
        status = muster_key_get(client, answer, NULL, TIMEOUT_MS, &value, &err);
    }
    if (status == MUSTER_OK) {
        (void)snprintf(said, room, "%" PRId64 " %" PRIu64 " %.*s", sum, size,
                       (int)muster_value_size(value), (const char *)muster_value_data(value));
    }
    muster_value_free(value);
    return status;
}

static void whole_session(const char *name)
{
    char said[128] = "";
    muster_status status = open_as(-1, TIMEOUT_MS);

    if (status == MUSTER_OK) {
        status = talk(name, said, sizeof said);
        muster_client_close(client);
        client = NULL;
    }
    say(status, said);
}

/* ---- a restart ---- */

static muster_status restart_once(muster_restart *restart, void *arg)
{
    struct muster_view view;
    int *entered = arg;

    muster_restart_view(restart, &view);
    ++*entered;
    if (view.iteration == 0) {
        return muster_restart_fail(restart, 7, "once");
    }
    return muster_restart_check(restart);
}

static void run_restart(void)
{
    char said[32];
    int entered = 0;
    muster_status status = muster_restart_run(client, NULL, restart_once, &entered, &err);

    (void)snprintf(said, sizeof said, "entered %d", entered);
    say(status, said);
}

/* ---- descriptors ---- */

static void starve(void)
{
    char said[64];
    int fd;

    while (taken_count < TAKEN_MAX && (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) {
        taken[taken_count++] = fd;
    }
    (void)snprintf(said, sizeof said, "%s", strerror(errno));
    say(MUSTER_OK, said);
}

static void feed(const char *what)
{
    long count = *what != '\0' ? strtol(what, NULL, 10) : TAKEN_MAX;

    while (taken_count > 0 && count-- > 0) {
        (void)close(taken[--taken_count]);
    }
    say(MUSTER_OK, "");
}

static const char content[] = "what the program wrote";
static ino_t own[OWN_MAX]; /* its file at that number; 0: none */

static void occupy(void)
{
    struct stat status;
    int fd;

    while ((fd = memfd_create("own", MFD_CLOEXEC)) >= 0 && fd < OWN_MAX) {
        if (write(fd, content, sizeof content) == sizeof content && lseek(fd, 0, SEEK_SET) == 0 &&
            fstat(fd, &status) == 0) {
            own[fd] = status.st_ino;
        }
    }
    (void)close(fd);
    say(MUSTER_OK, "");
}

/* Neither read nor written: the position and the size tell. */
static bool is_untouched(int fd)
{
    char bytes[sizeof content + 1];
    struct stat status;

    return fstat(fd, &status) == 0 && status.st_ino == own[fd] && lseek(fd, 0, SEEK_CUR) == 0 &&
           pread(fd, bytes, sizeof bytes, 0) == sizeof content &&
           memcmp(bytes, content, sizeof content) == 0;
}

static void check(void)
{
    for (int fd = 0; fd < OWN_MAX; fd++) {
        if (own[fd] != 0 && !is_untouched(fd)) {
            (void)snprintf(err.text, sizeof err.text, "the program's descriptor %d", fd);
            say(MUSTER_EINTERNAL, "");
            return;
        }
    }
    say(MUSTER_OK, "");
}

static void say_cpu(void)
{
    struct rusage usage;
    char said[32];

    (void)getrusage(RUSAGE_SELF, &usage);
    (void)snprintf(said, sizeof said, "%ld",
                   (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
                       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000);
    say(MUSTER_OK, said);
}

/* ---- orders ---- */

static void obey(const char *order, const char *what)
{
    if (strcmp(order, "session") == 0) {
        whole_session(what);
    } else if (strcmp(order, "open") == 0) {
        say(open_as((int32_t)strtol(what, NULL, 10), TIMEOUT_MS), "");
    } else if (strcmp(order, "alone") == 0) {
        say(muster_client_open(&client, NULL, TIMEOUT_MS, &err), "");
    } else if (strcmp(order, "reach") == 0) {
        say(open_as(-1, strtol(what, NULL, 10)), "");
    } else if (strcmp(order, "starve") == 0) {
        starve();
    } else if (strcmp(order, "feed") == 0) {
        feed(what);
    } else if (strcmp(order, "forget") == 0) {
        closefrom(STDERR_FILENO + 1);
        say(MUSTER_OK, "");
    } else if (strcmp(order, "occupy") == 0) {
        occupy();
    } else if (strcmp(order, "check") == 0) {
        check();
    } else if (strcmp(order, "raise") == 0) {
        (void)raise(SIGTERM);
        say(MUSTER_OK, "");
    } else if (strcmp(order, "cpu") == 0) {
        say_cpu();
    } else if (!client) {
        (void)snprintf(err.text, sizeof err.text, "there is no client");
        say(MUSTER_EINVAL, "");
    } else if (strcmp(order, "put") == 0) {
        say(muster_key_put(client, what, slice_of("v"), NULL, TIMEOUT_MS, NULL, &err), "");
    } else if (strcmp(order, "get") == 0) {
        muster_value *value = NULL;
        muster_status status = muster_key_get(client, what, NULL, 0, &value, &err);

        muster_value_free(value);
        say(status, "");
    } else if (strcmp(order, "barrier") == 0) {
        say(muster_barrier_wait(client, what, TIMEOUT_MS, &err), "");
    } else if (strcmp(order, "preempt") == 0) {
        say(muster_preempt_open(&preempt, client, NULL, &err), "");
    } else if (strcmp(order, "restart") == 0) {
        run_restart();
    } else if (strcmp(order, "close") == 0) {
        muster_preempt_close(preempt);
        preempt = NULL;
        muster_client_close(client);
        client = NULL;
        say(MUSTER_OK, "");
    }
}

static void obey_line(char *line)
{
    char *what = strchr(line, ' ');

    if (what) {
        *what++ = '\0';
    }
    obey(line, what ? what : "");
}

int main(int count, char **arguments)
{
    static char room[BUFSIZ];
    char line[256];

    (void)setvbuf(stdout, room, _IOFBF, sizeof room); /* nothing of it is asked of malloc */
    if (count > 1) {
        char *rest = arguments[1];
        char *order;

        while ((order = strsep(&rest, ","))) {
            obey_line(order);
        }
    } else {
        while (fgets(line, sizeof line, stdin)) {
            line[strcspn(line, "\n")] = '\0';
            obey_line(line);
        }
    }
    muster_client_close(client);
    return 0;
}
