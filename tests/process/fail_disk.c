/* SPDX-License-Identifier: Apache-2.0 */

/* Loaded before a service: its disk fails as the first word in the file that FAIL_DISK names says,
 * while there is one:
 *
 *   write   nothing can be written any more
 *   sync    what was written does not reach the disk
 *   stop    the process stops where it would give a finished snapshot its name
 *   record  no record can be written any more
 *   gate    a record is written when somebody opens the FIFO that FAIL_DISK_GATE names to write */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool told_to(const char *what)
{
    const char *path = getenv("FAIL_DISK");
    char word[16] = "";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0) {
        return false;
    }
    (void)!read(fd, word, sizeof word - 1);
    (void)close(fd);
    return strncmp(word, what, strlen(what)) == 0;
}

static bool is_record(int fd)
{
    static const char ending[] = ".record";
    char link[64], name[4096];
    ssize_t size;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, name, sizeof name - 1);
    return size >= (ssize_t)sizeof ending &&
           memcmp(name + size - (sizeof ending - 1), ending, sizeof ending - 1) == 0;
}

static void wait_at_gate(void)
{
    const char *gate = getenv("FAIL_DISK_GATE");
    int fd = gate ? open(gate, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        (void)close(fd);
    }
}

__attribute__((visibility("default"))) int fdatasync(int fd);
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *data, size_t size,
                                                      off_t offset);
__attribute__((visibility("default"))) int renameat(int from, const char *name, int to,
                                                    const char *new_name);

int fdatasync(int fd)
{
    if (told_to("sync")) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    if (told_to("write") || (told_to("record") && is_record(fd))) {
        errno = EIO;
        return -1;
    }
    if (told_to("gate") && is_record(fd)) {
        wait_at_gate();
    }
    return syscall(SYS_pwrite64, fd, data, size, offset);
}

int renameat(int from, const char *name, int to, const char *new_name)
{
    if (told_to("stop")) {
        (void)raise(SIGSTOP);
    }
    return (int)syscall(SYS_renameat, from, name, to, new_name);
}
