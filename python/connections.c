/* SPDX-License-Identifier: Apache-2.0 */
/* The connections of gloo, for muster/_connections.py. In C, because all ranks look through their
 * descriptors at the same time, several times in each restart, and because the function's thread
 * wants the interpreter's lock meanwhile. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    MUSTER_PYTHON_LOOK_NS = 500000,
    MUSTER_PYTHON_QUIET_LOOKS = 3,
    MUSTER_PYTHON_TAKEN_NS = 10000000 /* a peer that runs has acknowledged it by then */
};

/* A number alone may have been closed, and be another one's by now. */
struct muster_python_socket {
    int number;
    ino_t inode;
    bool sending; /* its epoll is to tell when more can be sent */
};

struct muster_python_sockets {
    struct muster_python_socket *at;
    size_t count, room;
};

/* Those that are not of this attempt, or are shut down already. */
static struct muster_python_sockets muster_python_others;
static pthread_mutex_t muster_python_others_lock = PTHREAD_MUTEX_INITIALIZER;

/* 0, or an errno. */
static int muster_python_note(struct muster_python_sockets *list, struct muster_python_socket one)
{
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        struct muster_python_socket *at = realloc(list->at, room * sizeof(*at));

        if (!at) {
            return ENOMEM;
        }
        list->at = at;
        list->room = room;
    }
    list->at[list->count++] = one;
    return 0;
}

static bool muster_python_is_other(const struct muster_python_socket *one)
{
    for (size_t i = 0; i < muster_python_others.count; i++) {
        const struct muster_python_socket *other = &muster_python_others.at[i];

        if (other->number == one->number && other->inode == one->inode) {
            return true;
        }
    }
    return false;
}

/* Calls visit for each descriptor of this process until it returns an errno. 0, or that. */
static int muster_python_each(int (*visit)(DIR *folder, const char *name,
                                           struct muster_python_sockets *list),
                              struct muster_python_sockets *list)
{
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    int failed = folder ? 0 : errno;

    while (!failed && (entry = readdir(folder))) {
        if (entry->d_name[0] != '.') {
            failed = visit(folder, entry->d_name, list);
        }
    }
    if (folder) {
        (void)closedir(folder);
    }
    return failed;
}

static int muster_python_visit_socket(DIR *folder, const char *name,
                                      struct muster_python_sockets *list)
{
    struct muster_python_socket one = {.number = (int)strtol(name, NULL, 10)};
    struct stat status;

    (void)folder;
    if (fstat(one.number, &status) != 0 || !S_ISSOCK(status.st_mode)) { /* or closed meanwhile */
        return 0;
    }
    one.inode = status.st_ino;
    return muster_python_note(list, one);
}

static int muster_python_option(int number, int option)
{
    int value = -1;
    socklen_t size = sizeof(value);

    (void)getsockopt(number, SOL_SOCKET, option, &value, &size);
    return value;
}

