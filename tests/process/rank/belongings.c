/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "belongings.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* For a thread to leave the kernel. */
enum { PATIENCE_MS = 5000, MOMENT_NS = 1000000 };
/* SA_RESTORER: the C library's, in whatever it was that set the action. */
enum { OWN_FLAG = 0x04000000 };

/* Appends as printf. */
#define ADD(out, ...)                                                                              \
    ((void)snprintf((out)->text + strlen((out)->text), sizeof((out)->text) - strlen((out)->text),  \
                    __VA_ARGS__))

static int by_number(const struct dirent **a, const struct dirent **b)
{
    return (int)(strtol((*a)->d_name, NULL, 10) - strtol((*b)->d_name, NULL, 10));
}

static int a_number(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

#ifdef __SANITIZE_THREAD__
static void *nothing(void *arg)
{
    return arg;
}

/* The sanitizer has a thread of its own, which comes with the first one of the program. */
static void have_all_threads(void)
{
    static bool there;
    pthread_t thread;

    if (!there && pthread_create(&thread, NULL, nothing, NULL) == 0) {
        there = pthread_join(thread, NULL) == 0;
    }
}
#else
static void have_all_threads(void)
{
}
#endif

static void note_threads(struct belongings *out)
{
    struct dirent **list;
    int count = scandir("/proc/self/task", &list, a_number, by_number);

    ADD(out, "%d threads\n", count);
    for (int i = 0; i < count; i++) {
        free(list[i]);
    }
    free(list);
}

static void note_descriptors(struct belongings *out)
{
    struct dirent **list;
    int count = scandir("/proc/self/fd", &list, a_number, by_number);

    for (int i = 0; i < count; i++) {
        char path[300], link[256];
        ssize_t size;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%s", list[i]->d_name);
        size = readlink(path, link, sizeof(link) - 1);
        if (size > 0) { /* else it was scandir's own */
            link[size] = '\0';
            ADD(out, "descriptor %s is %s\n", list[i]->d_name, link);
        }
        free(list[i]);
    }
    free(list);
}

/* The lines of a file of /proc that hold one of these words. */
static void note_lines(struct belongings *out, const char *path, const char *const *words)
{
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "re");

    while (file && getline(&line, &size, file) > 0) {
        for (const char *const *word = words; *word; word++) {
            if (strstr(line, *word)) {
                ADD(out, "%s", line);
                break;
            }
        }
    }
    free(line);
    if (file) {
        (void)fclose(file);
    }
}

static void note_children(struct belongings *out)
{
    char path[64];
    char line[1024];
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    file = fopen(path, "re");
    line[0] = '\0';
    if (file) {
        if (!fgets(line, sizeof(line), file)) {
            line[0] = '\0';
        }
        (void)fclose(file);
    }
    ADD(out, "children: %s\n", line);
}

static void note_signals(struct belongings *out)
{
    sigset_t blocked;

    (void)sigprocmask(SIG_SETMASK, NULL, &blocked);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0) { /* two are the C library's own */
            uintptr_t handler = (uintptr_t)action.sa_handler;

            ADD(out, "signal %d is for %#" PRIxPTR " with %#x, %s\n", number, handler,
                (unsigned)action.sa_flags & ~(unsigned)OWN_FLAG,
                sigismember(&blocked, number) == 1 ? "blocked" : "open");
        }
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What is taken out and put back stands elsewhere afterwards. */
static void note_environment(struct belongings *out)
{
    size_t count = 0;
    char **sorted;

    while (environ[count]) {
        count++;
    }
    sorted = malloc((count + 1) * sizeof(*sorted));
    if (!sorted) {
        return;
    }
    memcpy(sorted, environ, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_text);
    for (size_t i = 0; i < count; i++) {
        ADD(out, "variable %s\n", sorted[i]);
    }
    free(sorted);
}

void belongings_note(struct belongings *out)
{
    static const char *const shared[] = {"memfd:", "/dev/shm/", "/SYSV", NULL};

    out->text[0] = '\0';
    have_all_threads();
    note_threads(out);
    note_descriptors(out);
    note_children(out);
    note_signals(out);
    note_lines(out, "/proc/self/maps", shared);
    note_environment(out);
}

bool belongings_children_are(const struct belongings *before)
{
    static struct belongings now;
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    const char *children = strstr(before->text, "children: ");

    for (int i = 0; children && i < PATIENCE_MS; i++) {
        now.text[0] = '\0';
        note_children(&now);
        if (strncmp(children, now.text, strlen(now.text)) == 0) {
            return true;
        }
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    return false;
}

bool belongings_are(const struct belongings *before, char *text, size_t size)
{
    static struct belongings now;
    const struct timespec moment = {.tv_nsec = MOMENT_NS};
    const char *was = before->text;
    const char *is = now.text;

    text[0] = '\0';
    for (int i = 0; i < PATIENCE_MS; i++) {
        belongings_note(&now);
        if (strcmp(now.text, before->text) == 0) {
            return true;
        }
        (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
    }
    while (*was == *is) {
        was++;
        is++;
    }
    while (was > before->text && was[-1] != '\n') {
        was--;
        is--;
    }
    (void)snprintf(text, size, "was '%.*s', is '%.*s'", (int)strcspn(was, "\n"), was,
                   (int)strcspn(is, "\n"), is);
    return false;
}
