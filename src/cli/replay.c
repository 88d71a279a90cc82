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
#include "os/clock.h"
#include "service/journal/replay.h"
#include "service/server/log.h"

/* The whole story: of one file, or of all in a folder in their order. */
struct story {
    const struct mst_cli *cli;
    char path[PATH_MAX]; /* of the current file, for errors */
    enum mst_level level;
    const char *job; /* empty: all */
    bool json;       /* one document: {"lines": [...], the fields of the last line} */
    bool lined;
    struct mst_replayed about;
    uint64_t files, inputs, time_ns;
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
    struct timespec at = time_of(&story->about, line->now_ns);
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
    struct timespec at = time_of(&story->about, story->about.begin_ns);
    char time[MST_LOG_TIME_ROOM];

    (void)mst_log_time(time, &at);
    if (story->json) {
        json_t *object = line_json(time, MST_INFO, "record");

        mst_cli_json_put(object, "file", json_string(story->path));
        mst_cli_json_put(object, "version", json_string(story->about.version));
        put_json(story, object);
    } else if (story->level >= MST_INFO) {
        mst_cli_put("%s info record record-begun file=%s\n", time, story->path);
    }
}

static void put_last(const struct story *story)
{
    const struct mst_replayed *about = &story->about;
    char digest[20];

    (void)snprintf(digest, sizeof digest, "%016" PRIx64, about->digest);
    if (story->json) {
        json_t *object = mst_cli_json_object(
            (struct mst_cli_field[]){{"files", json_integer((json_int_t)story->files)},
                                     {"inputs", json_integer((json_int_t)story->inputs)},
                                     {"seconds", json_real((double)story->time_ns / 1e9)},
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
                story->inputs, story->inputs == 1 ? "" : "s", story->files,
                story->files == 1 ? "service" : "services", (double)story->time_ns / 1e9, digest,
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

static int replay_bytes(struct story *story, struct mst_slice bytes)
{
    const struct mst_mem mem = {.alloc = heap_alloc, .release = heap_release};
    const struct mst_replay_config config = {
        .about = &story->about, .begun = on_begun, .trace = on_trace, .ctx = story};
    struct muster_error err;
    muster_status status = mst_replay(&config, story->path, bytes, &mem, &err);

    story->files++;
    story->inputs += story->about.inputs;
    story->time_ns += story->about.now_ns - story->about.begin_ns;
    if (status != MUSTER_OK) {
        (void)fflush(stdout);
        return mst_cli_fail(story->cli, "%s", err.text);
    }
    return MST_CLI_OK;
}

/* A record may be larger than the memory. */
static int replay_file(struct story *story)
{
    const char *path = story->path;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    void *bytes = MAP_FAILED;
    int code;

    if (fd < 0 || fstat(fd, &about) != 0) {
        code = mst_cli_fail(story->cli, "%s: %s", path, strerror(errno));
        if (fd >= 0) {
            (void)close(fd);
        }
        return code;
    }
    if (about.st_size == 0) {
        (void)close(fd);
        return replay_bytes(story, mst_slice_of("", 0));
    }
    bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (bytes == MAP_FAILED) {
        return mst_cli_fail(story->cli, "%s: %s", path, strerror(errno));
    }
    code = replay_bytes(story, mst_slice_of(bytes, (size_t)about.st_size));
    (void)munmap(bytes, (size_t)about.st_size);
    return code;
}

static int is_record(const struct dirent *entry)
{
    uint64_t sequence;

    return mst_record_name_read(entry->d_name, &sequence);
}

/* All names have as many digits: their order is that of the services. */
static int replay_folder(struct story *story, const char *folder)
{
    struct dirent **names;
    int count = scandir(folder, &names, is_record, alphasort);
    int code = MST_CLI_OK;

    if (count < 0) {
        return mst_cli_fail(story->cli, "%s: %s", folder, strerror(errno));
    }
    for (int i = 0; i < count; i++) {
        (void)snprintf(story->path, sizeof story->path, "%s/%s", folder, names[i]->d_name);
        if (code == MST_CLI_OK) {
            code = replay_file(story);
        }
        free(names[i]);
    }
    free(names);
    if (count == 0) {
        code = mst_cli_fail(story->cli, "%s: the folder has no record", folder);
    }
    return code;
}

static int run(struct mst_cli *cli)
{
    struct story story = {.cli = cli,
                          .level = (enum mst_level)mst_cli_number(cli, "level"),
                          .job = mst_cli_typed(cli, "only") ? mst_cli_text(cli, "only") : "",
                          .json = mst_cli_number(cli, "json") != 0};
    const char *path = cli->arguments[0];
    struct stat about;
    int code;

    if (cli->argument_count != 1) {
        return mst_cli_usage(cli, "the record is missing; usage: muster replay DIR");
    }
    if (stat(path, &about) != 0) {
        return mst_cli_fail(cli, "%s: %s", path, strerror(errno));
    }
    if (story.json) {
        mst_cli_put("{\"lines\":[");
    }
    (void)snprintf(story.path, sizeof story.path, "%s", path);
    code = S_ISDIR(about.st_mode) ? replay_folder(&story, path) : replay_file(&story);
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
