/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator under a test's orders: lines on stdin, `TAG COMMAND WORD...` with tabs between,
 * each answered by one line on stdout, `TAG STATUS WORD...`. A command whose tag begins with `&`
 * runs on a thread of its own, so that others go on meanwhile.
 *
 *   schedule NAME FUNCTION [KEY=VALUE...] [-- ARGUMENT...]   retries, run, total, start, once,
 *                                                            idempotent, version, group, need=VALUE
 *                                                            an argument %...: bytes as %NN,
 *                                                            %<...: the standard input
 *   fetch NAME MS | lend NAME FILE | wait NAME MS | failure NAME | cancel NAME | release NAME
 *   join MS | done | failures | counts | worker NUMBER | drain-worker NUMBER | drain MS
 *   dataset NAME FUNCTION [-- ARGUMENT...] | iterate NAME DATASET
 *   value NAME FUNCTION [eager] [-- ARGUMENT...] | drop NAME | state NAME | cancel-all
 *   cancel-group N | close | exit-code | policy... (by the environment: MUSTER_CLUSTER_POLICY)
 *
 * It says "open TERM" when it is the coordinator, and ends at the end of its input, without closing
 * what is open unless it was told to. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <muster/cluster.h>
#include <muster/muster.h>
#include <muster/worker.h>

enum { WORDS_MAX = 64, NAMED_MAX = 8192, NAME_ROOM = 32, PLACE = 1000 };

struct named {
    char name[NAME_ROOM];
    muster_closure *closure;
    muster_per_worker *value;
    muster_dataset *dataset;
};

struct command {
    char *line;
    char *word[WORDS_MAX];
    int count;
};

static muster_cluster *cluster;
static struct named named[NAMED_MAX];
static size_t named_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic muster_status last_status; /* of what was delivered */

