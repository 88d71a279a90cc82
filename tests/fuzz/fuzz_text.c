/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts, launchers' variables, settings, addresses and secrets hold anything. What is
 * accepted makes sense; the rest is refused in one line, whatever was in it.
 *
 * The first byte says which.
 *
 * behaviour: fuzzing / Fuzzing, races, leaks */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/panic.h"
#include "bytes.h"
#include "discover/discover.h"
#include "discover/launchers.h"
#include "discover/nodelist.h"
#include "fuzz.h"
#include "net/address.h"
#include "net/secret.h"
#include "proto/run_keys.h"
#include "proto/settings.h"

enum { ROOM = 512, SHORT = 12, VARIABLES = 24, HOSTS = 50, HOST_BYTES = 254, RANKS = 1000 };

/* ---- lists of Slurm ---- */

/* As many names as were counted, and each in any room that is large enough. */
static void list_of_hosts(struct fuzz_bytes *input)
{
    uint32_t count = 0;
    char list[ROOM], name[ROOM + 64], small[SHORT];

    fuzz_text(input, ROOM, list, sizeof list);
    if (!mst_nodelist_count(list, &count)) {
        MST_ASSERT(!mst_nodelist_at(list, 0, name, sizeof name));
        return;
    }
    MST_ASSERT(count > 0 && count <= MST_NODELIST_MAX);
    for (uint32_t at = 0; at < count && at < HOSTS; at++) {
        if (!mst_nodelist_at(list, at, name, sizeof name)) { /* longer than a host's can be */
            MST_ASSERT(strlen(list) > HOST_BYTES);
            continue;
        }
        MST_ASSERT(strlen(name) > 0 && strlen(name) < sizeof name);
        MST_ASSERT(mst_nodelist_at(list, at, small, sizeof small) == (strlen(name) < sizeof small));
    }
    MST_ASSERT(!mst_nodelist_at(list, count, name, sizeof name));
}

static void list_of_counts(struct fuzz_bytes *input)
{
    struct mst_task_counts counts = {0}, last = {0};
    uint32_t node = (uint32_t)fuzz_number(input, 2);
    char list[ROOM];

    fuzz_text(input, ROOM, list, sizeof list);
    if (!mst_task_counts_read(list, node, &counts)) {
        return;
    }
    MST_ASSERT(counts.nodes > 0 && counts.here <= counts.tasks);
    MST_ASSERT(mst_task_counts_read(list, counts.nodes, &last) && last.here == 0);
}

/* ---- the variables of launchers ---- */

static const char *const others[] = {
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_STEP_NODELIST",
    "SLURM_STEP_ID",
    "SLURM_NNODES",
    "SLURM_TASKS_PER_NODE",
    "SLURM_STEP_TASKS_PER_NODE",
    "SLURM_JOB_NUM_NODES",
    "SLURM_STEP_NUM_NODES",
    "KUBERNETES_SERVICE_HOST",
    "JOB_COMPLETION_INDEX",
    "TPU_WORKER_HOSTNAMES",
    "TPU_WORKER_ID",
    "HOSTNAME",
    "MASTER_ADDR",
    "MUSTER_JOB",
    "MUSTER_INDEX",
    "MUSTER_SIZE",
    "HOROVOD_RANK",
    "FLUX_JOB_ID",
    "PMI_RANK",
    "TORCHELASTIC_RUN_ID",
};

struct variables {
    uint32_t count;
    const char *names[VARIABLES];
    char values[VARIABLES][64];
};

static const char *get(void *ctx, const char *name)
{
    const struct variables *variables = ctx;

    for (uint32_t i = 0; i < variables->count; i++) {
        if (variables->names[i] && strcmp(variables->names[i], name) == 0) {
            return variables->values[i];
        }
    }
    return NULL;
}

static bool no_file(void *ctx, const char *path, char *text, size_t room)
{
    (void)ctx;
    (void)path;
    (void)text;
    (void)room;
    return false;
}

static const char *some_name(struct fuzz_bytes *input)
{
    const struct mst_launcher_row *row = &mst_launcher_rows[fuzz_below(input, MST_LAUNCHER_NONE)];
    const char *const names[] = {row->sign,       row->rank,       row->size,       row->size_else,
                                 row->with,       row->local_rank, row->local_size, row->node_rank,
                                 row->node_count, row->job};
    uint64_t at = fuzz_below(input, 16);

    if (at < sizeof names / sizeof names[0]) {
        return names[at];
    }
    return others[fuzz_below(input, sizeof others / sizeof others[0])];
}

