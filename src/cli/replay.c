/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/print.h"
#include "cli/replay.h"
#include "os/clock.h"
#include "service/server/log.h"

struct story {
    struct mst_cli_record record;
    enum mst_level level;
    const char *job; /* empty: all */
    bool json;       /* one document: {"lines": [...], the fields of the last line} */
    bool lined;
};

/* ---- lines ---- */

/* The time of day, by the core's clock. */
static struct timespec time_of(const struct mst_replayed *about, uint64_t now_ns)
{
    return mst_clock_timespec(about->wall_ns + (now_ns - about->begin_ns));
}

/* The story may be long: each line is printed at once. */
static void put_json(struct story *story, json_t *line)
{
    mst_cli_put("%s", story->lined ? ",\n" : "\n");
    (void)json_dumpf(line, stdout, MST_CLI_JSON);
    json_decref(line);
    story->lined = true;
}

static json_t *line_json(const char *time, enum mst_level level, const char *component)
{
    return mst_cli_json_object(
        (struct mst_cli_field[]){{"time", json_string(time)},
                                 {"level", json_string(mst_log_level(level))},
                                 {"component", json_string(component)},
                                 {NULL, NULL}});
}

static void on_trace(void *ctx, const struct mst_trace *line)
{
    struct story *story = ctx;
    struct timespec at = time_of(&story->record.about, line->now_ns);
    char time[MST_LOG_TIME_ROOM], text[MST_LOG_STORY_ROOM];

    if (line->level > story->level ||
        (*story->job != '\0' && (line->job.size != strlen(story->job) ||
                                 memcmp(line->job.data, story->job, line->job.size) != 0))) {
        return;
    }
    (void)mst_log_time(time, &at);
    if (story->json) {
        json_t *object = line_json(time, line->level, "core");

        mst_cli_json_put(object, "job",
                         mst_cli_json_bytes((struct muster_slice){.data = line->job.data,
                                                                  .size = line->job.size}));
        mst_cli_json_put(object, "text", mst_cli_json_text(line->text));
        put_json(story, object);
        return;
    }
    mst_log_story(text, line);
    mst_cli_put("%s %s core %s\n", time, mst_log_level(line->level), text);
}

/* A service began, so the one before it has ended. */
static void on_begun(void *ctx)
{
    struct story *story = ctx;
    struct timespec at = time_of(&story->record.about, story->record.about.begin_ns);
    char time[MST_LOG_TIME_ROOM];

    (void)mst_log_time(time, &at);
    if (story->json) {
        json_t *object = line_json(time, MST_INFO, "record");

        mst_cli_json_put(object, "file", json_string(story->record.path));
        mst_cli_json_put(object, "version", json_string(story->record.about.version));
        put_json(story, object);
    } else if (story->level >= MST_INFO) {
        mst_cli_put("%s info record record-begun file=%s\n", time, story->record.path);
    }
}

static void put_last(const struct story *story)
{
    const struct mst_replayed *about = &story->record.about;
    char digest[20];

    (void)snprintf(digest, sizeof digest, "%016" PRIx64, about->digest);
    if (story->json) {
        json_t *object = mst_cli_json_object(
            (struct mst_cli_field[]){{"files", json_integer((json_int_t)story->record.files)},
                                     {"inputs", json_integer((json_int_t)story->record.inputs)},
                                     {"seconds", json_real((double)story->record.time_ns / 1e9)},
                                     {"digest", json_string(digest)},
                                     {"recorded", json_boolean(about->stopped)},
                                     {"torn_bytes", json_integer((json_int_t)about->cut_bytes)},
                                     {NULL, NULL}});
        char *text = json_dumps(object, MST_CLI_JSON);

        mst_cli_put("],\n%s\n", text ? text + 1 : "}"); /* they are of the same object */
        free(text);
        json_decref(object);
        return;
    }
    mst_cli_put("replayed %" PRIu64 " input%s of %" PRIu64 " %s over %.3f s: digest %s, %s\n",
                story->record.inputs, story->record.inputs == 1 ? "" : "s", story->record.files,
                story->record.files == 1 ? "service" : "services",
                (double)story->record.time_ns / 1e9, digest,
                about->stopped ? "as recorded"
                               : "none was recorded: the service did not stop in order");
}

/* ---- files ---- */

static void *heap_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return malloc(size);
}

