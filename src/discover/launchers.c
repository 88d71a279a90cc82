/* SPDX-License-Identifier: Apache-2.0 */
#include "discover/launchers.h"

#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "discover/nodelist.h"
#include "discover/number.h"

#define VALUE_SHOWN 48 /* bytes of a variable's value in a line */

const char *mst_discover_get(const struct mst_discover_input *input, const char *name)
{
    const char *value = name ? input->get(input->ctx, name) : NULL;

    return value && *value ? value : NULL;
}

bool mst_discover_same(const char *a, const char *b)
{
    return mst_slice_equal(mst_slice_text(a), mst_slice_text(b));
}

bool mst_discover_begins(const char *text, const char *with)
{
    return mst_slice_starts_with(mst_slice_text(text), mst_slice_text(with));
}

/* ---- lines ---- */

static bool is_cut(const char *value)
{
    return strlen(value) > VALUE_SHOWN;
}

/* The beginning of a variable's value. */
#define VALUE "%s=%.*s%s"
#define VALUE_ARGS(name, value)                                                                    \
    (name), is_cut(value) ? VALUE_SHOWN : (int)strlen(value), (value), is_cut(value) ? "..." : ""

static void broken(struct mst_row *row, const char *name, const char *value, const char *why)
{
    row->state = MST_ROW_BROKEN;
    mst_text_print(row->why, sizeof row->why, VALUE " is %s", VALUE_ARGS(name, value), why);
}

static void half(struct mst_row *row, const char *name, const char *value, const char *missing)
{
    row->state = MST_ROW_HALF;
    mst_text_print(row->why, sizeof row->why, VALUE " is set, but %s is not",
                   VALUE_ARGS(name, value), missing);
}

static void absent(struct mst_row *row, const char *what)
{
    row->state = MST_ROW_ABSENT;
    mst_text_print(row->why, sizeof row->why, "no %s", what);
}

/* ---- numbers ---- */

/* Not set is not wrong. False: it is set to nonsense, and the row says so. */
static bool number(struct mst_row *row, const struct mst_discover_input *input, const char *name,
                   uint32_t *out)
{
    const char *value = mst_discover_get(input, name);
    uint64_t found;

    if (!value) {
        return true;
    }
    if (!mst_number_parse(value, MST_PLACES_MAX, &found)) {
        broken(row, name, value, "no number from 0 to 1000000");
        return false;
    }
    *out = (uint32_t)found;
    return true;
}

/* A number that must be below another, where both are known. */
static bool below(struct mst_row *row, const struct mst_discover_input *input, uint32_t small,
                  uint32_t large, const char *small_name, const char *large_name)
{
    const char *value = mst_discover_get(input, small_name);
    const char *bound = mst_discover_get(input, large_name);

    if (small == MST_PLACE_UNKNOWN || large == MST_PLACE_UNKNOWN || small < large || !value ||
        !bound) {
        return true;
    }
    row->state = MST_ROW_BROKEN;
    mst_text_print(row->why, sizeof row->why, VALUE " is not below " VALUE,
                   VALUE_ARGS(small_name, value), VALUE_ARGS(large_name, bound));
    return false;
}

/* The variable with the size; NULL: this launcher has none. */
static const char *size_variable(const struct mst_launcher_row *from,
                                 const struct mst_discover_input *input)
{
    return mst_discover_get(input, from->size)        ? from->size
           : mst_discover_get(input, from->size_else) ? from->size_else
                                                      : from->size;
}

static bool read_numbers(struct mst_row *row, const struct mst_launcher_row *from,
                         const struct mst_discover_input *input)
{
    struct mst_discovered *place = &row->place;

    return number(row, input, from->rank, &place->rank) &&
           number(row, input, size_variable(from, input), &place->size) &&
           number(row, input, from->local_rank, &place->local_rank) &&
           number(row, input, from->local_size, &place->local_size) &&
           number(row, input, from->node_rank, &place->node_rank) &&
           number(row, input, from->node_count, &place->node_count) &&
           (from->word == mst_launcher_rows[MST_LAUNCHER_MUSTER].word || /* a spare's is not */
            below(row, input, place->rank, place->size, from->rank, size_variable(from, input))) &&
           below(row, input, place->local_rank, place->local_size, from->local_rank,
                 from->local_size) &&
           below(row, input, place->node_rank, place->node_count, from->node_rank,
                 from->node_count);
}

/* ---- names ---- */