/* Half of them small numbers, for they must fit together. */
static void some_value(struct fuzz_bytes *input, char value[64])
{
    uint8_t kind = fuzz_u8(input);

    if (kind & 0x80) {
        fuzz_text(input, kind & 0x3f, value, 64);
    } else {
        value[0] = (char)('0' + kind % 10);
        value[1] = '\0';
    }
}

static bool whole_line(const char *why, size_t room)
{
    return strlen(why) > 0 && strlen(why) < room && !strchr(why, '\n');
}

static void environment(struct fuzz_bytes *input)
{
    static struct mst_discovery discovery;
    struct variables variables = {.count = 0};
    const struct mst_discover_input asked = {.get = get,
                                             .ctx = &variables,
                                             .host = fuzz_below(input, 2) ? "a1" : NULL,
                                             .read = no_file,
                                             .asker = (enum mst_asker)fuzz_below(input, 2)};
    const struct mst_discovered *place = &discovery.place;

    while (input->left > 0 && variables.count < VARIABLES) {
        variables.names[variables.count] = some_name(input);
        some_value(input, variables.values[variables.count]);
        variables.count++;
    }
    if (!mst_discover(&discovery, &asked)) {
        MST_ASSERT(discovery.trap != MST_TRAP_NONE);
        MST_ASSERT(whole_line(discovery.why, sizeof discovery.why));
        return;
    }
    MST_ASSERT(discovery.trap == MST_TRAP_NONE);
    MST_ASSERT(whole_line(discovery.why, sizeof discovery.why));
    /* The user's own index may be beyond the size: a spare's is. */
    MST_ASSERT(place->rank == MST_PLACE_UNKNOWN || place->size == MST_PLACE_UNKNOWN ||
               place->rank < place->size || discovery.launcher == MST_LAUNCHER_MUSTER);
    MST_ASSERT(strlen(place->job) < sizeof place->job);
    if (!get(&variables, "MUSTER_JOB")) { /* which is taken as it is */
        MST_ASSERT(!strchr(place->job, '/') && place->job[0] != '.');
    }
}

/* ---- settings, addresses, secrets ---- */

static void setting(struct fuzz_bytes *input)
{
    const struct mst_setting *row = &mst_settings[fuzz_below(input, mst_setting_count)];
    char text[ROOM], error[256] = "";
    int64_t value = 0;

    fuzz_text(input, ROOM, text, sizeof text);
    MST_ASSERT(mst_setting_find(row->name) == row);
    (void)mst_setting_find(text);
    if (row->unit == MST_UNIT_TEXT) {
        return;
    }
    if (mst_setting_parse(row, text, &value, error, sizeof error) != MUSTER_OK) {
        MST_ASSERT(whole_line(error, sizeof error));
        return;
    }
    MST_ASSERT(row->unit == MST_UNIT_CHOICE || (value >= row->least && value <= row->most));
}

static void address(struct fuzz_bytes *input)
{
    struct mst_address parsed, again;
    struct mst_slice text = fuzz_slice(input, ROOM);

    if (mst_address_parse(&parsed, text)) {
        return;
    }
    MST_ASSERT(strlen(parsed.text) < sizeof parsed.text);
    MST_ASSERT(strlen(parsed.host) < sizeof parsed.host);
    MST_ASSERT(!mst_address_parse(&again, mst_slice_text(parsed.text)));
    MST_ASSERT(again.kind == parsed.kind && again.port == parsed.port);
    MST_ASSERT(strcmp(again.host, parsed.host) == 0);
    MST_ASSERT(mst_address_is_local(&again) == mst_address_is_local(&parsed));
}

static void secret(struct fuzz_bytes *input)
{
    static int fd = -1;
    struct mst_slice bytes = fuzz_slice(input, ROOM);
    struct mst_secret read;
    struct muster_error err;
    size_t size = bytes.size;

    if (fd < 0) {
        fd = memfd_create("secret", MFD_CLOEXEC);
    }
    MST_ASSERT(fd >= 0 && ftruncate(fd, 0) == 0);
    MST_ASSERT(pwrite(fd, bytes.data, bytes.size, 0) == (ssize_t)bytes.size);
    if (size > 0 && ((const char *)bytes.data)[size - 1] == '\n') {
        size--;
    }
    if (mst_secret_read_fd(fd, &read, &err) != MUSTER_OK) {
        MST_ASSERT(size < MST_SECRET_BYTES_MIN || size > MST_SECRET_BYTES_MAX);
        MST_ASSERT(whole_line(err.text, sizeof err.text));
        return;
    }
    MST_ASSERT(read.size == size && memcmp(read.bytes, bytes.data, size) == 0);
    mst_secret_wipe(&read);
}