static void answer(const struct command *command, muster_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void answer(const struct command *command, muster_status status, const char *format, ...)
{
    va_list list;
    (void)pthread_mutex_lock(&lock);
    printf("%s\t%s\t", command->word[0], muster_status_name(status));
    va_start(list, format);
    (void)vprintf(format, list);
    va_end(list);
    printf("\n");
    (void)fflush(stdout);
    (void)pthread_mutex_unlock(&lock);
}

static struct named *find(const char *name)
{
    struct named *found = NULL;
    (void)pthread_mutex_lock(&lock);
    for (size_t i = named_count; found == NULL && i > 0; i--) {
        found = strcmp(named[i - 1].name, name) == 0 ? &named[i - 1] : NULL;
    }
    (void)pthread_mutex_unlock(&lock);
    if (found == NULL) {
        (void)fprintf(stderr, "driver: nothing is named %s\n", name);
        exit(2);
    }
    return found;
}

/* A name that was given before means the newest: so there is no limit to how often one is given. */
static void name_it(const char *name, muster_closure *closure, muster_per_worker *value)
{
    muster_closure *old = NULL;
    size_t at = 0;
    (void)pthread_mutex_lock(&lock);
    while (at < named_count && strcmp(named[at].name, name) != 0) {
        at++;
    }
    if (at == NAMED_MAX) {
        (void)fprintf(stderr, "driver: too many names\n");
        exit(2);
    }
    if (at < named_count) {
        old = named[at].closure;
    }
    named_count += at == named_count;
    (void)snprintf(named[at].name, sizeof named[at].name, "%s", name);
    named[at].closure = closure;
    named[at].value = value;
    (void)pthread_mutex_unlock(&lock);
    muster_closure_release(old);
}

static const char *word_of(const struct command *command, int at)
{
    return at < command->count ? command->word[at] : "";
}

static int64_t number_of(const struct command *command, int at)
{
    return strtoll(word_of(command, at), NULL, 10);
}

/* "%..." has its bytes as %NN, "%<..." is the standard input of a command. In place. */
static struct muster_part part_of(char *word)
{
    struct muster_part part = {.data = word, .size = strlen(word)};
    if (word[0] != '%') {
        return part;
    }
    part.type = word[1] == '<' ? MUSTER_PART_STDIN : 0;
    char *to = word;
    for (const char *from = word + (part.type != 0 ? 2 : 1); *from != '\0'; from++) {
        char digits[3] = {0};
        if (*from == '%') {
            memcpy(digits, from + 1, 2);
            from += 2;
        }
        if (digits[0] != '\0') {
            const unsigned char byte = (unsigned char)strtoul(digits, NULL, 16);
            memcpy(to++, &byte, 1);
        } else {
            *to++ = *from;
        }
    }
    part.size = (size_t)(to - word);
    return part;
}

/* What stands behind "--"; returns where that is, or the end. */
static int parts_of(const struct command *command, struct muster_part *part, size_t *count)
{
    int at = 0;
    while (at < command->count && strcmp(command->word[at], "--") != 0) {
        at++;
    }
    *count = 0;
    for (int i = at + 1; i < command->count; i++) {
        part[(*count)++] = part_of(command->word[i]);
    }
    return at;
}

static void option(struct muster_closure_options *options, muster_per_worker **needs,
                   const char *word)
{
    const char *value = strchr(word, '=');
    const size_t size = value != NULL ? (size_t)(value - word) : strlen(word);
    const int64_t number = value != NULL ? strtoll(value + 1, NULL, 10) : 1;
    if (strncmp(word, "need", size) == 0 && value != NULL) {
        needs[options->need_count++] = find(value + 1)->value;
        options->needs = needs;
    } else if (strncmp(word, "retries", size) == 0) {
        options->error_retries = (int32_t)number;
    } else if (strncmp(word, "crashes", size) == 0) {
        options->crash_retries = (int32_t)number;
    } else if (strncmp(word, "exhausted", size) == 0) {
        options->exhausted_retries = (int32_t)number;
    } else if (strncmp(word, "run", size) == 0) {
        options->run_ms = number;
    } else if (strncmp(word, "total", size) == 0) {
        options->total_ms = number;
    } else if (strncmp(word, "start", size) == 0) {
        options->start_ms = number;
    } else if (strncmp(word, "version", size) == 0) {
        options->version = (uint32_t)number;
    } else if (strncmp(word, "group", size) == 0) {
        options->group = (uint64_t)number;
    } else if (strncmp(word, "once", size) == 0) {
        options->once = true;
    } else if (strncmp(word, "idempotent", size) == 0) {
        options->idempotent = true;
    } else {
        (void)fprintf(stderr, "driver: no option %s\n", word);
        exit(2);
    }
}

static void schedule(const struct command *command, struct muster_error *err)
{
    struct muster_closure_options options = MUSTER_CLOSURE_OPTIONS_INIT;
    muster_per_worker *needs[WORDS_MAX];
    struct muster_part part[WORDS_MAX];
    muster_closure *closure = NULL;
    size_t count = 0;
    const int end = parts_of(command, part, &count);
    for (int i = 4; i < end; i++) {
        option(&options, needs, command->word[i]);
    }
    muster_status status = muster_cluster_schedule(cluster, word_of(command, 3), part, count,
                                                   &options, -1, &closure, err);
    if (status == MUSTER_OK) {
        name_it(word_of(command, 2), closure, NULL);
    }
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void fetch(const struct command *command, struct muster_error *err)
{
    const struct muster_part *part = NULL;
    size_t count = 0;
    char text[512] = "";
    size_t size = 0;
    muster_status status = muster_closure_fetch(find(word_of(command, 2))->closure,
                                                number_of(command, 3), &part, &count, err);
    for (size_t i = 0; status == MUSTER_OK && i < count; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%.*s", i > 0 ? "\t" : "",
                                 (int)(part[i].size < 200 ? part[i].size : 200),
                                 (const char *)part[i].data);
    }
    answer(command, status, "%s", status == MUSTER_OK ? text : err->text);
}

/* What fetch lends, whatever it says, as one file; beside it the types. */
static void lend(const struct command *command, struct muster_error *err)
{
    const struct muster_part *part = NULL;
    size_t count = 0;
    char types[256] = "";
    size_t size = 0;
    FILE *file = fopen(word_of(command, 3), "w");
    muster_status status =
        muster_closure_fetch(find(word_of(command, 2))->closure, -1, &part, &count, err);
    for (size_t i = 0; file != NULL && i < count; i++) {
        (void)fwrite(part[i].data, 1, part[i].size, file);
        size += (size_t)snprintf(types + size, sizeof types - size, "%s%" PRIu32, i > 0 ? "\t" : "",
                                 part[i].type);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    answer(command, status, "%s", types);
}

static const char *const origins[] = {"none",    "function",  "crash",    "lost",      "state",
                                      "input",   "cancelled", "deadline", "exhausted", "poison",
                                      "unknown", "argument",  "internal", "returned",  "retryable"};

static void failure(const struct command *command, struct muster_error *err)
{
    struct muster_failure why;
    (void)err;
    if (!muster_closure_failure(find(word_of(command, 2))->closure, &why)) {
        answer(command, MUSTER_MORE, "%s", "");
        return;
    }
    answer(command, MUSTER_OK, "%s\t%" PRId32 "\t%" PRIu32 "\t%s\t%s", origins[why.origin],
           why.code, why.attempt, why.text, why.cause != NULL ? origins[why.cause->origin] : "");
}

static void wait_for(const struct command *command, struct muster_error *err)
{
    muster_status status =
        muster_closure_wait(find(word_of(command, 2))->closure, number_of(command, 3), err);
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void cancel(const struct command *command, struct muster_error *err)
{
    (void)err;
    muster_closure_cancel(find(word_of(command, 2))->closure);
    answer(command, MUSTER_OK, "%s", "");
}

static void join(const struct command *command, struct muster_error *err)
{
    muster_status status = muster_cluster_join(cluster, number_of(command, 2), err);
    last_status = status;
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void done(const struct command *command, struct muster_error *err)
{
    bool all = false;
    muster_status status = muster_cluster_done(cluster, &all, err);
    answer(command, status, "%s", status != MUSTER_OK ? err->text : all ? "yes" : "no");
}

static void failures(const struct command *command, struct muster_error *err)
{
    struct muster_failures *all = muster_cluster_failures(cluster);
    (void)err;
    answer(command, MUSTER_OK, "%" PRIu64 "\t%s", all != NULL ? all->count : 0,
           all != NULL && all->kept > 0 ? origins[all->items[0].origin] : "");
    muster_failures_free(all);
}

static void counts(const struct command *command, struct muster_error *err)
{
    struct muster_cluster_counts now = MUSTER_CLUSTER_COUNTS_INIT;
    (void)err;
    muster_cluster_look(cluster, &now);
    answer(command, MUSTER_OK,
           "queued=%" PRIu64 "\trunning=%" PRIu64 "\tvalues=%" PRIu64 "\tfailures=%" PRIu64
           "\tcancelled=%" PRIu64 "\tretried=%" PRIu64 "\tput_back=%" PRIu64 "\tlate=%" PRIu64
           "\tpresent=%" PRIu32 "\tworkers=%" PRIu32 "\toldest_ms=%" PRId64 "\twaits=%s",
           now.queued, now.running, now.values, now.failures, now.cancelled, now.retried,
           now.put_back, now.late, now.workers_present, now.workers, now.oldest_ms,
           now.oldest_waits);
}

static void look_at_worker(const struct command *command, struct muster_error *err)
{
    struct muster_cluster_worker worker = MUSTER_CLUSTER_WORKER_INIT;
    (void)err;
    if (!muster_cluster_look_worker(cluster, (uint32_t)number_of(command, 2), &worker)) {
        answer(command, MUSTER_ENOTFOUND, "%s", "");
        return;
    }
    answer(command, MUSTER_OK,
           "index=%" PRIu32 "\tpid=%" PRIu64 "\tstate=%d\trunning=%" PRIu32 "\tlosses=%" PRIu32
           "\tdone=%" PRIu64,
           worker.index, worker.pid, (int)worker.state, worker.running, worker.losses, worker.done);
}

static void drain_worker(const struct command *command, struct muster_error *err)
{
    muster_status status =
        muster_cluster_drain_worker(cluster, (uint32_t)number_of(command, 2), err);
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void drain(const struct command *command, struct muster_error *err)
{
    muster_status status = muster_cluster_drain(cluster, number_of(command, 2), err);
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void value(const struct command *command, struct muster_error *err)
{
    struct muster_per_worker_options options = MUSTER_PER_WORKER_OPTIONS_INIT;
    struct muster_part part[WORDS_MAX];
    muster_per_worker *made = NULL;
    size_t count = 0;
    const int end = parts_of(command, part, &count);
    options.eager = end > 4 && strcmp(command->word[4], "eager") == 0;
    muster_status status =
        muster_cluster_per_worker(cluster, word_of(command, 3), part, count, &options, &made, err);
    if (status == MUSTER_OK) {
        name_it(word_of(command, 2), NULL, made);
    }
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void dataset(const struct command *command, struct muster_error *err)
{
    struct muster_part part[WORDS_MAX];
    muster_dataset *made = NULL;
    size_t count = 0;
    (void)parts_of(command, part, &count);
    muster_status status =
        muster_cluster_dataset(cluster, word_of(command, 3), part, count, NULL, &made, err);
    if (status == MUSTER_OK) {
        name_it(word_of(command, 2), NULL, NULL);
        find(word_of(command, 2))->dataset = made;
    }
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void iterate(const struct command *command, struct muster_error *err)
{
    muster_per_worker *made = NULL;
    muster_status status = muster_dataset_iterate(find(word_of(command, 3))->dataset, &made, err);
    if (status == MUSTER_OK) {
        name_it(word_of(command, 2), NULL, made);
    }
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void state(const struct command *command, struct muster_error *err)
{
    muster_status status = muster_cluster_state_server(cluster, word_of(command, 2), err);
    answer(command, status, "%s", status == MUSTER_OK ? "" : err->text);
}

static void others(const struct command *command, struct muster_error *err)
{
    const char *what = word_of(command, 1);
    (void)err;
    if (strcmp(what, "release") == 0) {
        muster_closure_release(find(word_of(command, 2))->closure);
    } else if (strcmp(what, "drop") == 0) {
        muster_per_worker_drop(find(word_of(command, 2))->value);
    } else if (strcmp(what, "cancel-all") == 0) {
        muster_cluster_cancel_all(cluster);
    } else if (strcmp(what, "cancel-group") == 0) {
        muster_cluster_cancel_group(cluster, (uint64_t)number_of(command, 2));
    } else if (strcmp(what, "close") == 0) {
        muster_cluster_close(cluster);
    } else if (strcmp(what, "exit-code") == 0) {
        answer(command, MUSTER_OK, "%d", muster_cluster_exit_code(last_status));
        return;
    } else {
        (void)fprintf(stderr, "driver: no command %s\n", what);
        exit(2);
    }
    answer(command, MUSTER_OK, "%s", "");
}

static const struct {
    const char *name;
    void (*run)(const struct command *command, struct muster_error *err);
} commands[] = {{"schedule", schedule},
                {"fetch", fetch},
                {"lend", lend},
                {"failure", failure},
                {"wait", wait_for},
                {"cancel", cancel},
                {"join", join},
                {"done", done},
                {"failures", failures},
                {"counts", counts},
                {"worker", look_at_worker},
                {"drain", drain},
                {"drain-worker", drain_worker},
                {"value", value},
                {"dataset", dataset},
                {"iterate", iterate},
                {"state", state}};

static void *obey(void *arg)
{
    struct command *command = arg;
    struct muster_error err = {0};
    void (*run)(const struct command *, struct muster_error *) = others;
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        run = strcmp(commands[i].name, word_of(command, 1)) == 0 ? commands[i].run : run;
    }
    run(command, &err);
    free(command->line);
    free(command);
    return NULL;
}

static struct command *read_command(void)
{
    struct command *command = calloc(1, sizeof *command);
    size_t room = 0;
    if (command == NULL) {
        return NULL;
    }
    ssize_t size = getline(&command->line, &room, stdin);
    if (size <= 0) {
        free(command->line);
        free(command);
        return NULL;
    }
    command->line[size - 1] = '\0';
    for (char *at = command->line; at != NULL && command->count < WORDS_MAX;) {
        char *end = strchr(at, '\t');
        command->word[command->count++] = at;
        if (end != NULL) {
            *end++ = '\0';
        }
        at = end;
    }
    return command;
}

static void tell(void *ctx, enum muster_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)fprintf(stderr, "%s\n", line);
}

int main(void)
{
    struct muster_client_options options = MUSTER_CLIENT_OPTIONS_INIT;
    struct muster_cluster_counts now = MUSTER_CLUSTER_COUNTS_INIT;
    struct muster_error err = {0};
    struct command *command;
    muster_client *client = NULL;
    pthread_t thread;

    options.role = MUSTER_ROLE_WORKER;
    options.index = PLACE;
    options.log = tell;
    if (muster_client_open(&client, &options, -1, &err) != MUSTER_OK ||
        muster_cluster_open(&cluster, client, NULL, -1, &err) != MUSTER_OK) {
        (void)fprintf(stderr, "driver: %s\n", err.text);
        return 1;
    }
    muster_cluster_look(cluster, &now);
    printf("open\t%" PRIu64 "\n", now.term);
    (void)fflush(stdout);
    while ((command = read_command()) != NULL) {
        if (command->word[0][0] == '&') {
            if (pthread_create(&thread, NULL, obey, command) != 0) {
                return 3;
            }
            (void)pthread_detach(thread);
        } else {
            (void)obey(command);
        }
    }
    return 0;
}