static bool fit_for_file(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

/* "<word>-<id>", the id's other characters as dashes. What was changed or cut is made up for by a
 * digest, so two ids never get one name. */
static void name_job(struct mst_discovered *place, const char *word, const char *id,
                     const char *second)
{
    enum { PLAIN_MAX = 44 }; /* and 17 for the digest */
    char plain[PLAIN_MAX];
    struct mst_text text = mst_text_in(plain, sizeof plain);
    uint64_t digest = mst_digest_slice(MST_DIGEST_INIT, mst_slice_text(id));
    bool same = true;

    mst_text_format(&text, "%s-", word);
    for (const char *part = id; part; part = part == id ? second : NULL) {
        if (part == second) {
            digest = mst_digest_slice(digest, mst_slice_text(second));
            mst_text_add(&text, "-");
        }
        for (const char *c = part; *c; c++) {
            bool fits = text.size + 1 < sizeof plain;

            same = same && fits && fit_for_file(*c);
            if (fits) {
                mst_text_format(&text, "%c", fit_for_file(*c) ? *c : '-');
            }
        }
    }
    if (same) {
        mst_text_print(place->job, sizeof place->job, "%s", plain);
    } else {
        mst_text_print(place->job, sizeof place->job, "%s-%" PRIx64, plain, digest);
    }
}

static bool one_of(char c, const char *all)
{
    while (*all && *all != c) {
        all++;
    }
    return *all != '\0';
}

/* Up to one of `ends`, or what is in the brackets of "[::1]:PORT". Too long: left empty. */
static void take_host(struct mst_discovered *place, const char *from, const char *ends)
{
    size_t size = 0;

    if (*from == '[') {
        from++;
        ends = "]";
    }
    while (from[size] && !one_of(from[size], ends)) {
        size++;
    }
    if (size < sizeof place->host) {
        memcpy(place->host, from, size);
        place->host[size] = '\0';
    }
}

/* ---- what no column says ---- */

static void more_muster(struct mst_row *row, const struct mst_discover_input *input)
{
    const char *addr = mst_discover_get(input, "MUSTER_ADDR");

    if (addr && !mst_discover_begins(addr, "unix:")) {
        take_host(&row->place, addr, ":,");
    }
}

/* The default id of a run is "none": then the port distinguishes two runs. */
static void more_torchrun(struct mst_row *row, const struct mst_discover_input *input)
{
    const char *id = mst_discover_get(input, "TORCHELASTIC_RUN_ID");
    const char *addr = mst_discover_get(input, "MASTER_ADDR");
    const char *port = mst_discover_get(input, "MASTER_PORT");

    if (id && !mst_discover_same(id, "none")) {
        name_job(&row->place, "torchrun", id, NULL);
    } else if (addr) {
        name_job(&row->place, "torchrun", addr, port);
    }
    if (addr) {
        take_host(&row->place, addr, "");
    }
}

/* "1234.0;tcp://10.0.0.1,192.168.0.1:4711", version 4; version 5 has none. */
static void more_openmpi(struct mst_row *row, const struct mst_discover_input *input)
{
    const char *uri = mst_discover_get(input, "OMPI_MCA_orte_hnp_uri");

    for (; uri && *uri; uri++) {
        if (mst_discover_begins(uri, "://")) {
            take_host(&row->place, uri + 3, ",:;");
            return;
        }
    }
}

/* A name per line, the first of the node that jsrun itself runs on, which has no ranks. */
static void take_second_line(struct mst_discovered *place, const char *lines)
{
    while (*lines && *lines != '\n') {
        lines++;
    }
    if (*lines) {
        take_host(place, lines + 1, " \t\r\n");
    }
}

/* jsrun may start several sets of ranks in one job of LSF. */
static void more_jsrun(struct mst_row *row, const struct mst_discover_input *input)
{
    const char *id = mst_discover_get(input, "LSB_JOBID");
    const char *set = mst_discover_get(input, "PMIX_NAMESPACE");
    const char *hosts = mst_discover_get(input, "LSB_DJOB_RANKFILE");
    char lines[2 * MST_DISCOVER_HOST_ROOM];

    if (hosts && input->read && input->read(input->ctx, hosts, lines, sizeof lines)) {
        take_second_line(&row->place, lines);
    }

    if (id && set) {
        name_job(&row->place, "jsrun", id, set);
    }
}

/* The entry of this node is its share, if the lists agree with the numbers. */
static void read_step(struct mst_discovered *place, const struct mst_discover_input *input)
{
    const char *counts = mst_discover_get(input, "SLURM_STEP_TASKS_PER_NODE");
    const char *hosts = mst_discover_get(input, "SLURM_STEP_NODELIST");
    struct mst_task_counts tasks;
    uint32_t nodes;

    if (counts && mst_task_counts_read(counts, place->node_rank, &tasks) &&
        tasks.tasks == place->size && place->node_rank != MST_PLACE_UNKNOWN && tasks.here > 0 &&
        (place->local_rank == MST_PLACE_UNKNOWN || place->local_rank < tasks.here)) {
        place->local_size = tasks.here;
    }
    if (hosts && mst_nodelist_count(hosts, &nodes)) {
        if (place->node_count == MST_PLACE_UNKNOWN) {
            place->node_count = nodes;
        }
        (void)mst_nodelist_at(hosts, 0, place->host, sizeof place->host);
    }
}

/* The steps that are no srun of the user's: the batch script, an interactive shell, and the like.
 */
#define SLURM_OWN_STEPS 4294967040u

static void more_slurm(struct mst_row *row, const struct mst_discover_input *input)
{
    const char *job = mst_discover_get(input, "SLURM_JOB_ID");
    const char *step = mst_discover_get(input, "SLURM_STEP_ID");
    uint64_t id;

    if (!mst_number_parse(step, UINT32_MAX, &id)) {
        broken(row, "SLURM_STEP_ID", step, "no number of a step");
        return;
    }
    if (id >= SLURM_OWN_STEPS) {
        absent(row, "step of srun: SLURM_STEP_ID is the allocation's own");
        return;
    }
    read_step(&row->place, input);
    if (job) {
        struct mst_text text = mst_text_in(row->place.job, sizeof row->place.job);

        name_job(&row->place, "slurm", job, NULL);
        text.size = strlen(row->place.job);
        mst_text_format(&text, ".%" PRIu64, id);
    }
}

static uint32_t count_list(const char *list)
{
    uint32_t count = 1;

    for (; *list; list++) {
        count += *list == ',';
    }
    return count;
}

/* One process per host, or per address; several slices follow one another. */
static void more_tpu(struct mst_row *row, const struct mst_discover_input *input)
{
    const char *hosts = mst_discover_get(input, "TPU_WORKER_HOSTNAMES");
    const char *addresses = mst_discover_get(input, "TPU_PROCESS_ADDRESSES");
    const char *coordinator = mst_discover_get(input, "MEGASCALE_COORDINATOR_ADDRESS");
    const char *worker = mst_discover_get(input, "TPU_WORKER_ID");
    const char *list = addresses ? addresses : hosts;
    uint32_t slices = 1, slice = 0, workers;

    if (!list) {
        half(row, "TPU_WORKER_ID", worker, "TPU_WORKER_HOSTNAMES");
        return;
    }
    workers = count_list(list);
    if (!number(row, input, "MEGASCALE_NUM_SLICES", &slices) ||
        !number(row, input, "MEGASCALE_SLICE_ID", &slice) ||
        !below(row, input, slice, slices, "MEGASCALE_SLICE_ID", "MEGASCALE_NUM_SLICES")) {
        return;
    }
    if (slices > 1 && !mst_discover_get(input, "MEGASCALE_SLICE_ID")) {
        half(row, "MEGASCALE_NUM_SLICES", mst_discover_get(input, "MEGASCALE_NUM_SLICES"),
             "MEGASCALE_SLICE_ID");
        return;
    }
    if (row->place.rank >= workers || (uint64_t)workers * slices > MST_PLACES_MAX) {
        broken(row, "TPU_WORKER_ID", worker, "beyond the list of workers");
        return;
    }
    row->place.rank += slice * workers;
    row->place.size = workers * slices;
    take_host(&row->place, coordinator ? coordinator : list, ",:");
}

/* A pod of an indexed Job is named "<job>-<index>". */
static void more_kubernetes(struct mst_row *row, const struct mst_discover_input *input)
{
    struct mst_discovered *place = &row->place;
    char job[MST_DISCOVER_HOST_ROOM];
    size_t size = input->host ? strlen(input->host) : 0;

    while (size > 0 && input->host[size - 1] >= '0' && input->host[size - 1] <= '9') {
        size--;
    }
    if (size < 2 || size >= sizeof job || input->host[size - 1] != '-' || !input->host[size]) {
        return;
    }
    memcpy(job, input->host, size - 1);
    job[size - 1] = '\0';
    name_job(place, "kubernetes", job, NULL);
    mst_text_print(place->host, sizeof place->host, "%s-0", job);
}

/* ---- the table ---- */

const struct mst_launcher_row mst_launcher_rows[MST_LAUNCHER_NONE] = {
    [MST_LAUNCHER_MUSTER] = {.name = "muster",
                             .word = "muster",
                             .sign = "MUSTER_INDEX",
                             .rank = "MUSTER_INDEX",
                             .size = "MUSTER_SIZE",
                             .size_optional = true,
                             .node_rank = "MUSTER_NODE",
                             .more = more_muster},
    [MST_LAUNCHER_TORCHRUN] = {.name = "torchrun",
                               .word = "torchrun",
                               .sign = "TORCHELASTIC_RUN_ID",
                               .rank = "RANK",
                               .size = "WORLD_SIZE",
                               .with = "MASTER_ADDR",
                               .local_rank = "LOCAL_RANK",
                               .local_size = "LOCAL_WORLD_SIZE",
                               .node_rank = "GROUP_RANK",
                               .node_count = "GROUP_WORLD_SIZE",
                               .start = "torchrun",
                               .common = true,
                               .more = more_torchrun},
    [MST_LAUNCHER_OPENMPI] = {.name = "Open MPI",
                              .word = "openmpi",
                              .sign = "OMPI_COMM_WORLD_RANK",
                              .rank = "OMPI_COMM_WORLD_RANK",
                              .size = "OMPI_COMM_WORLD_SIZE",
                              .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
                              .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                              .job = "PMIX_NAMESPACE",
                              .start = "mpirun",
                              .more = more_openmpi},
    [MST_LAUNCHER_MVAPICH] = {.name = "MVAPICH",
                              .word = "mvapich",
                              .sign = "MV2_COMM_WORLD_RANK",
                              .rank = "MV2_COMM_WORLD_RANK",
                              .size = "MV2_COMM_WORLD_SIZE",
                              .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
                              .local_size = "MV2_COMM_WORLD_LOCAL_SIZE",
                              .start = "mpirun"},
    [MST_LAUNCHER_HYDRA] = {.name = "PMI (MPICH, Intel MPI)",
                            .word = "mpich",
                            .sign = "PMI_RANK",
                            .rank = "PMI_RANK",
                            .size = "PMI_SIZE",
                            .local_rank = "MPI_LOCALRANKID",
                            .local_size = "MPI_LOCALNRANKS",
                            .start = "mpiexec"},
    [MST_LAUNCHER_PALS] = {.name = "PALS (Cray mpiexec)",
                           .word = "pals",
                           .sign = "PALS_RANKID",
                           .rank = "PALS_RANKID",
                           .size = "PALS_SIZE",
                           .size_else = "PMI_SIZE",
                           .local_rank = "PALS_LOCAL_RANKID",
                           .local_size = "PALS_LOCAL_SIZE",
                           .node_rank = "PALS_NODEID",
                           .job = "PALS_APID",
                           .start = "mpiexec"},
    [MST_LAUNCHER_JSRUN] = {.name = "jsrun",
                            .word = "jsrun",
                            .sign = "JSM_NAMESPACE_RANK",
                            .rank = "JSM_NAMESPACE_RANK",
                            .size = "JSM_NAMESPACE_SIZE",
                            .local_rank = "JSM_NAMESPACE_LOCAL_RANK",
                            .job = "LSB_JOBID",
                            .start = "jsrun",
                            .more = more_jsrun},
    [MST_LAUNCHER_FLUX] = {.name = "Flux",
                           .word = "flux",
                           .sign = "FLUX_TASK_RANK",
                           .rank = "FLUX_TASK_RANK",
                           .size = "FLUX_JOB_SIZE",
                           .local_rank = "FLUX_TASK_LOCAL_ID",
                           .node_count = "FLUX_JOB_NNODES",
                           .job = "FLUX_JOB_ID",
                           .start = "flux run"},
    [MST_LAUNCHER_PMIX] = {.name = "PMIx",
                           .word = "pmix",
                           .sign = "PMIX_RANK",
                           .rank = "PMIX_RANK",
                           .size = "MUSTER_SIZE",
                           .with = "PMIX_NAMESPACE",
                           .job = "PMIX_NAMESPACE"},
    [MST_LAUNCHER_SLURM] = {.name = "Slurm",
                            .word = "slurm",
                            .sign = "SLURM_STEP_ID",
                            .rank = "SLURM_PROCID",
                            .size = "SLURM_STEP_NUM_TASKS",
                            .size_else = "SLURM_NTASKS",
                            .with = "SLURM_STEP_NODELIST",
                            .local_rank = "SLURM_LOCALID",
                            .node_rank = "SLURM_NODEID",
                            .node_count = "SLURM_STEP_NUM_NODES",
                            .start = "srun",
                            .more = more_slurm},
    [MST_LAUNCHER_TPU] = {.name = "Cloud TPU",
                          .word = "tpu",
                          .sign = "TPU_WORKER_ID",
                          .rank = "TPU_WORKER_ID",
                          .common = true,
                          .more = more_tpu},
    [MST_LAUNCHER_KUBERNETES] = {.name = "Kubernetes indexed Job",
                                 .word = "kubernetes",
                                 .rank = "JOB_COMPLETION_INDEX",
                                 .size = "MUSTER_SIZE",
                                 .with = "KUBERNETES_SERVICE_HOST",
                                 .node_rank = "JOB_COMPLETION_INDEX",
                                 .common = true,
                                 .more = more_kubernetes},
    [MST_LAUNCHER_HOROVOD] = {.name = "Horovod",
                              .word = "horovod",
                              .sign = "HOROVOD_RANK",
                              .rank = "HOROVOD_RANK",
                              .size = "HOROVOD_SIZE",
                              .local_rank = "HOROVOD_LOCAL_RANK",
                              .local_size = "HOROVOD_LOCAL_SIZE",
                              .node_rank = "HOROVOD_CROSS_RANK",
                              .start = "horovodrun"},
};

/* ---- one row ---- */

/* How many pods there are is no agent's business before it runs: --nnodes says it. */
static bool needs_size(const struct mst_launcher_row *from, const struct mst_discover_input *input)
{
    return from->size && !from->size_optional &&
           (input->asker == MST_ASKER_RANK || from != &mst_launcher_rows[MST_LAUNCHER_KUBERNETES]);
}

/* What is needed and not there; NULL: nothing. */
static const char *missing_of(const struct mst_launcher_row *from,
                              const struct mst_discover_input *input)
{
    if (!mst_discover_get(input, from->rank)) {
        return from->rank;
    }
    if (from->with && !mst_discover_get(input, from->with)) {
        return from->with;
    }
    if (needs_size(from, input) && !mst_discover_get(input, size_variable(from, input))) {
        return from->size;
    }
    return NULL;
}

static void say_complete(struct mst_row *row, const struct mst_launcher_row *from,
                         const struct mst_discover_input *input)
{
    const struct mst_discovered *place = &row->place;
    struct mst_text text = mst_text_in(row->why, sizeof row->why);

    row->state = MST_ROW_COMPLETE;
    mst_text_format(&text, VALUE ": rank %u",
                    VALUE_ARGS(from->rank, mst_discover_get(input, from->rank)), place->rank);
    if (place->size != MST_PLACE_UNKNOWN) {
        mst_text_format(&text, " of %u", place->size);
    }
}

/* The user's -1 is "any place", which is no place. */
static bool says_any(const struct mst_launcher_row *from, const char *value)
{
    return from == &mst_launcher_rows[MST_LAUNCHER_MUSTER] && mst_discover_same(value, "-1");
}

void mst_launcher_read(struct mst_row *row, enum mst_launcher launcher,
                       const struct mst_discover_input *input)
{
    const struct mst_launcher_row *from = &mst_launcher_rows[launcher];
    const char *sign = from->sign ? from->sign : from->rank;
    const char *value = mst_discover_get(input, sign);
    const char *missing = missing_of(from, input);
    const char *job = mst_discover_get(input, from->job);

    memset(row, 0, sizeof *row);
    row->place.rank = row->place.size = MST_PLACE_UNKNOWN;
    row->place.local_rank = row->place.local_size = MST_PLACE_UNKNOWN;
    row->place.node_rank = row->place.node_count = MST_PLACE_UNKNOWN;
    if (!value && from->common) {
        sign = from->rank;
        value = mst_discover_get(input, sign);
    }
    if (!value || says_any(from, value)) {
        absent(row, from->sign ? from->sign : from->rank);
        return;
    }
    if (missing) {
        half(row, sign, value, missing);
        return;
    }
    if (!read_numbers(row, from, input)) {
        return;
    }
    if (from->size && !from->size_optional && !needs_size(from, input)) {
        row->place.size = MST_PLACE_UNKNOWN;
    }
    row->state = MST_ROW_COMPLETE;
    if (job) {
        name_job(&row->place, from->word, job, NULL);
    }
    if (from->more) {
        from->more(row, input);
    }
    if (row->state == MST_ROW_COMPLETE) {
        say_complete(row, from, input);
    }
}