/* ---- keys of a run ---- */

/* Lines are of bytes that follow each other in the value; what was read of one is read again. */
static void ranks_that_wait(struct mst_slice left)
{
    const char *at = left.data, *end = at + left.size;
    struct mst_run_waits line, same;

    while (mst_run_waits_take(&left, RANKS, &line)) {
        char text[2 * ROOM];
        int size = line.silent ? snprintf(text, sizeof text, MST_WAITS_SILENT "\t")
                               : snprintf(text, sizeof text, "%u\t", (unsigned)line.count);
        const struct mst_slice fields[] = {line.ranks, line.what};
        struct mst_slice again;

        MST_ASSERT(line.count <= RANKS);
        for (unsigned i = 0; i < 2; i++) {
            const char *field = fields[i].data;

            MST_ASSERT(fields[i].size == 0 || (field >= at && field + fields[i].size <= end));
            for (size_t j = 0; j < fields[i].size; j++) {
                MST_ASSERT(field[j] != '\t' && field[j] != '\n');
                text[size++] = field[j];
            }
            at = fields[i].size > 0 ? field + fields[i].size : at;
            text[size++] = i == 0 ? '\t' : '\n';
        }
        again = mst_slice_of(text, (size_t)size);
        MST_ASSERT(mst_run_waits_take(&again, RANKS, &same) && again.size == 0);
        MST_ASSERT(same.silent == line.silent && same.count == line.count &&
                   mst_slice_equal(same.ranks, line.ranks) &&
                   mst_slice_equal(same.what, line.what));
    }
    MST_ASSERT(left.size == 0);
}

/* What was read of a word is read again, alone. */
static void ranks_without_muster(struct mst_slice left)
{
    struct mst_run_plain one, same;

    while (mst_run_plain_take(&left, &one)) {
        char text[32];
        int size = one.more > 0 ? snprintf(text, sizeof text, "+%u", (unsigned)one.more)
                                : snprintf(text, sizeof text, "%u:%u", (unsigned)one.index,
                                           (unsigned)one.pid);
        struct mst_slice again = mst_slice_of(text, (size_t)size);

        MST_ASSERT(mst_run_plain_take(&again, &same) && again.size == 0);
        MST_ASSERT(same.index == one.index && same.pid == one.pid && same.more == one.more);
    }
}

/* What is read of a key that a node writes is written as the same again. */
static void run_key(struct fuzz_bytes *input)
{
    static const char *const names[] = {"all", "finished/3", "life/3", "restarts", "end", "cause"};
    struct mst_slice own = fuzz_slice(input, SHORT);
    uint64_t at = fuzz_below(input, 2 * sizeof names / sizeof names[0]);
    struct mst_slice name = at < sizeof names / sizeof names[0] ? mst_slice_text(names[at]) : own;
    struct mst_slice value = fuzz_slice(input, ROOM);
    char room[MST_RUN_VALUE_ROOM] = "";
    struct mst_run_word word, again;
    struct mst_run_peer peer, same;

    if (mst_run_key_read(name, value, &word)) {
        MST_ASSERT(word.code >= 0 && word.code <= MST_RUN_CODE_MAX);
        if (word.key == MST_RUN_KEY_ALL) {
            mst_run_all_write(room, &word.all);
        } else if (word.key == MST_RUN_KEY_END) {
            MST_ASSERT(word.code <= MST_RUN_SIGNAL_MAX);
            mst_run_end_write(room, word.number, word.code);
        }
        if (room[0] != '\0') {
            MST_ASSERT(mst_run_key_read(name, mst_slice_text(room), &again));
            MST_ASSERT(word.number == again.number && word.code == again.code);
            MST_ASSERT(word.all.life == again.all.life && word.all.done == again.all.done &&
                       word.all.runs == again.all.runs &&
                       word.all.ender_gone == again.all.ender_gone);
        }
    }
    if (mst_run_peer_read(name, value, &peer)) {
        mst_run_peer_write(room, peer.state, peer.life);
        MST_ASSERT(mst_run_peer_read(name, mst_slice_text(room), &same));
        MST_ASSERT(peer.number == same.number && peer.state == same.state &&
                   peer.life == same.life);
    }
    ranks_that_wait(value);
    ranks_without_muster(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const parsers[])(struct fuzz_bytes * input) = {
        list_of_hosts, list_of_counts, environment, setting, address, secret, run_key};
    struct fuzz_bytes input = {.at = data, .left = size};

    parsers[fuzz_below(&input, sizeof parsers / sizeof parsers[0])](&input);
    return 0;
}