/* Whether a descriptor is that socket, and of TCP. */
static bool muster_python_is_tcp(int number, ino_t inode)
{
    struct stat status;
    int family;

    if (fstat(number, &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_ino != inode) {
        return false;
    }
    family = muster_python_option(number, SO_DOMAIN);
    return (family == AF_INET || family == AF_INET6) &&
           muster_python_option(number, SO_TYPE) == SOCK_STREAM;
}

/* The line `tfd: 5 events: 19 data: 7f pos:0 ino:61af sdev:7` of /proc; false: it is another one.
 */
static bool muster_python_read_line(const char *line, struct muster_python_socket *out)
{
    const char *events = strstr(line, "events:");
    const char *inode = strstr(line, "ino:");

    if (strncmp(line, "tfd:", 4) != 0 || !events || !inode) {
        return false;
    }
    out->number = (int)strtol(line + 4, NULL, 10);
    out->sending = (strtoul(events + 7, NULL, 16) & EPOLLOUT) != 0;
    out->inode = (ino_t)strtoull(inode + 4, NULL, 16);
    return true;
}

/* The connections that an epoll watches, if it watches a listening socket too. */
static int muster_python_read_epoll(FILE *lines, struct muster_python_sockets *list)
{
    size_t before = list->count;
    bool listens = false;
    char line[256];
    int failed = 0;

    while (!failed && fgets(line, sizeof(line), lines)) {
        struct muster_python_socket one;

        if (!muster_python_read_line(line, &one) || !muster_python_is_tcp(one.number, one.inode)) {
            continue;
        }
        if (muster_python_option(one.number, SO_ACCEPTCONN)) {
            listens = true;
        } else if (!muster_python_is_other(&one)) {
            failed = muster_python_note(list, one);
        }
    }
    if (!listens) {
        list->count = before;
    }
    return failed;
}

static int muster_python_visit_epoll(DIR *folder, const char *name,
                                     struct muster_python_sockets *list)
{
    char path[sizeof("/proc/self/fdinfo/") + 20], kind[64];
    ssize_t size = readlinkat(dirfd(folder), name, kind, sizeof(kind) - 1);
    FILE *lines;
    int failed;

    if (size < 0) { /* closed meanwhile */
        return 0;
    }
    kind[size] = 0;
    if (!strstr(kind, "eventpoll")) {
        return 0;
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", name);
    lines = fopen(path, "re");
    if (!lines) {
        return errno == ENOENT ? 0 : errno;
    }
    failed = muster_python_read_epoll(lines, list);
    (void)fclose(lines);
    return failed;
}

/* Whether something is on its way there. What the kernel has taken is so until it is acknowledged,
 * but not for long: for a killed peer that takes 40 ms, or until its memory is freed and its
 * sockets are closed. It arrives also after a shutdown. */
static bool muster_python_is_busy(const struct muster_python_socket *one, int64_t spent_ns)
{
    int read = 0, sent = 0;

    (void)ioctl(one->number, FIONREAD, &read);
    (void)ioctl(one->number, TIOCOUTQ, &sent);
    return one->sending || read || (sent && spent_ns < MUSTER_PYTHON_TAKEN_NS);
}

/* By a second descriptor, which stays this socket while gloo's thread may close its own. */
static bool muster_python_shut(const struct muster_python_socket *one)
{
    int copy = fcntl(one->number, F_DUPFD_CLOEXEC, 0);

    if (copy < 0) { /* closed meanwhile, or there are too many */
        return false;
    }
    if (muster_python_is_tcp(copy, one->inode) && !muster_python_option(copy, SO_ACCEPTCONN)) {
        (void)shutdown(copy, SHUT_RDWR);
    }
    (void)close(copy);
    return true;
}

static int64_t muster_python_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits a moment for what is on its way, and gives the connections that there are then. A rank that
 * has half sent a piece when its connection ends is held by gloo until the group's time-out: gloo
 * does not tell who waits for that (waitSend). All ranks that are alive take what is sent to them,
 * so the moment is short. */
static int muster_python_drained(struct muster_python_sockets *list, int64_t limit_ns)
{
    const struct timespec pause = {.tv_nsec = MUSTER_PYTHON_LOOK_NS};
    int64_t began = muster_python_now_ns();

    for (int quiet = 0;;) {
        int64_t spent = muster_python_now_ns() - began;
        bool busy = false;
        int failed;

        list->count = 0;
        failed = muster_python_each(muster_python_visit_epoll, list);
        if (failed || list->count == 0 || quiet == MUSTER_PYTHON_QUIET_LOOKS || spent >= limit_ns) {
            return failed;
        }
        for (size_t i = 0; i < list->count && !busy; i++) {
            busy = muster_python_is_busy(&list->at[i], spent);
        }
        quiet = busy ? 0 : quiet + 1;
        (void)ppoll(NULL, 0, &pause, NULL);
    }
}

/* What is open now is not of this attempt. 0, or an errno. */
static int muster_python_connections_begin(void)
{
    int failed;

    (void)pthread_mutex_lock(&muster_python_others_lock);
    muster_python_others.count = 0;
    failed = muster_python_each(muster_python_visit_socket, &muster_python_others);
    (void)pthread_mutex_unlock(&muster_python_others_lock);
    return failed;
}

/* Each connection of this attempt once. Never a listening socket: gloo ends the process when its
 * accept() fails. drain_ns: at most, for what is on its way. 0, or an errno. */
static int muster_python_connections_shut_down(int64_t drain_ns)
{
    struct muster_python_sockets list = {0};
    int failed;

    (void)pthread_mutex_lock(&muster_python_others_lock);
    failed = muster_python_drained(&list, drain_ns);
    for (size_t i = 0; i < list.count; i++) {
        if (muster_python_shut(&list.at[i])) {
            (void)muster_python_note(&muster_python_others, list.at[i]); /* else: shut again */
        }
    }
    (void)pthread_mutex_unlock(&muster_python_others_lock);
    free(list.at);
    return failed;
}