static void heap_release(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static int replay_bytes(struct mst_cli_record *record, struct mst_slice bytes)
{
    const struct mst_mem mem = {.alloc = heap_alloc, .release = heap_release};
    struct muster_error err;
    muster_status status;

    record->config.about = &record->about;
    status = mst_replay(&record->config, record->path, bytes, &mem, &err);
    if (record->over) {
        record->over(record->config.ctx);
    }
    record->files++;
    record->inputs += record->about.inputs;
    record->time_ns += record->about.now_ns - record->about.begin_ns;
    if (status != MUSTER_OK) {
        (void)fflush(stdout);
        return mst_cli_fail(record->cli, "%s", err.text);
    }
    return MST_CLI_OK;
}

/* A record may be larger than the memory. */
static int replay_file(struct mst_cli_record *record)
{
    const char *path = record->path;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    void *bytes = MAP_FAILED;
    int code;

    if (fd < 0 || fstat(fd, &about) != 0) {
        code = mst_cli_fail(record->cli, "%s: %s", path, strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return code;
    }
    if (about.st_size == 0) {
        (void)close(fd);
        return replay_bytes(record, mst_slice_of("", 0));
    }
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (bytes == MAP_FAILED) {
        return mst_cli_fail(record->cli, "%s: %s", path, strerror(errno));
    }
    code = replay_bytes(record, mst_slice_of(bytes, (size_t)about.st_size));
    (void)munmap(bytes, (size_t)about.st_size);
    return code;
}

static int is_record(const struct dirent *entry)
{
    uint64_t sequence;

    return mst_record_name_read(entry->d_name, &sequence);
}

/* All names have as many digits: their order is that of the services. */
static int replay_folder(struct mst_cli_record *record, const char *folder)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_record, alphasort);
    int code = MST_CLI_OK;

    if (count < 0) {
        return mst_cli_fail(record->cli, "%s: %s", folder, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        (void)snprintf(record->path, sizeof record->path, "%s/%s", folder, names[i]->d_name);
        if (code == MST_CLI_OK) {
            code = replay_file(record);
        }
        free(names[i]);
    }
    free(names);
    if (count == 0) {
        code = mst_cli_fail(record->cli, "%s: the folder has no record", folder);
    }
    return code;
}

int mst_cli_record_replay(struct mst_cli_record *record, const char *path)
{
    struct stat about;

    if (stat(path, &about) != 0) {
        return mst_cli_fail(record->cli, "%s: %s", path, strerror(errno));
    }
    (void)snprintf(record->path, sizeof record->path, "%s", path);
    return S_ISDIR(about.st_mode) ? replay_folder(record, path) : replay_file(record);
}

static int run(struct mst_cli *cli)
{
    struct story story = {
        .record = {.cli = cli, .config = {.begun = on_begun, .trace = on_trace, .ctx = &story}},
        .level = (enum mst_level)mst_cli_number(cli, "level"),
        .job = mst_cli_typed(cli, "only") ? mst_cli_text(cli, "only") : "",
        .json = mst_cli_number(cli, "json") != 0};
    int code;

    if (cli->argument_count != 1) {
        return mst_cli_usage(cli, "the record is missing; usage: muster replay DIR");
    }
    if (access(cli->arguments[0], F_OK) != 0) {
        return mst_cli_fail(cli, "%s: %s", cli->arguments[0], strerror(errno));
    }
    if (story.json) {
        mst_cli_put("{\"lines\":[");
    }
    code = mst_cli_record_replay(&story.record, cli->arguments[0]);
    if (code == MST_CLI_OK) {
        put_last(&story);
        code = mst_cli_finish_output(cli);
    } else if (story.json) {
        mst_cli_put("]}\n");
    }
    return code;
}

const struct mst_cli_command mst_cli_replay = {
    .name = "replay",
    .arguments = "DIR",
    .summary = "replay the inputs of a recorded service, and print its decisions",
    .details = "DIR is a folder that --record of muster serve or muster run wrote, or one file of "
               "it. Nothing is contacted: the inputs go to a core of its own, which prints the "
               "service's log with the original times. The last line has the digest of the state, "
               "and says whether it equals the recorded one. Replay fails when the digest differs, "
               "when a file is damaged, and when the record is from a version that decides "
               "otherwise. The record of a killed service ends a little early.\n",
    .example = "  muster run -n 4 --record bug -- ./train\n  muster replay bug --level debug\n",
    .run = run,
};
